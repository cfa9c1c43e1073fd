from __future__ import annotations

import threading

import pytest

from engine.engine_thread import EngineThread
from engine.reads import EngineDeadError


def test_every_job_runs_on_the_same_thread() -> None:
    thread = EngineThread("engine")
    idents: list[int] = []

    def caller() -> None:
        for _ in range(5):
            idents.append(thread.call(threading.get_ident))

    callers = [threading.Thread(target=caller) for _ in range(4)]
    for c in callers:
        c.start()
    for c in callers:
        c.join()
    thread.stop()
    assert len(idents) == 20
    assert len(set(idents)) == 1
    assert threading.get_ident() not in idents


def test_an_exception_reaches_its_caller_only() -> None:
    thread = EngineThread("engine")
    with pytest.raises(ZeroDivisionError):
        thread.call(lambda: 1 // 0)
    assert thread.call(lambda: 1) == 1
    thread.stop()


def test_a_stopped_thread_refuses_jobs() -> None:
    thread = EngineThread("engine")
    thread.stop()
    thread.stop()
    with pytest.raises(EngineDeadError, match="closed"):
        thread.call(lambda: 1)
