"""Slot logprobs become probabilities."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rubrics.canvas import Slot
from rubrics.scoring import score
from tests.rubrics.samples import choice

THREE = choice(options=("a", "b", "c"))
SLOT = Slot("q", 0, (30, 10, 20))


def logs(*probabilities: float) -> dict[int, float]:
    return {
        label: math.log(p) if p else -math.inf
        for label, p in zip(SLOT.label_ids, probabilities, strict=True)
    }


def test_one_draw() -> None:
    scored = score(THREE, SLOT, [logs(0.2, 0.6, 0.0) | {99: -0.1}])
    assert scored.probabilities == pytest.approx((0.25, 0.75, 0.0))
    assert scored.logprobs == pytest.approx((math.log(0.2), math.log(0.6), -math.inf))
    assert (scored.decision_index, scored.agreement) == (1, 1.0)
    assert scored.probability == pytest.approx(0.75)
    assert scored.margin == pytest.approx(0.5)
    assert scored.entropy_nats == pytest.approx(-0.25 * math.log(0.25) - 0.75 * math.log(0.75))
    assert scored.label_mass == pytest.approx(0.8)
    assert scored.standard_error is None
    assert scored.expected_score is None


def test_draws_are_averaged_as_probabilities() -> None:
    scored = score(THREE, SLOT, [logs(0.8, 0.2, 0.0), logs(0.2, 0.8, 0.0), logs(0.8, 0.1, 0.1)])
    assert scored.probabilities == pytest.approx((0.6, 1.1 / 3, 0.1 / 3))
    assert scored.decision_index == 0
    assert scored.agreement == pytest.approx(2 / 3)
    # Values 0.8, 0.2, 0.8: sample variance 0.12, over three draws.
    assert scored.standard_error == pytest.approx(math.sqrt(0.12 / 3))
    assert scored.label_mass == pytest.approx(1.0)


def test_expected_score_counts_levels_from_zero() -> None:
    levels = choice(type="score", options=("low", "middle", "high"))
    assert score(levels, SLOT, [logs(0.1, 0.2, 0.7)]).expected_score == pytest.approx(1.6)


def test_ties_go_to_the_first_option() -> None:
    scored = score(THREE, SLOT, [logs(0.2, 0.4, 0.4)])
    assert scored.decision_index == 1
    assert scored.margin == 0.0


finite = st.floats(-700, 0)


@given(st.lists(st.tuples(finite, finite, finite), min_size=1, max_size=8))
def test_probabilities_sum_to_one(draws: list[tuple[float, float, float]]) -> None:
    scored = score(THREE, SLOT, [dict(zip(SLOT.label_ids, draw, strict=True)) for draw in draws])
    assert abs(math.fsum(scored.probabilities) - 1) < 1e-12
    assert all(0 <= p <= 1 for p in scored.probabilities)
    assert scored.probability == max(scored.probabilities)
    assert 0 <= scored.margin <= scored.probability
    assert 0 <= scored.entropy_nats <= math.log(3) + 1e-12
    assert 0 <= scored.agreement <= 1


@given(st.lists(finite, min_size=26, max_size=26), st.floats(-50, 50))
def test_normalisation_does_not_move_probabilities(values: list[float], shift: float) -> None:
    """Constrained and unconstrained reads differ by a constant: their probabilities agree."""
    question = choice(options=tuple(map(str, range(26))))
    slot = Slot("q", 0, tuple(range(26)))
    here = score(question, slot, [dict(enumerate(values))])
    there = score(question, slot, [{i: value + shift for i, value in enumerate(values)}])
    assert here.probabilities == pytest.approx(there.probabilities, abs=1e-9)


@pytest.mark.parametrize(
    ("draws", "problem"),
    [
        ([], "no draw"),
        ([{30: -1.0, 10: -1.0}], "None as logprob of label id 20"),
        ([{30: -1.0, 10: -1.0, 20: math.nan}], "nan as logprob of label id 20"),
        ([{30: -math.inf, 10: -math.inf, 20: -math.inf}], "no label has a finite logprob"),
        ([{30: math.inf, 10: 0.0, 20: 0.0}], "no label has a finite logprob"),
    ],
)
def test_what_cannot_be_scored_is_named(draws: list[dict[int, float]], problem: str) -> None:
    with pytest.raises(ValueError, match=f"question q: .*{problem}"):
        score(THREE, SLOT, draws)
