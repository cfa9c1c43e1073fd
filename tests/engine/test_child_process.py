"""The engine in processes of its own."""

from __future__ import annotations

import multiprocessing
import threading
import time
from collections.abc import Iterator

import psutil
import pytest

from engine.builds import Build
from engine.engine import DecisionEngine
from engine.reads import EngineDeadError
from tests.engine.conftest import VOCAB_SIZE
from tests.engine.contract import assert_answers, make_read

pytestmark = pytest.mark.engine


@pytest.fixture(scope="module")
def child(build: Build) -> Iterator[DecisionEngine]:
    engine = DecisionEngine(build.model_copy(update={"in_process": False}))
    yield engine
    engine.close()


def _processes() -> list[psutil.Process]:
    """The engine core and its worker, not multiprocessing's own helpers."""
    return [
        process
        for process in psutil.Process().children(recursive=True)
        if "spawn_main" in " ".join(process.cmdline()) or "VLLM" in process.name()
    ]


def test_answers_equal_those_in_process(child: DecisionEngine, in_process: DecisionEngine) -> None:
    """Exactly, read by read: the same steps, whoever takes them."""
    for i in range(6):
        read = make_read(
            f"child-{i}", VOCAB_SIZE, prompt_tokens=30 + 90 * i, constrained=i % 2 == 0
        )
        ours, theirs = in_process.read([read])[0], child.read([read])[0]
        assert ours == theirs
        assert_answers(read, theirs)


def test_counters_come_back(child: DecisionEngine) -> None:
    before = child.counters()
    for i in range(3):
        child.read([make_read(f"counted-{i}", VOCAB_SIZE, prompt_tokens=50)])
    counted = child.counters() - before
    assert (counted.reads, counted.steps) == (3, 6)
    assert counted.prompt_tokens_computed == 150
    assert counted.canvas_tokens == 48
    assert counted.logits_columns == 48 * 4


def test_a_killed_process_ends_the_engine(child: DecisionEngine) -> None:
    """While it computes; callers that wait, and all later ones, are told."""
    assert multiprocessing.current_process().pid == psutil.Process().pid
    processes = _processes()
    assert processes
    reads = [make_read(f"killed-{i}", VOCAB_SIZE, prompt_tokens=700) for i in range(400)]
    killer = threading.Timer(0.3, lambda: processes[0].kill())
    killer.start()
    started = time.monotonic()
    with pytest.raises(EngineDeadError):
        child.read(reads)
    assert time.monotonic() - started < 60
    with pytest.raises(EngineDeadError):
        child.read(reads[:1])
    child.close()
    child.close()
    _, alive = psutil.wait_procs(processes, timeout=20)
    assert not alive
