"""From a slot's logprobs to the probabilities of its options."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rubrics.canvas import Slot
from rubrics.model import Question


@dataclass(frozen=True, slots=True)
class Scored:
    """What one question's slot says; all lists are in option order.

    Attributes:
        probabilities: over the question's own options, mean of the draws; they sum to 1.
        logprobs: the engine's log probability of each label, mean of the draws.
        decision_index: the most probable option, the first of equals.
        probability: the decision's.
        margin: the decision's probability minus that of the runner-up.
        entropy_nats: of `probabilities`.
        expected_score: sum of level times probability, levels from 0; None unless a score.
        label_mass: probability the engine gave to all labels together, mean of the draws.
        standard_error: of `probability` over draws; None for a single draw.
        agreement: share of draws whose own most probable option is the decision.
    """

    probabilities: tuple[float, ...]
    logprobs: tuple[float, ...]
    decision_index: int
    probability: float
    margin: float
    entropy_nats: float
    expected_score: float | None
    label_mass: float
    standard_error: float | None
    agreement: float


def score(question: Question, slot: Slot, draws: Sequence[Mapping[int, float]]) -> Scored:
    """Scores a question from its slot's logprobs (label id -> natural log), one mapping per draw.

    Raises:
        ValueError: no draw, a label without logprob, a NaN, or no label with any probability.
    """
    if not draws:
        raise ValueError(f"question {question.id}: no draw to score")
    logprobs = [[_logprob(question, draw, label) for label in slot.label_ids] for draw in draws]
    shares = [_softmax(question, values) for values in logprobs]
    options = range(len(slot.label_ids))
    mean = _normalised([math.fsum(share[i] for share in shares) / len(draws) for i in options])
    decision = mean.index(max(mean))
    of_decision = [share[decision] for share in shares]
    agreeing = sum(share.index(max(share)) == decision for share in shares)
    return Scored(
        probabilities=tuple(mean),
        logprobs=tuple(math.fsum(values[i] for values in logprobs) / len(draws) for i in options),
        decision_index=decision,
        probability=mean[decision],
        margin=mean[decision] - sorted(mean)[-2],
        entropy_nats=-math.fsum(p * math.log(p) for p in mean if p > 0),
        expected_score=(
            math.fsum(i * p for i, p in enumerate(mean)) if question.type == "score" else None
        ),
        label_mass=math.fsum(math.exp(v) for values in logprobs for v in values) / len(draws),
        standard_error=_standard_error(of_decision),
        agreement=agreeing / len(draws),
    )


def _logprob(question: Question, draw: Mapping[int, float], label_id: int) -> float:
    value = draw.get(label_id)
    if value is None or math.isnan(value):
        raise ValueError(
            f"question {question.id}: the engine gave {value} as logprob of label id {label_id}; "
            "every label of the canvas must be among the read's label_ids"
        )
    return value


def _softmax(question: Question, logprobs: Sequence[float]) -> list[float]:
    highest = max(logprobs)
    if math.isinf(highest):
        raise ValueError(f"question {question.id}: no label has a finite logprob")
    return _normalised([math.exp(value - highest) for value in logprobs])


def _normalised(weights: Sequence[float]) -> list[float]:
    total = math.fsum(weights)
    return [weight / total for weight in weights]


def _standard_error(values: Sequence[float]) -> float | None:
    if len(values) < 2:
        return None
    mean = math.fsum(values) / len(values)
    variance = math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1)
    return math.sqrt(variance / len(values))
