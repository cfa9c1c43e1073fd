"""Reads an engine answers before it reports ready: to get warm, and to prove it can be trusted."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from engine.builds import Build
from engine.reads import Read, ReadResult
from engine.validation import Limits

_WIDTH = 16
_PROMPT_TOKENS = 40
_LABELS = (6, 7, 8, 9, 10)
_TOLERANCE = 0.05  # of a probability; bfloat16 products differ between the two ways


def canary_reads(limits: Limits) -> list[Read]:
    """The same read, once over its labels only and once over the whole vocabulary."""
    width = min(_WIDTH, limits.canvas_length)
    return [_read(name, limits, width, name == "constrained") for name in ("constrained", "free")]


def canary_problem(results: Sequence[ReadResult]) -> str | None:
    """What is wrong with the answers to `canary_reads`, or None.

    Every slot and label must be there, probabilities over the labels must sum to 1 where only the
    labels were allowed and to less where not, and both must agree once normalised.
    """
    constrained, free = results
    for result in results:
        if result.error is not None:
            return f"canary read {result.read_id}: {result.error}"
    for slot, by_label in constrained.logprobs.items():
        found, other = _probabilities(by_label), _probabilities(free.logprobs[slot])
        mass, other_mass = sum(found.values()), sum(other.values())
        if abs(mass - 1) > 1e-3:
            return f"canary read: probabilities over the labels sum to {mass:.4f}, not 1"
        if not 0 < other_mass < 1:
            return f"canary read: {len(other)} labels hold probability {other_mass:.4f} of all"
        moved = max(abs(found[label] - other[label] / other_mass) for label in found)
        if moved > _TOLERANCE:
            return f"canary read: constrained and free answers differ by {moved:.3f}"
    return None


def warm_up_reads(build: Build, limits: Limits) -> Iterator[list[Read]]:
    """Batches that make vLLM compile what the build lets it compile.

    Compiled helpers are specialised per canvas width, and once more when a batch holds several.
    """
    if build.compile == "off":
        return
    for width in range(_WIDTH, limits.canvas_length + 1, _WIDTH):
        for size in (1, 2, 3):
            yield [_read(f"warm-up {n}", limits, width, True) for n in range(size)]


def _read(name: str, limits: Limits, width: int, constrained: bool) -> Read:
    """A read of valid ids; what it says does not matter."""
    prompt_tokens = min(_PROMPT_TOKENS, limits.max_model_len - width)
    plain = range(5, limits.vocab_size)
    return Read(
        name,
        prompt_ids=(2, *(plain[(7 * i) % len(plain)] for i in range(1, prompt_tokens))),
        canvas_ids=tuple(plain[(11 * i) % len(plain)] for i in range(width)),
        slots=(0, width - 1),
        label_ids=_LABELS,
        constrained=constrained,
    )


def _probabilities(logprobs: Mapping[int, float]) -> dict[int, float]:
    return {label: math.exp(value) for label, value in logprobs.items()}
