"""Reads of a given length that no text stands behind: for measurements at one size."""

from __future__ import annotations

import random

from engine.reads import Read

_FIRST_TEXT_ID = 400
_BOS = 2


def fixed_length_reads(
    count: int,
    prompt_tokens: int,
    *,
    vocab_size: int,
    width: int = 32,
    slots: int = 4,
    options: int = 5,
    shared_tokens: int = 0,
    label_sets: int = 1,
    seed: int = 42,
) -> list[Read]:
    """`count` constrained reads with prompts of `prompt_tokens` ids.

    Args:
        count: of the reads.
        prompt_tokens: length of each prompt.
        vocab_size: of the model; ids are drawn below it.
        width: of the canvases.
        slots: open positions of each.
        options: label ids of each read.
        shared_tokens: leading ids that reads of one label set share, as under one rubric.
        label_sets: how many different label sets (and shared beginnings) take turns.
        seed: equal seeds give equal reads.
    """
    rng = random.Random(seed)
    ids = range(_FIRST_TEXT_ID, vocab_size)
    sets = [
        tuple(range(_FIRST_TEXT_ID + options * n, _FIRST_TEXT_ID + options * (n + 1)))
        for n in range(label_sets)
    ]
    starts = [(_BOS, *rng.choices(ids, k=max(shared_tokens - 1, 0))) for _ in sets]
    places = tuple(4 * slot + 2 for slot in range(slots))
    reads = []
    for number in range(count):
        start = starts[number % label_sets]
        rest = rng.choices(ids, k=prompt_tokens - len(start))
        reads.append(
            Read(
                read_id=f"{prompt_tokens}-{number}",
                prompt_ids=(*start, *rest),
                canvas_ids=tuple(rng.choices(ids, k=width)),
                slots=places,
                label_ids=sets[number % label_sets],
            )
        )
    return reads
