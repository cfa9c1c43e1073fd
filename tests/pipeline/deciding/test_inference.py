from __future__ import annotations

import gc
import pickle
import threading

import pytest

from engine.builds import Build
from engine.fake import FakeEngine
from engine.reads import EngineDeadError, Read
from pipeline.deciding.inference import DecisionModelHandler, EngineSource, SharedEngine
from pipeline.jobs.running import prepare
from tests.pipeline.sample_jobs import FAKE, conversation, make_job, noon, write_shard

BUILD = Build(name="b", single_pass_reads=True)


def read(number: int) -> Read:
    return Read(str(number), (2, 200 + number), (300, 301, 302), slots=(1,), label_ids=(400, 401))


def test_an_engine_starts_once_and_only_when_it_is_needed() -> None:
    started: list[FakeEngine] = []

    def start() -> FakeEngine:
        started.append(FakeEngine(BUILD, 4096))
        return started[-1]

    shared = SharedEngine(start)
    assert started == []
    threads = [
        threading.Thread(target=shared.read_counted, args=([read(number)],)) for number in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(started) == 1
    assert started[0].counters().reads == 8


def test_costs_are_those_of_the_call_whoever_else_calls() -> None:
    shared = SharedEngine(lambda: FakeEngine(BUILD, 4096))
    costs: list[tuple[int, int]] = []

    def call(count: int) -> None:
        for _ in range(20):
            _, cost = shared.read_counted([read(number) for number in range(count)])
            costs.append((count, cost.reads))

    threads = [threading.Thread(target=call, args=(count,)) for count in (1, 2, 3, 4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(costs) == 80
    assert all(asked == counted for asked, counted in costs)


def test_an_engine_is_closed_with_its_owner() -> None:
    engine = FakeEngine(BUILD, 4096)
    shared = SharedEngine(lambda: engine)
    shared.read_counted([read(1)])
    del shared
    gc.collect()
    with pytest.raises(EngineDeadError):
        engine.read([read(1)])


def test_closing_is_repeatable_and_needs_no_start() -> None:
    shared = SharedEngine(lambda: pytest.fail("started to be closed"))
    shared.close()
    shared.close()


@pytest.mark.parametrize("shared", [False, True])
def test_the_build_decides_whether_processes_share_a_model(tmp_path, shared: bool) -> None:  # type: ignore[no-untyped-def]
    write_shard(tmp_path / "in" / "a.jsonl", [conversation(1)])
    job = make_job(tmp_path, build={"share_model_across_processes": shared})
    spec = prepare(job, source=FAKE).transform.spec
    handler = DecisionModelHandler(spec, EngineSource(clock=noon))
    assert handler.share_model_across_processes() is shared
    assert handler.batch_elements_kwargs() == {"min_batch_size": 1, "max_batch_size": 1}
    # What travels to a worker is small: no tokenizer, no compiled rubric.
    assert len(pickle.dumps(handler)) < 50_000
