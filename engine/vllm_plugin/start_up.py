"""Switch vLLM's scheduler according to the settings, or refuse with the reason."""

from __future__ import annotations

import dataclasses
from typing import Any

from engine.vllm_plugin.settings import Settings, read_settings

ARCHITECTURE = "DiffusionGemmaForBlockDiffusion"
MODEL = "engine.vllm_plugin.model:OnepassDiffusionGemma"
SCHEDULERS = {
    False: "engine.vllm_plugin.counting.CountingScheduler",
    True: "engine.vllm_plugin.single_pass.SinglePassScheduler",
}
"""Scheduler class by `single_pass_reads`; vLLM's own stays where nobody asks for ours."""


class UnsupportedError(ValueError):
    """A setting cannot be had with this vLLM configuration."""


def install(platform_class: type[Any]) -> None:
    """Make vLLM apply the settings whenever it completes a configuration. Re-entrant.

    The platform's `check_and_update_config` is where vLLM lets its surroundings settle a
    configuration, before it picks a scheduler class.
    """
    theirs = platform_class.check_and_update_config
    if getattr(theirs, "_onepass", False):
        return

    def check_and_update_config(cls: type[Any], vllm_config: Any) -> None:
        theirs(vllm_config)
        apply(vllm_config)

    check_and_update_config._onepass = True  # type: ignore[attr-defined]
    platform_class.check_and_update_config = classmethod(check_and_update_config)


def register_model() -> None:
    """Put our subclass in the place of vLLM's DiffusionGemma. Re-entrant."""
    from vllm import ModelRegistry

    ModelRegistry.register_model(ARCHITECTURE, MODEL)


def apply(vllm_config: Any) -> None:
    """Set the scheduler class that the settings call for.

    Raises `UnsupportedError` when they cannot be had, `ValueError` when they are malformed.
    """
    settings = read_settings(vllm_config.additional_config)
    if settings == Settings() or vllm_config.model_config is None:
        return
    refuse_unsupported(settings, vllm_config)
    scheduler = vllm_config.scheduler_config
    if not settings.single_pass_reads or scheduler.scheduler_cls == SCHEDULERS[True]:
        return
    if scheduler.scheduler_cls not in (None, SCHEDULERS[False]):
        raise UnsupportedError(
            f"single_pass_reads needs its own scheduler, but scheduler_cls is "
            f"{scheduler.scheduler_cls!r}; leave scheduler_cls unset"
        )
    scheduler.scheduler_cls = SCHEDULERS[True]


def refuse_unsupported(settings: Settings, vllm_config: Any) -> None:
    """Raise `UnsupportedError` with every reason the settings cannot be had at once."""
    from vllm.platforms import current_platform

    from engine.vllm_plugin import versions

    versions.check()
    reasons = _reasons(vllm_config, is_cpu=current_platform.is_cpu())
    if settings.canvas_only_last_layer and vllm_config.compilation_config.mode:
        reasons.append("the model is compiled; set enforce_eager for canvas_only_last_layer")
    if reasons:
        names = " and ".join(name for name, on in dataclasses.asdict(settings).items() if on)
        raise UnsupportedError(f"{names} cannot be used: {'; '.join(reasons)}")


def _reasons(vllm_config: Any, *, is_cpu: bool) -> list[str]:
    parallel = vllm_config.parallel_config
    found = {
        "the platform is not CPU": not is_cpu,
        "the model is not DiffusionGemma (architectures "
        f"{vllm_config.model_config.architectures})": (
            ARCHITECTURE not in vllm_config.model_config.architectures
        ),
        "the served canvas is unknown; pass diffusion_config={'canvas_length': N}": (
            vllm_config.diffusion_config is None
        ),
        f"pipeline parallelism is on (size {parallel.pipeline_parallel_size})": (
            parallel.pipeline_parallel_size > 1
        ),
        f"tensor parallelism is on (size {parallel.tensor_parallel_size}) and was not verified": (
            parallel.tensor_parallel_size > 1
        ),
        "LoRA is on (enable_lora) and was not verified": vllm_config.lora_config is not None,
        "a KV connector is configured (kv_transfer_config)": (
            vllm_config.kv_transfer_config is not None
        ),
        "KV offloading is on (kv_offloading_size)": (
            vllm_config.cache_config.kv_offloading_size is not None
        ),
        "async scheduling is on": bool(vllm_config.scheduler_config.async_scheduling),
    }
    return [reason for reason, applies in found.items() if applies]
