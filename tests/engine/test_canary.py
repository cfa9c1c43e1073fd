from __future__ import annotations

import math
from dataclasses import replace

import pytest

from engine.builds import Build
from engine.canary import canary_problem, canary_reads, warm_up_reads
from engine.fake import FakeEngine
from engine.reads import ReadResult
from engine.validation import Limits, problem


def _limits(build: Build) -> Limits:
    return Limits.of(build, 512)


def _answers(constrained: list[float], free: list[float]) -> list[ReadResult]:
    """Answers to the canary reads whose probabilities are these at both slots."""
    labels = (6, 7)
    return [
        ReadResult(
            name,
            {s: {i: math.log(v) for i, v in zip(labels, values, strict=True)} for s in (0, 15)},
        )
        for name, values in (("constrained", constrained), ("free", free))
    ]


@pytest.mark.parametrize("canvas_length", [16, 64])
@pytest.mark.parametrize("max_model_len", [80, 4096])
def test_every_start_up_read_is_valid(canvas_length: int, max_model_len: int) -> None:
    build = Build.model_validate(
        {
            "name": "b",
            "canvas_length": canvas_length,
            "max_model_len": max_model_len,
            "compile": "helpers",
        }
    )
    limits = _limits(build)
    batches = [canary_reads(limits), *warm_up_reads(build, limits)]
    assert {read.width for batch in batches for read in batch} == set(
        range(16, canvas_length + 1, 16)
    )
    for batch in batches:
        assert [problem(read, limits) for read in batch] == [None] * len(batch)


def test_nothing_to_warm_up_without_compilation() -> None:
    build = Build.model_validate({"name": "b", "compile": "off"})
    assert list(warm_up_reads(build, _limits(build))) == []


def test_a_sound_engine_passes() -> None:
    assert canary_problem(_answers([0.75, 0.25], [0.15, 0.05])) is None


def test_labels_that_are_not_alone() -> None:
    """The engine ignored the constraint."""
    found = canary_problem(_answers([0.15, 0.05], [0.15, 0.05]))
    assert found == "canary read: probabilities over the labels sum to 0.2000, not 1"


def test_a_constraint_nobody_asked_for() -> None:
    found = canary_problem(_answers([0.75, 0.25], [0.75, 0.25]))
    assert found == "canary read: 2 labels hold probability 1.0000 of all"


def test_answers_that_disagree() -> None:
    """Labels swapped on one of the two ways."""
    found = canary_problem(_answers([0.75, 0.25], [0.05, 0.15]))
    assert found == "canary read: constrained and free answers differ by 0.500"


def test_a_refused_canary() -> None:
    good, other = _answers([0.75, 0.25], [0.15, 0.05])
    found = canary_problem([good, replace(other, error="bad_slots: why")])
    assert found == "canary read free: bad_slots: why"


def test_the_fake_engine_passes() -> None:
    """The fake's free answers are its constrained ones halved, so it passes its own canary."""
    build = Build.model_validate({"name": "b"})
    engine = FakeEngine(build, 512)
    assert canary_problem(engine.read(canary_reads(engine.limits))) is None
