from __future__ import annotations

import itertools
import random

import pytest

from engine.ordering import engine_order
from engine.reads import Read


def _reads(seed: int) -> list[Read]:
    """Draws of prompts that share one of two rubric prefixes, shuffled."""
    rng = random.Random(seed)
    reads = []
    for rubric in range(2):
        for conversation in range(4):
            prompt = (2, *[10 + rubric] * 30, 100 + conversation)
            for canvas in range(2):
                for draw in range(3):
                    name = f"{rubric} {conversation} {canvas} {draw}"
                    labels = (300 + rubric, 310 + canvas)
                    reads.append(Read(name, prompt, (draw,) * 16, (0,), labels))
    rng.shuffle(reads)
    return reads


def _runs(values: list[object]) -> int:
    return 1 + sum(a != b for a, b in itertools.pairwise(values))


@pytest.mark.parametrize("joined", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_every_read_once(joined: bool, seed: int) -> None:
    reads = _reads(seed)
    assert sorted(engine_order(reads, joined_label_sets=joined)) == list(range(len(reads)))


@pytest.mark.parametrize("seed", range(3))
def test_prompts_are_adjacent(seed: int) -> None:
    reads = _reads(seed)
    ordered = [reads[i] for i in engine_order(reads, joined_label_sets=True)]
    assert _runs([r.prompt_ids for r in ordered]) == 8
    assert _runs([r.prompt_ids[:31] for r in ordered]) == 2


@pytest.mark.parametrize("seed", range(3))
def test_label_sets_are_adjacent_where_they_are_not_joined(seed: int) -> None:
    reads = _reads(seed)
    ordered = [reads[i] for i in engine_order(reads, joined_label_sets=False)]
    assert _runs([r.label_ids for r in ordered]) == 4
    assert _runs([(r.label_ids, r.prompt_ids) for r in ordered]) == 16
