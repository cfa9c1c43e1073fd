from __future__ import annotations

import pytest

from engine.bench.start_up import StartUp, _calls
from engine.builds import Build
from engine.validation import Limits, problem


@pytest.mark.parametrize("reads", [1, 64, 200])
@pytest.mark.parametrize(("shortest", "longest"), [(100, 100), (20, 700)])
def test_every_read_is_another_and_valid(reads: int, shortest: int, longest: int) -> None:
    limits = Limits.of(Build.model_validate({"name": "b"}), 512)
    made = [read for call in _calls(reads, limits.vocab_size, shortest, longest) for read in call]
    assert len(made) == len({read.prompt_ids for read in made}) == reads
    assert len({read.prompt_ids[:150] for read in made}) == 1
    assert all(shortest <= len(read.prompt_ids) - 151 <= longest for read in made)
    assert [problem(read, limits) for read in made] == [None] * reads


def test_time_for_another_number_of_reads() -> None:
    found = StartUp(
        mode="off",
        cache="cold",
        ready_seconds=10.0,
        ready_cpu_seconds=20.0,
        first_call_seconds=0.1,
        reads=2000,
        reads_seconds=20.0,
        reads_per_second=100.0,
        cpu_seconds_per_read=0.015,
        memory_mib=[1.0, 1.0],
        memory_peak_mib=1.0,
    )
    assert found.seconds_for(1_000) == 20.0
    assert found.cpu_seconds_for(10_000) == 170.0
