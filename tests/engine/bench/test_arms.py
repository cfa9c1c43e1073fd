"""Arms in processes of their own: they start, count, agree with each other, and fail in words."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from engine.bench.arms import Arm, ArmError, ArmSpec, Kind
from engine.bench.random_checkpoint import build_random_checkpoint
from engine.bench.read_sets import fixed_length_reads
from engine.builds import Build
from engine.reads import Read, ReadResult

pytestmark = pytest.mark.engine

VOCABULARY = 512
READS = fixed_length_reads(8, 60, vocab_size=VOCABULARY, width=32)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_random_checkpoint(tmp_path_factory.mktemp("model"), vocab_size=VOCABULARY)


def arm(model: Path, kind: Kind, *, single_pass: bool) -> Arm:
    build = Build(
        name=kind,
        model=str(model),
        dtype="float32",
        single_pass_reads=single_pass,
        max_model_len=512,
        kv_cache_gib=0.1,
    )
    return Arm(ArmSpec(kind, kind, build), count_forwards=True)


@pytest.fixture(scope="module")
def arms(model: Path) -> Iterator[dict[str, Arm]]:
    """All started at once."""
    started = {
        "off": arm(model, "stepped", single_pass=False),
        "on": arm(model, "stepped", single_pass=True),
        "onepass": arm(model, "onepass", single_pass=True),
        "stock": arm(model, "stock", single_pass=False),
        "reference": arm(model, "reference", single_pass=False),
    }
    yield started
    for running in started.values():
        running.close()


def largest_difference(first: list[ReadResult], second: list[ReadResult]) -> float:
    return max(
        abs(np.exp(one.logprobs[slot][label]) - np.exp(other.logprobs[slot][label]))
        for one, other in zip(first, second, strict=True)
        for slot in one.logprobs
        for label in one.logprobs[slot]
    )


def answers(running: Arm, reads: list[Read]) -> list[ReadResult]:
    running.forget()
    return running.read(reads).results


def test_one_at_a_time_the_flag_halves_the_steps(arms: dict[str, Arm]) -> None:
    for name, steps_per_read in (("off", 2), ("on", 1)):
        arms[name].forget()
        timed = [arms[name].read([read]) for read in READS]
        assert [t.counters.steps for t in timed] == [steps_per_read] * len(READS)
        assert [t.forwards for t in timed] == [steps_per_read] * len(READS)


def test_four_arriving_take_three_steps_off_and_two_on(arms: dict[str, Arm]) -> None:
    """What turned the seed's 231 reads, four at a time, into 174 and 116 steps."""
    for name, steps in (("off", 3), ("on", 2)):
        arms[name].forget()
        timed = arms[name].arriving(READS[:4])
        assert (timed.counters.steps, timed.forwards) == (steps, steps)


def test_every_engine_gives_the_same_probabilities(arms: dict[str, Arm]) -> None:
    expected = answers(arms["reference"], READS)
    assert [result.read_id for result in expected] == [read.read_id for read in READS]
    for name in ("off", "on", "onepass", "stock"):
        assert largest_difference(answers(arms[name], READS), expected) < 1e-4, name


def test_the_product_counts_as_the_hook_does(arms: dict[str, Arm]) -> None:
    arms["onepass"].forget()
    timed = arms["onepass"].read(READS)
    assert timed.counters.reads == len(READS)
    assert timed.counters.single_pass_reads == len(READS)
    assert timed.counters.steps == timed.forwards
    assert 0 < timed.counters.engine_seconds <= timed.seconds


def test_forgetting_empties_the_prefix_cache(arms: dict[str, Arm]) -> None:
    long = fixed_length_reads(1, 300, vocab_size=VOCABULARY)
    computed = []
    for forget in (True, False, True):
        if forget:
            arms["on"].forget()
        computed.append(arms["on"].read(long).counters.prompt_tokens_computed)
    assert computed[0] == computed[2] == 300
    assert computed[1] < 300


def test_a_loop_keeps_reads_in_flight_and_times_the_parts(arms: dict[str, Arm]) -> None:
    arms["on"].forget()
    alone = arms["on"].loop(READS, 1)
    arms["on"].forget()
    together = arms["on"].loop(READS, 4)
    assert alone.steps == len(READS)
    assert together.steps < alone.steps
    assert len(alone.latencies) == len(READS)
    assert all(0 < latency <= alone.seconds for latency in alone.latencies)
    parts = alone.parts
    assert parts["forward"] <= parts["execute"]
    assert parts["logits"] <= parts["sample"]
    assert parts["execute"] + parts["sample"] + parts["schedule"] <= parts["step"] <= alone.seconds


def test_an_arm_says_what_it_runs(arms: dict[str, Arm]) -> None:
    facts = arms["stock"].facts
    assert "scheduler_cls" not in facts.configuration
    assert "additional_config" not in facts.configuration
    assert facts.configuration["dtype"] == "float32"
    assert facts.start_seconds > 0
    assert arms["stock"].peak_gib() >= facts.resident_gib * 0.5 > 0


def test_an_arm_that_cannot_start_says_why(tmp_path: Path) -> None:
    with arm(tmp_path, "reference", single_pass=False) as broken:  # noqa: SIM117
        with pytest.raises(
            ArmError, match=r"arm reference: CheckpointError: .* lacks config\.json"
        ):
            _ = broken.facts


def test_only_stepped_arms_loop(arms: dict[str, Arm], model: Path) -> None:
    with arm(model, "reference", single_pass=False) as reference:  # noqa: SIM117
        with pytest.raises(ArmError, match="use a stepped arm"):
            reference.loop(READS, 2)
