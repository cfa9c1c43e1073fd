"""How often the embedded model is right, and how well it knows: accuracy and calibration."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.tiny.corpus import Corpus, LabelledConversation
from engine.tiny.examples import Batch, Example, Target
from engine.tiny.reading import read as read_batch
from pipeline.input.conversations import Message
from rubrics.compiler import CompiledRubric
from rubrics.scoring import Scored, score

SlotLogprobs = Callable[
    [CompiledRubric, Sequence[Sequence[Message]]], list[dict[str, dict[int, float]]]
]
"""Reads conversations: per conversation, question id -> label id -> logprob."""

CALIBRATION_BINS = 10


@dataclass(frozen=True)
class GoldConversation:
    """A conversation and, by question id, the name of the right option."""

    id: str
    messages: tuple[Message, ...]
    gold: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Quality:
    """Figures of one question.

    Attributes:
        items: conversations with gold for it.
        accuracy: share decided as gold has it.
        near_accuracy: share at most one level away; equals `accuracy` unless a score.
        calibration_error: mean distance of confidence and accuracy over ten equal bins (ECE).
        mean_probability: of the decisions.
    """

    items: int
    accuracy: float
    near_accuracy: float
    calibration_error: float
    mean_probability: float


def heldout(count: int, first: int = 0) -> list[GoldConversation]:
    """Synthetic conversations, from seed `first`, in wordings that training never showed."""
    corpus = Corpus("heldout")
    return [_with_gold(corpus.conversation(seed)) for seed in range(first, first + count)]


def handwritten(path: Path) -> list[GoldConversation]:
    """Conversations of a JSONL file with `id`, `messages` and `gold`."""
    records = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return [
        GoldConversation(
            record["id"],
            tuple(Message(m["role"], m["content"]) for m in record["messages"]),
            record["gold"],
        )
        for record in records
    ]


_FRUSTRATION = ("calm", "impatient", "annoyed", "angry", "furious")


def gold_of(conversation: LabelledConversation) -> dict[str, str]:
    """Names of the right options of the shipped rubric."""
    labels = conversation.labels
    return {
        "topic": labels.topic,
        "urgency": labels.urgency,
        "asks_for_human": "yes" if labels.asks_for_human else "no",
        "frustration": _FRUSTRATION[labels.frustration - 1],
    }


def _with_gold(conversation: LabelledConversation) -> GoldConversation:
    messages = tuple(Message(role, said) for role, said in conversation.messages)
    return GoldConversation(f"heldout-{conversation.seed:05d}", messages, gold_of(conversation))


def measure(
    compiled: CompiledRubric, conversations: Sequence[GoldConversation], read: SlotLogprobs
) -> dict[str, Quality]:
    """Figures by question id, from one read per conversation."""
    answers = read(compiled, [conversation.messages for conversation in conversations])
    figures = {}
    for question in compiled.rubric.questions:
        slot = compiled.slot(question.id)
        scored, gold = [], []
        for conversation, slots in zip(conversations, answers, strict=True):
            right = question.find(conversation.gold.get(question.id, ""))
            if right is not None:
                scored.append(score(question, slot, [slots[question.id]]))
                gold.append(right)
        figures[question.id] = _quality(scored, gold, near=1 if question.type == "score" else 0)
    return figures


def _quality(scored: Sequence[Scored], gold: Sequence[int], near: int) -> Quality:
    distances = [abs(s.decision_index - right) for s, right in zip(scored, gold, strict=True)]
    confidences = [s.probability for s in scored]
    return Quality(
        items=len(gold),
        accuracy=_mean(distance == 0 for distance in distances),
        near_accuracy=_mean(distance <= near for distance in distances),
        calibration_error=_calibration_error(confidences, [d == 0 for d in distances]),
        mean_probability=_mean(confidences),
    )


def _calibration_error(confidences: Sequence[float], right: Sequence[bool]) -> float:
    bins: dict[int, list[int]] = {}
    for index, confidence in enumerate(confidences):
        place = min(int(confidence * CALIBRATION_BINS), CALIBRATION_BINS - 1)
        bins.setdefault(place, []).append(index)
    gaps = (
        len(members)
        * abs(_mean(confidences[i] for i in members) - _mean(right[i] for i in members))
        for members in bins.values()
    )
    return sum(gaps) / len(confidences)


def _mean(values: Iterable[float]) -> float:
    listed = list(values)
    return sum(listed) / len(listed)


def read_with_transformers(model: Any, vocab_size: int, seed: int = 42) -> SlotLogprobs:
    """Reads through the reference implementation, normalised over the whole vocabulary."""
    import torch

    def read(
        compiled: CompiledRubric, conversations: Sequence[Sequence[Message]]
    ) -> list[dict[str, dict[int, float]]]:
        (canvas,) = compiled.canvases
        prefix = compiled.shared_prefix_ids
        results: list[dict[str, dict[int, float]]] = []
        for messages in conversations:
            prompt = compiled.prompt(messages)
            seeded = canvas.seeded(seed, prompt.conversation_ids_sha256, 0, vocab_size)
            targets = tuple(Target(slot.position, {}) for slot in canvas.slots)
            example = Example(prompt.ids[len(prefix) :], seeded, targets)
            with torch.inference_mode():
                logits = read_batch(model, Batch(prefix, (example,))).slot_logits
            logprobs = torch.log_softmax(logits, -1)
            results.append(
                {
                    slot.question_id: {label: float(row[label]) for label in slot.label_ids}
                    for slot, row in zip(canvas.slots, logprobs, strict=True)
                }
            )
        return results

    return read
