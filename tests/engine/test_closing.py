"""Closing an engine while it works, as after an interrupt from the keyboard."""

from __future__ import annotations

import threading
import time

import pytest

from engine.builds import Build
from engine.engine import DecisionEngine
from engine.reads import EngineDeadError
from tests.engine.conftest import VOCAB_SIZE
from tests.engine.contract import make_read

pytestmark = pytest.mark.engine


def test_a_read_in_progress_ends_with_the_engine(build: Build) -> None:
    engine = DecisionEngine(build.model_copy(update={"max_num_seqs": 1}))
    reads = [make_read(f"closed-{i}", VOCAB_SIZE, prompt_tokens=700) for i in range(2000)]
    ends: list[BaseException] = []

    def call() -> None:
        try:
            engine.read(reads)
        except BaseException as error:
            ends.append(error)

    vllm = engine._vllm
    assert vllm is not None
    before = vllm.scheduler_totals
    caller = threading.Thread(target=call)
    caller.start()
    while vllm.scheduler_totals == before:
        time.sleep(0.01)
    engine.close()
    caller.join(30)
    assert not caller.is_alive()
    assert [type(end) for end in ends] == [EngineDeadError]
    with pytest.raises(EngineDeadError, match="closed"):
        engine.read(reads[:1])
    engine.close()
