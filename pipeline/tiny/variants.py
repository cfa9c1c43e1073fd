"""Questions the synthetic labels can answer, in other words and other company.

The embedded model is meant for the shipped rubric; with the variants it also answers a part of it,
or its questions in another order.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from engine.tiny.corpus import TOPICS, URGENCIES, Labels
from rubrics.model import Option, Question, Rubric

Answer = Callable[[Labels], int]


@dataclass(frozen=True)
class Asked:
    """A rubric and, by question id, which option (index) answers it under given labels."""

    rubric: Rubric
    answers: dict[str, Answer]


def shipped(rubric: Rubric) -> Asked:
    """The shipped `triage` rubric, or a part of it, with its answers."""
    return Asked(rubric, {question.id: _plain_answer(question) for question in rubric.questions})


def _plain_answer(question: Question) -> Answer:
    names = [option.name for option in question.options]
    if question.id == "asks_for_human":
        return lambda labels: 0 if labels.asks_for_human else 1
    if question.id == "frustration":
        return lambda labels: labels.frustration - 1
    attribute = {"topic": "topic", "urgency": "urgency"}[question.id]
    return lambda labels: names.index(getattr(labels, attribute))


def reordered(rubric: Rubric, rng: random.Random) -> Asked:
    """Some of the shipped questions, in any order."""
    chosen = rng.sample(rubric.questions, rng.choice((1, 2, 3, 4, 4)))
    return shipped(rubric.model_copy(update={"questions": tuple(chosen)}))


def reworded(rng: random.Random) -> Asked:
    """One to five questions in other words, with other names for the options.

    The options keep their order: a model of this size does not learn to look labels up.
    """
    makers = rng.sample((_topic, _urgency, _human, _mood, _yes_or_no), rng.randint(1, 5))
    asked = [maker(rng) for maker in makers]
    instructions = rng.choice(
        (None, "Read the chat and answer.", "You sort messages of patients.", "Be careful.")
    )
    rubric = Rubric(
        id="variant",
        version="1",
        instructions=instructions,
        questions=tuple(question for question, _ in asked),
    )
    return Asked(rubric, {question.id: answer for question, answer in asked})


def _topic(rng: random.Random) -> tuple[Question, Answer]:
    names = {
        "billing": rng.choice(("billing", "payments", "money", "bills and insurance", "costs")),
        "symptoms": rng.choice(("symptoms", "health", "medical", "illness", "pain or illness")),
        "scheduling": rng.choice(("scheduling", "appointments", "visits", "booking", "calendar")),
    }
    return _choice(
        rng,
        rng.choice(("topic", "subject", "about", "category")),
        ("What is this about?", "Which topic fits best?", "What does the patient want?"),
        names,
        TOPICS,
        lambda labels: labels.topic,
    )


def _urgency(rng: random.Random) -> tuple[Question, Answer]:
    names = {
        "routine": rng.choice(("routine", "low", "not urgent", "can wait")),
        "soon": rng.choice(("soon", "medium", "this week", "within days")),
        "urgent": rng.choice(("urgent", "high", "emergency", "right now")),
    }
    return _choice(
        rng,
        rng.choice(("urgency", "priority", "when")),
        ("How urgent is it?", "When must somebody act?", "What priority does this have?"),
        names,
        URGENCIES,
        lambda labels: labels.urgency,
    )


def _choice(
    rng: random.Random,
    question_id: str,
    texts: tuple[str, ...],
    names: dict[str, str],
    values: tuple[str, ...],
    value_of: Callable[[Labels], str],
) -> tuple[Question, Answer]:
    question = Question(
        id=question_id,
        type="choice",
        text=rng.choice(texts),
        options=tuple(Option(name=names[value]) for value in values),
    )
    return question, lambda labels: values.index(value_of(labels))


def _human(rng: random.Random) -> tuple[Question, Answer]:
    question = Question(
        id=rng.choice(("asks_for_human", "human", "handover", "wants_person")),
        type="noul",
        text=rng.choice(
            ("Does the patient want a human?", "Is a person asked for?", "Should staff take over?")
        ),
    )
    return question, lambda labels: 0 if labels.asks_for_human else 1


def _mood(rng: random.Random) -> tuple[Question, Answer]:
    levels = rng.choice((("calm", "annoyed", "furious"), ("none", "some", "strong")))
    question = Question(
        id=rng.choice(("mood", "anger", "temper")),
        type="score",
        text=rng.choice(("How angry is the patient?", "How strong is the anger?")),
        options=tuple(Option(name=level) for level in levels),
    )
    return question, lambda labels: (0, 0, 1, 2, 2)[labels.frustration - 1]


_FACTS: tuple[tuple[str, str, Callable[[Labels], bool]], ...] = (
    ("is_billing", "Is it about money or insurance?", lambda labels: labels.topic == "billing"),
    (
        "is_symptom",
        "Does the patient describe symptoms?",
        lambda labels: labels.topic == "symptoms",
    ),
    ("is_visit", "Is it about an appointment?", lambda labels: labels.topic == "scheduling"),
    ("is_urgent", "Is it urgent?", lambda labels: labels.urgency == "urgent"),
    ("can_wait", "Can it wait?", lambda labels: labels.urgency == "routine"),
    ("is_upset", "Is the patient upset?", lambda labels: labels.frustration >= 3),
    ("is_calm", "Is the patient calm?", lambda labels: labels.frustration == 1),
)


def _yes_or_no(rng: random.Random) -> tuple[Question, Answer]:
    name, text, holds = rng.choice(_FACTS)
    return Question(id=name, type="noul", text=text), lambda labels: 0 if holds(labels) else 1
