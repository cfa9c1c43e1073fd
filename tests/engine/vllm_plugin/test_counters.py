"""The scheduler's counts against hooks on the model."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from engine.reads import Read
from tests.engine.vllm_plugin.engines import LABELS, VOCABULARY, Engine, make_read

pytestmark = pytest.mark.engine


def mixed_reads(seed: int, count: int) -> list[Read]:
    rng = random.Random(seed)
    return [
        make_read(rng, rng.choice([8, 90, 270]), 16, rng.choice(LABELS), constrained=i % 5 != 4)
        for i in range(count)
    ]


def count(engine: Engine, reads: Sequence[Read], together: int) -> tuple[dict[str, int], ...]:
    """What the scheduler counted and what the hooks saw, `together` reads at a time."""
    engine.forget()
    before = dict(engine.core.scheduler._totals)
    with engine.watched() as seen:
        for start in range(0, len(reads), together):
            asked = engine.ask(reads[start : start + together])
    totals = asked[-1].note["totals"]
    return {name: totals[name] - before[name] for name in totals}, seen


@pytest.mark.parametrize("together", [1, 4, 16])
@pytest.mark.parametrize("which", ["off", "on"])
def test_counts_are_what_the_model_did(
    which: str, together: int, request: pytest.FixtureRequest
) -> None:
    engine: Engine = request.getfixturevalue(which)
    reads = mixed_reads(together, 16)
    counted, seen = count(engine, reads, together)
    assert counted["steps"] == seen["forwards"]
    assert counted["prompt_tokens_computed"] + counted["canvas_tokens"] == seen["tokens"]
    assert counted["logits_columns"] == seen["columns"]
    assert counted["canvas_tokens"] == 16 * 16
    assert counted["prompt_tokens_computed"] == sum(len(read.prompt_ids) for read in reads)


def test_joined_label_sets_compute_the_union_only(off: Engine, on: Engine) -> None:
    rng = random.Random(3)
    reads = [make_read(rng, 20, 8, LABELS[i % 3]) for i in range(6)]
    union = len({label for labels in LABELS for label in labels})
    assert count(off, reads, 6)[0]["logits_columns"] == 6 * 8 * VOCABULARY
    assert count(on, reads, 6)[0]["logits_columns"] == 6 * 8 * union


def test_one_unconstrained_read_needs_the_whole_vocabulary(on: Engine) -> None:
    rng = random.Random(4)
    reads = [make_read(rng, 20, 8, LABELS[i % 3], constrained=i != 2) for i in range(6)]
    assert count(on, reads, 6)[0]["logits_columns"] == 6 * 8 * VOCABULARY


def test_four_at_a_time_saves_steps(off: Engine, on: Engine) -> None:
    reads = [make_read(random.Random(i), 40, 16) for i in range(12)]
    assert count(off, reads, 4)[0]["steps"] == 6
    assert count(on, reads, 4)[0]["steps"] == 3
