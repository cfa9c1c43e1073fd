"""Let Model Runner V2, the only one for diffusion models, run on a CPU without triton-cpu.

vLLM refuses that runner without Triton because its batch bookkeeping is Triton kernels. The
kernels of `engine.vllm_plugin.kernels` take their place through vLLM's own dispatcher. Where
triton-cpu works, `HAS_TRITON` is honestly true and everything is left as it is.
"""

from __future__ import annotations

from typing import Any


def install(platform_class: type[Any]) -> None:
    """Make `platform_class` register our kernels and let vLLM accept the runner. Re-entrant."""
    import vllm.config.vllm
    from vllm.triton_utils import HAS_TRITON, triton

    if HAS_TRITON or vllm.config.vllm.HAS_TRITON:
        return
    # Only the configuration's copy: everywhere else the placeholder must stay in use.
    vllm.config.vllm.HAS_TRITON = True
    triton.next_power_of_2 = next_power_of_2
    theirs = platform_class.register_triton_kernel_overrides

    def register_triton_kernel_overrides(cls: type[Any]) -> None:
        theirs()
        register_kernels()

    platform_class.register_triton_kernel_overrides = classmethod(register_triton_kernel_overrides)


def register_kernels() -> None:
    """Put our kernels in place of vLLM's. Re-entrant.

    Called by the worker after plugins are loaded and before the worker class is resolved.
    """
    # Replaces torch functions that modules under vllm.v1.worker.gpu take by name: always first.
    import vllm.v1.worker.cpu.shm  # noqa: F401
    from vllm.triton_utils import dispatcher

    from engine.vllm_plugin.kernels import KERNELS

    dispatcher.register_kernels(
        {name: kernel for name, kernel in KERNELS.items() if name not in dispatcher._registry}
    )


def next_power_of_2(n: int) -> int:
    """The smallest power of two at or above `n` (1 for `n` of 0), as Triton's function."""
    return 1 if n <= 0 else 1 << (n - 1).bit_length()
