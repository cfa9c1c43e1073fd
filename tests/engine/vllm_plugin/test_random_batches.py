"""Random batches: on equals off, each read equals itself alone, counts add up."""

from __future__ import annotations

import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.reads import Read
from tests.engine.vllm_plugin.engines import LABELS, Engine, largest_difference, make_read

pytestmark = pytest.mark.engine
PREFIX = make_read(random.Random(99), 130, 1).prompt_ids


@st.composite
def batches(draw: st.DrawFn) -> list[Read]:
    rng = random.Random(draw(st.integers(0, 10_000)))
    shapes = draw(
        st.lists(
            st.tuples(
                st.integers(1, 330),  # prompt
                st.sampled_from([1, 3, 16]),  # width: 16 canvases fit the token budget of a step
                st.sampled_from(LABELS),
                st.booleans(),  # behind the common prefix
                st.sampled_from([True, True, True, False]),  # constrained
            ),
            min_size=1,
            max_size=16,
        )
    )
    return [
        make_read(
            rng, prompt, width, labels, prefix=PREFIX if behind else (), constrained=constrained
        )
        for prompt, width, labels, behind, constrained in shapes
    ]


@settings(
    max_examples=25,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(reads=batches())
def test_random_batches(off: Engine, on: Engine, reads: list[Read]) -> None:
    before = off.steps, on.steps
    slow, fast = off.ask(reads), on.ask(reads)
    assert largest_difference(slow, fast) < 1e-4
    assert on.steps - before[1] <= off.steps - before[0]
    one = random.Random(len(reads)).randrange(len(reads))
    assert largest_difference(on.ask([reads[one]]), fast[one : one + 1]) < 1e-5
    for read, asked in zip(reads, fast, strict=True):
        assert len(asked.token_ids) == read.width
        assert asked.note["single_pass"] == (asked.note["two_step_reason"] is None)
