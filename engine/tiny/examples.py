"""Training examples as token ids: what the trainer needs, without a word about rubrics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Target:
    """What an open slot should say: each of its label ids -> probability, summing to 1."""

    position: int
    probabilities: Mapping[int, float]


@dataclass(frozen=True, slots=True)
class Example:
    """One read with its answers.

    Attributes:
        prompt_rest_ids: what follows the shared prefix.
        canvas_ids: the seeded canvas.
        targets: of the open slots.
        facts: 1 or 0 for each thing that may hold of the conversation, the same things in every
            example; only training looks at them.
    """

    prompt_rest_ids: tuple[int, ...]
    canvas_ids: tuple[int, ...]
    targets: tuple[Target, ...]
    facts: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Batch:
    """Examples whose prompts begin alike; the model reads what they share only once."""

    prefix_ids: tuple[int, ...]
    examples: tuple[Example, ...]
