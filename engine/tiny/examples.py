"""Training examples as token ids: what the trainer needs, without a word about rubrics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Target:
    """What an open slot should say: label id -> probability, summing to 1."""

    position: int
    probabilities: Mapping[int, float]


@dataclass(frozen=True, slots=True)
class Example:
    """One read with its answers: ids after the shared prefix, seeded canvas, slots' targets."""

    prompt_rest_ids: tuple[int, ...]
    canvas_ids: tuple[int, ...]
    targets: tuple[Target, ...]


@dataclass(frozen=True, slots=True)
class Batch:
    """Examples whose prompts begin alike; the model reads what they share only once."""

    prefix_ids: tuple[int, ...]
    examples: tuple[Example, ...]
