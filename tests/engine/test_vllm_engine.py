"""How failures inside vLLM reach the caller; vLLM's engine is replaced by one that fails on cue."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from engine.reads import EngineDeadError
from engine.vllm_engine import VllmEngine
from tests.engine.contract import make_read

pytestmark = pytest.mark.engine


class _FailingEngine:
    """An `LLMEngine` that refuses every second request and fails in its first step."""

    def __init__(self) -> None:
        self.added = 0

    def add_request(self, request_id: str, prompt: Any, params: Any) -> None:
        from vllm.exceptions import VLLMValidationError

        self.added += 1
        if self.added % 2 == 0:
            raise VLLMValidationError("ids [4711] are wrong", parameter="extra_args")

    def step(self) -> list[Any]:
        raise RuntimeError("a kernel failed")


def _engine(llm_engine: Any) -> VllmEngine:
    engine = object.__new__(VllmEngine)
    engine._engine = llm_engine
    engine._number = 0
    engine._stopping = threading.Event()
    engine.engine_seconds = 0.0
    engine.scheduler_totals = None
    return engine


def test_a_failing_step_is_the_engines_death() -> None:
    with pytest.raises(EngineDeadError, match="failed with RuntimeError") as caught:
        _engine(_FailingEngine()).run([make_read("r", 512)])
    assert str(caught.value.__cause__) == "a kernel failed"


def test_a_refusal_names_no_token_ids() -> None:
    """vLLM may quote them; they would give the conversation away."""
    llm_engine = _FailingEngine()
    llm_engine.added = 1
    (answer,) = _engine(llm_engine).run([make_read("r", 512)])
    assert answer.error == "refused_by_vllm: VLLMValidationError, parameter extra_args"


def test_a_stopped_engine_takes_no_further_step() -> None:
    engine = _engine(_FailingEngine())
    engine.stop()
    with pytest.raises(EngineDeadError, match="closed"):
        engine.run([make_read("r", 512)])
