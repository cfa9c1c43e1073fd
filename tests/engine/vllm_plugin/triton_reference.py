"""vLLM's own Triton kernels, run by Triton's interpreter: the reference for our kernels.

Without a triton-cpu backend vLLM decorates its kernels with placeholders, which leave the plain
function. Given the real `triton.language` as `tl`, the interpreter runs it on CPU tensors.
"""

from __future__ import annotations

import functools
import importlib
import types
from collections.abc import Callable
from typing import Any


@functools.cache
def kernel(name: str) -> Callable[..., Any]:
    """The kernel of that qualified name, launched as `kernel(name)[grid](*args, **constants)`."""
    import triton
    import triton.language as tl
    import vllm.v1.worker.cpu.shm  # noqa: F401  (before any module of vllm.v1.worker.gpu)
    from triton.runtime.interpreter import InterpretedFunction
    from vllm.triton_utils.dispatcher import _registry

    module_name, attribute = name.rsplit(".", 1)
    module = importlib.import_module(module_name)
    # An engine in this process may have put our kernel in the place of vLLM's.
    original = _registry[name][0] if name in _registry else getattr(module, attribute)
    namespace = {**original.__globals__, "tl": tl, "triton": triton}
    helper = "vllm.v1.worker.gpu.buffer_utils._load_ptr"
    if "_load_ptr" in namespace and name != helper:
        namespace["_load_ptr"] = kernel(helper)
    function = types.FunctionType(
        original.__code__, namespace, original.__name__, original.__defaults__
    )
    function.__annotations__ = original.__annotations__
    function.__module__ = original.__module__
    return InterpretedFunction(function)
