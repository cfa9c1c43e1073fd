"""The order in which an engine answers the reads of one call."""

from __future__ import annotations

from collections.abc import Sequence

from engine.reads import Read


def engine_order(reads: Sequence[Read], *, joined_label_sets: bool) -> list[int]:
    """Indices of `reads` in the order that shares most work.

    Reads of one prompt (its draws, its further canvases) come next to each other, and prompts that
    start alike follow each other, so that each finds the keys and values of its neighbour in the
    prefix cache while they are still there. Without joined label sets, a step in which two label
    sets meet computes the whole vocabulary, so there the label set comes first.

    >>> a = Read("a", (2, 9), (1,), (0,), (5,))
    >>> b = Read("b", (2, 8), (1,), (0,), (6,))
    >>> c = Read("c", (2, 7), (1,), (0,), (6,))
    >>> engine_order([b, a, c], joined_label_sets=True)
    [2, 0, 1]
    >>> engine_order([b, a, c], joined_label_sets=False)
    [1, 2, 0]
    """

    def key(index: int) -> tuple[object, ...]:
        read = reads[index]
        labels = (read.constrained, read.label_ids)
        if joined_label_sets:
            return (read.prompt_ids, labels, read.width)
        return (labels, read.prompt_ids, read.width)

    return sorted(range(len(reads)), key=key)
