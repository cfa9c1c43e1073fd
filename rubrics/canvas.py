"""Canvases: answer templates with open slots, and the proof that every label fits its slot.

The template is tokenised whole, once per label. A question's variants must have one length and
differ at one position, the same for all its labels, with another id for each: then a label is one
token in that place, and a slot's logprobs tell the options apart.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from rubrics.dialects import Layout
from rubrics.encoding import TextEncoder
from rubrics.errors import RubricError
from rubrics.model import Question

WIDTH_STEP = 16

NumberedQuestion = tuple[int, Question]


@dataclass(frozen=True, slots=True)
class Slot:
    """The open position of one question: `label_ids` are in option order."""

    question_id: str
    position: int
    label_ids: tuple[int, ...]


@dataclass(frozen=True)
class Canvas:
    """One answer template.

    Attributes:
        question_ids: questions answered here, in order.
        template_ids: `width` ids: the answers with each slot at its first label, the end of the
            turn, then padding.
        slots: one per question, positions ascending.
    """

    question_ids: tuple[str, ...]
    template_ids: tuple[int, ...]
    slots: tuple[Slot, ...]

    @property
    def width(self) -> int:
        """Length in tokens."""
        return len(self.template_ids)

    @cached_property
    def label_ids(self) -> tuple[int, ...]:
        """Every label id of every slot, once, ascending."""
        return tuple(sorted({label for slot in self.slots for label in slot.label_ids}))

    @cached_property
    def sha256(self) -> str:
        """Of the template's ids and the slots' positions and labels (hex)."""
        slots = [[slot.position, slot.label_ids] for slot in self.slots]
        return hashlib.sha256(json.dumps([self.template_ids, slots]).encode()).hexdigest()

    def slot(self, question_id: str) -> Slot:
        """The slot of that question; KeyError if it is not asked here."""
        for slot in self.slots:
            if slot.question_id == question_id:
                return slot
        raise KeyError(question_id)

    def seeded(self, seed: int, prompt_key: str, draw: int, vocab_size: int) -> tuple[int, ...]:
        """The template with noise in its slots.

        A slot's noise depends on the seed, the conversation (`prompt_key`), the question and the
        draw, never on the other questions of the canvas.

        Args:
            seed: of the run.
            prompt_key: names the conversation; `Prompt.conversation_ids_sha256`.
            draw: from 0.
            vocab_size: noise ids lie in [0, vocab_size).
        """
        ids = list(self.template_ids)
        for slot in self.slots:
            name = json.dumps([seed, prompt_key, slot.question_id, draw]).encode()
            digest = hashlib.sha256(name).digest()
            ids[slot.position] = int.from_bytes(digest[:8], "little") % vocab_size
        return tuple(ids)


def build_canvas(
    encoder: TextEncoder, layout: Layout, questions: Sequence[NumberedQuestion], limit: int
) -> Canvas | None:
    """The canvas that answers these questions, or None if it is wider than `limit` tokens.

    Raises:
        RubricError: a label is not one token in its place.
    """
    first = [question.labels[0] for _, question in questions]
    answers = _template(encoder, layout, questions, first)
    # The end of the turn must fit behind the answers.
    if len(answers) >= limit:
        return None
    slots: list[Slot] = []
    problems: list[str] = []
    for index, (_, question) in enumerate(questions):
        variants = [
            _template(encoder, layout, questions, [*first[:index], label, *first[index + 1 :]])
            for label in question.labels
        ]
        try:
            slots.append(_slot(encoder, question, variants))
        except RubricError as error:
            problems += error.problems
    if not problems:
        last = [question.labels[-1] for _, question in questions]
        changed = list(answers)
        for slot in slots:
            changed[slot.position] = slot.label_ids[-1]
        if tuple(changed) != _template(encoder, layout, questions, last):
            names = ", ".join(question.id for _, question in questions)
            problems.append(
                f"questions {names}: labels change each other's tokens; set alone: true"
            )
    if problems:
        raise RubricError(problems)
    width = min(-(-(len(answers) + 1) // WIDTH_STEP) * WIDTH_STEP, limit)
    tail = (encoder.turn[1], *[encoder.pad] * (width - len(answers) - 1))
    return Canvas(tuple(q.id for _, q in questions), answers + tail, tuple(slots))


def _template(
    encoder: TextEncoder,
    layout: Layout,
    questions: Sequence[NumberedQuestion],
    labels: Sequence[str],
) -> tuple[int, ...]:
    lines = (layout.answer(n, q, label) for (n, q), label in zip(questions, labels, strict=True))
    return encoder.encode("\n".join(lines))


def _slot(encoder: TextEncoder, question: Question, variants: Sequence[tuple[int, ...]]) -> Slot:
    """The one position where the variants of a question's labels differ."""
    by_ids: dict[tuple[int, ...], str] = {}
    for label, variant in zip(question.labels, variants, strict=True):
        other = by_ids.setdefault(variant, label)
        if other != label:
            raise RubricError(
                [
                    f"question {question.id}: labels {other!r} and {label!r} are the same tokens; "
                    "use the model's own tokenizer or another dialect"
                ]
            )
    position = _shared_length(variants)
    tail = _shared_length([variant[position:][::-1] for variant in variants])
    tokens = [variant[position : len(variant) - tail] for variant in variants]
    wrong = [
        f"{label!r} is {len(ids)} ({', '.join(repr(encoder.token(i)) for i in ids)})"
        for label, ids in zip(question.labels, tokens, strict=True)
        if len(ids) != 1
    ]
    if wrong:
        raise RubricError(
            [
                f"question {question.id}: a label must be one token in its place, but "
                f"{', '.join(wrong)}; rename the question or use another dialect"
            ]
        )
    return Slot(question.id, position, tuple(label_id for (label_id,) in tokens))


def _shared_length(variants: Sequence[tuple[int, ...]]) -> int:
    """How many leading ids all variants share."""
    columns = zip(*variants, strict=False)  # as long as the shortest
    return next((i for i, ids in enumerate(columns) if len({*ids}) > 1), min(map(len, variants)))
