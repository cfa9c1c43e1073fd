"""Batches of training examples: conversations behind compiled rubrics, canvases with noise."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from tokenizers import Tokenizer

from engine.tiny.corpus import Corpus, LabelledConversation, facts_of
from engine.tiny.examples import Batch, Example, Target
from pipeline.input.conversations import Message
from pipeline.tiny.variants import Asked, reordered, reworded, shipped
from rubrics.canvas import Slot
from rubrics.compiler import CompiledRubric, compile_rubric
from rubrics.encoding import TextEncoder
from rubrics.model import Question, Rubric

BATCH_SIZE = 24
MOST_CHARACTERS = 10_000
"""Padded length of a batch's conversations; batches of long ones hold fewer."""

BATCHES_PER_POOL = 8
EASY_STEPS = 240
"""Training begins with the shortest third of the conversations and the shipped rubric alone."""

_DIALECTS: tuple[Literal["lines", "compact"], ...] = ("lines", "compact")


@dataclass(frozen=True, slots=True)
class Smoothing:
    """How much of a target's probability leaves the answer."""

    options: float = 0.04  # shared by all options of a choice or a yes-or-no question
    neighbours: float = 0.04  # to each level beside the answer of a score


class BatchMaker:
    """Makes the batch of any training step; a pure function of `seed` and the step.

    Every batch is asked one rubric, so that its prompts share their beginning. Conversations are
    drawn for `BATCHES_PER_POOL` batches at once and sorted by length, which saves padding.
    """

    def __init__(self, tokenizer: Tokenizer, rubric: Rubric, seed: int, variants: float) -> None:
        self._arguments = tokenizer, rubric, seed, variants
        self._encoder = TextEncoder(tokenizer)
        self._vocab_size = tokenizer.get_vocab_size()
        self._rubric = rubric
        self._seed = seed
        self._variants = variants
        self._corpus = Corpus("train")
        self._pool: tuple[int, list[list[LabelledConversation]]] = (-1, [])
        self._shipped = [
            (shipped(rubric), compile_rubric(rubric, self._encoder, dialect=dialect))
            for dialect in _DIALECTS
        ]

    def __reduce__(self) -> tuple[Any, ...]:
        return BatchMaker, self._arguments  # to other processes

    def __call__(self, step: int) -> Batch:
        """The batch of this step, counted from 0."""
        rng = random.Random(f"{self._seed}/rubric/{step}")
        asked, compiled = self._rubric_of(rng, 0.0 if step < EASY_STEPS else self._variants)
        conversations = self._conversations(step)
        return make_batch(compiled, asked, conversations, self._vocab_size, seed=step)

    def _rubric_of(self, rng: random.Random, variants: float) -> tuple[Asked, CompiledRubric]:
        kind = rng.random()
        if kind >= variants:
            return rng.choices(self._shipped, weights=(3, 2))[0]
        asked = reordered(self._rubric, rng) if kind < variants * 0.7 else reworded(rng)
        dialect = rng.choice(_DIALECTS)
        return asked, compile_rubric(asked.rubric, self._encoder, dialect=dialect)

    def _conversations(self, step: int) -> list[LabelledConversation]:
        index, place = divmod(step, BATCHES_PER_POOL)
        if self._pool[0] != index:
            size = BATCH_SIZE * BATCHES_PER_POOL
            draw = 3 * size
            first = self._seed * 10**9 + index * draw
            choice = 3 if step < EASY_STEPS else 1
            seeds = range(first, first + choice * size)
            drawn = sorted(map(self._corpus.conversation, seeds), key=_length)
            cut = [drawn[i : i + BATCH_SIZE] for i in range(0, size, BATCH_SIZE)]
            rng = random.Random(f"{self._seed}/order/{index}")
            cut = [_run(batch, rng) for batch in cut]
            rng.shuffle(cut)
            self._pool = (index, cut)
        return self._pool[1][place]


def make_batch(
    compiled: CompiledRubric,
    asked: Asked,
    conversations: Sequence[LabelledConversation],
    vocab_size: int,
    *,
    seed: int,
    smoothing: Smoothing | None = Smoothing(),
) -> Batch:
    """The reads of a rubric with one canvas about these conversations, with their answers.

    Without smoothing a target is all on the answer.
    """
    (canvas,) = compiled.canvases
    prefix = compiled.shared_prefix_ids
    examples = []
    for conversation in conversations:
        prompt = compiled.prompt([Message(role, said) for role, said in conversation.messages])
        targets = []
        for slot in canvas.slots:
            question = compiled.rubric.question(slot.question_id)
            answer = asked.answers[question.id](conversation.labels)
            targets.append(_target(question, slot, answer, smoothing))
        key = prompt.conversation_ids_sha256
        seeded = canvas.seeded(seed, key, 0, vocab_size)
        facts = facts_of(conversation.labels)
        examples.append(Example(prompt.ids[len(prefix) :], seeded, tuple(targets), facts))
    return Batch(prefix, tuple(examples))


def _target(question: Question, slot: Slot, answer: int, smoothing: Smoothing | None) -> Target:
    weights = [0.0] * len(slot.label_ids)
    weights[answer] = 1.0
    if smoothing is not None and question.type == "score":
        for level in (answer - 1, answer + 1):
            if 0 <= level < len(weights):
                weights[level] += smoothing.neighbours
                weights[answer] -= smoothing.neighbours
    elif smoothing is not None:
        weights = [w * (1 - smoothing.options) + smoothing.options / len(weights) for w in weights]
    return Target(slot.position, dict(zip(slot.label_ids, weights, strict=True)))


def _run(batch: list[LabelledConversation], rng: random.Random) -> list[LabelledConversation]:
    """The batch, or neighbours from anywhere in it that fit: the longest have their turn too."""
    if len(batch) * _length(batch[-1]) <= MOST_CHARACTERS:
        return batch
    end = rng.randint(2, len(batch))
    most = max(2, MOST_CHARACTERS // _length(batch[end - 1]))
    return batch[max(0, end - most) : end]


def _length(conversation: LabelledConversation) -> int:
    return sum(len(content) for _, content in conversation.messages)
