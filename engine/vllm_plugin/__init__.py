"""The vLLM plugin: DiffusionGemma on CPU without triton-cpu, and reads in one engine step.

vLLM calls `register` in each of its processes, through the entry point group
`vllm.general_plugins`. `README.md` lists what it changes and why.
"""

from __future__ import annotations

from engine.vllm_plugin import torchvision_fix

__all__ = ["register", "torchvision_fix"]


def register() -> None:
    """Extend the vLLM of this process. Re-entrant.

    Raises `UnverifiedVllmError` when the installed vLLM is not one this plugin was verified with.
    """
    torchvision_fix.install()
    from vllm.platforms import current_platform

    if not current_platform.is_cpu():
        return  # vLLM's own Triton kernels run there
    from engine.vllm_plugin import cpu_runner, versions

    versions.check()
    cpu_runner.install(type(current_platform))
