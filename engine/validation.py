"""What a read must satisfy before it may reach an engine."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from engine.builds import Build
from engine.reads import Read

MAX_LABEL_IDS = 128
"""Most label ids vLLM reports for one request."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What one engine accepts, in tokens."""

    vocab_size: int
    max_model_len: int
    canvas_length: int

    @classmethod
    def of(cls, build: Build, vocab_size: int) -> Limits:
        return cls(vocab_size, build.max_model_len, build.canvas_length)


def problem(read: Read, limits: Limits) -> str | None:
    """Why the engine refuses `read`, as `code: explanation`, or None.

    Codes are stable: `empty_prompt`, `empty_canvas`, `canvas_too_wide`, `prompt_too_long`,
    `bad_slots`, `bad_labels`, `too_many_labels`, `id_out_of_vocabulary`. Explanations hold counts
    and limits only, never token ids, which would give the conversation away.
    """
    if not read.prompt_ids:
        return "empty_prompt: the prompt has no tokens"
    if not read.canvas_ids:
        return "empty_canvas: the canvas has no tokens"
    if read.width > limits.canvas_length:
        return (
            f"canvas_too_wide: the canvas has {read.width} tokens, the build serves at most "
            f"{limits.canvas_length}; raise canvas_length or split the rubric's canvas"
        )
    if len(read.prompt_ids) + read.width > limits.max_model_len:
        return (
            f"prompt_too_long: prompt of {len(read.prompt_ids)} and canvas of {read.width} tokens "
            f"exceed max_model_len {limits.max_model_len}"
        )
    return _slot_problem(read) or _label_problem(read) or _vocabulary_problem(read, limits)


def _slot_problem(read: Read) -> str | None:
    slots = read.slots
    if not slots:
        return "bad_slots: the read reports no slot"
    if any(a >= b for a, b in itertools.pairwise(slots)):
        return "bad_slots: slots must be distinct and ascending"
    if slots[0] < 0 or slots[-1] >= read.width:
        return f"bad_slots: slots must lie in the canvas of {read.width} tokens"
    return None


def _label_problem(read: Read) -> str | None:
    labels = read.label_ids
    if not labels:
        return "bad_labels: the read reports no label"
    if any(a >= b for a, b in itertools.pairwise(labels)):
        return "bad_labels: label ids must be distinct and ascending"
    if len(labels) > MAX_LABEL_IDS:
        return (
            f"too_many_labels: {len(labels)} label ids, at most {MAX_LABEL_IDS} fit one read; "
            "split the canvas"
        )
    return None


def _vocabulary_problem(read: Read, limits: Limits) -> str | None:
    for name, ids in (
        ("prompt", read.prompt_ids),
        ("canvas", read.canvas_ids),
        ("label", read.label_ids),
    ):
        if min(ids) < 0 or max(ids) >= limits.vocab_size:
            return (
                f"id_out_of_vocabulary: a {name} id lies outside 0..{limits.vocab_size - 1}; "
                "the read was made with another tokenizer"
            )
    return None
