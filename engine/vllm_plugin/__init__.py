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

    from engine.vllm_plugin import cpu_runner, start_up, versions

    platform_class = type(current_platform)
    start_up.install(platform_class)
    if current_platform.is_cpu():
        versions.check()
        cpu_runner.install(platform_class)
        start_up.register_model()
