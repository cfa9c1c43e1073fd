"""Questions, rubrics and messages to test with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rubrics.model import Question, Rubric


@dataclass(frozen=True)
class Message:
    role: str
    content: str


def choice(question_id: str = "q", **changes: Any) -> Question:
    fields = {"type": "choice", "text": "Which?", "options": ("a", "b")} | changes
    return Question(id=question_id, **fields)


def noul(question_id: str = "q", **changes: Any) -> Question:
    return Question(**{"id": question_id, "type": "noul", "text": "Is it?"} | changes)


def rubric(*questions: Question, **changes: Any) -> Rubric:
    return Rubric(**{"id": "r", "version": "1", "questions": questions} | changes)
