"""What is refused at start-up, with which reason, and when the scheduler is switched."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from engine.vllm_plugin import start_up
from engine.vllm_plugin.start_up import SCHEDULERS, UnsupportedError


def configuration(**settings: bool) -> Any:
    return SimpleNamespace(
        additional_config={"onepass": settings},
        model_config=SimpleNamespace(architectures=[start_up.ARCHITECTURE]),
        parallel_config=SimpleNamespace(pipeline_parallel_size=1, tensor_parallel_size=1),
        lora_config=None,
        cache_config=SimpleNamespace(kv_offloading_size=None),
        scheduler_config=SimpleNamespace(async_scheduling=False, scheduler_cls=None),
        compilation_config=SimpleNamespace(mode=0),
        kv_transfer_config=None,
        diffusion_config=SimpleNamespace(canvas_length=64),
    )


def test_on_sets_the_scheduler() -> None:
    config = configuration(single_pass_reads=True)
    start_up.apply(config)
    assert config.scheduler_config.scheduler_cls == SCHEDULERS[True]
    start_up.apply(config)
    assert config.scheduler_config.scheduler_cls == SCHEDULERS[True]


@pytest.mark.parametrize("settings", [{}, {"joined_label_sets": True}])
def test_off_leaves_the_scheduler_to_vllm(settings: dict[str, bool]) -> None:
    config = configuration(**settings)
    start_up.apply(config)
    assert config.scheduler_config.scheduler_cls is None


@pytest.mark.parametrize(
    ("part", "name", "value", "reason"),
    [
        ("parallel_config", "pipeline_parallel_size", 2, r"pipeline parallelism is on \(size 2\)"),
        ("cache_config", "kv_offloading_size", 4.0, "KV offloading is on"),
        ("scheduler_config", "async_scheduling", True, "async scheduling is on"),
        ("model_config", "architectures", ["Gemma3ForCausalLM"], "not DiffusionGemma"),
        ("parallel_config", "tensor_parallel_size", 2, r"tensor parallelism is on \(size 2\)"),
        (None, "lora_config", object(), "LoRA is on"),
        (None, "kv_transfer_config", object(), "a KV connector is configured"),
        (None, "diffusion_config", None, "canvas is unknown"),
    ],
)
def test_refused_with_the_reason(part: str | None, name: str, value: Any, reason: str) -> None:
    config = configuration(single_pass_reads=True)
    setattr(getattr(config, part) if part else config, name, value)
    with pytest.raises(UnsupportedError, match=f"single_pass_reads cannot be used: .*{reason}"):
        start_up.apply(config)
    off = configuration()
    setattr(getattr(off, part) if part else off, name, value)
    start_up.apply(off)  # nothing to refuse


def test_refused_on_another_platform(monkeypatch: pytest.MonkeyPatch) -> None:
    import vllm.platforms

    gpu = SimpleNamespace(is_cpu=lambda: False)
    monkeypatch.setattr(vllm.platforms, "_current_platform", gpu, raising=False)
    monkeypatch.setattr(vllm.platforms, "current_platform", gpu, raising=False)
    with pytest.raises(UnsupportedError, match="the platform is not CPU"):
        start_up.apply(configuration(single_pass_reads=True, joined_label_sets=True))


def test_refused_with_an_unverified_vllm(monkeypatch: pytest.MonkeyPatch) -> None:
    import vllm

    from engine.vllm_plugin.versions import UnverifiedVllmError

    monkeypatch.setattr(vllm, "__version__", "0.99.0")
    with pytest.raises(UnverifiedVllmError, match=r"0\.99\.0"):
        start_up.apply(configuration(single_pass_reads=True))


def test_compiled_models_keep_their_last_layer() -> None:
    config = configuration(canvas_only_last_layer=True, joined_label_sets=True)
    start_up.apply(config)
    config.compilation_config.mode = 1
    with pytest.raises(UnsupportedError, match=r"^joined_label_sets and .* set enforce_eager"):
        start_up.apply(config)


def test_refused_beside_another_scheduler() -> None:
    config = configuration(single_pass_reads=True)
    config.scheduler_config.scheduler_cls = "my.Scheduler"
    with pytest.raises(UnsupportedError, match=r"scheduler_cls is 'my\.Scheduler'"):
        start_up.apply(config)


def test_all_reasons_at_once() -> None:
    config = configuration(single_pass_reads=True)
    config.diffusion_config = None
    config.parallel_config.pipeline_parallel_size = 2
    with pytest.raises(UnsupportedError, match=r"canvas is unknown.*pipeline parallelism"):
        start_up.apply(config)


@pytest.mark.engine
def test_refused_by_vllm_itself(checkpoint: Any) -> None:
    """End to end: the plugin reaches vLLM's own configuration."""
    from vllm import EngineArgs

    arguments = EngineArgs(
        model=str(checkpoint),
        enforce_eager=True,
        language_model_only=True,
        max_model_len=256,
        kv_offloading_size=1.0,
        diffusion_config={"canvas_length": 32},
        additional_config={"onepass": {"single_pass_reads": True}},
    )
    with pytest.raises(Exception, match=r"single_pass_reads cannot be used: .*KV offloading is on"):
        arguments.create_engine_config()
