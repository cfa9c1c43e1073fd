"""Questions as the Jev interface states them -> questions of a rubric.

{"type": "noul",   "instructions": TEXT, "criteria": {"true": TEXT, "false": TEXT}}  (optional)
{"type": "choice", "instructions": TEXT, "criteria": {NAME: TEXT, ...} or [NAME, ...]}
{"type": "score",  "instructions": TEXT, "criteria": [TEXT, ...]}                    low first
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from rubrics.errors import RubricError
from rubrics.model import Option, Question

_NOUL_KEYS = {"yes": ("yes", "true"), "no": ("no", "false")}


class BadQuestion(ValueError):  # noqa: N818
    """A question that is not in that form; the message says why."""


BAD_ITEM = (BadQuestion, RubricError, ValidationError)
"""What an item of a data set can raise on its way to a rubric."""


def reason(error: Exception) -> str:
    """One of BAD_ITEM in one line."""
    if isinstance(error, ValidationError):
        return "; ".join(
            f"{'.'.join(str(step) for step in problem['loc'])}: {problem['msg']}"
            for problem in error.errors(include_url=False)
        )
    return "; ".join(error.problems) if isinstance(error, RubricError) else str(error)


def to_question(question_id: str, stated: Any, labels: Sequence[str] | None = None) -> Question:
    """A stated question -> Question; raises BadQuestion or what Question itself raises.

    `labels`, where the data set lists them, are the names of the options, in order.
    """
    if not isinstance(stated, dict) or not isinstance(stated.get("instructions"), str):
        raise BadQuestion("a question must be an object with type and instructions")
    kind, criteria = stated.get("type"), stated.get("criteria") or {}
    if kind == "noul":
        options = _noul(criteria)
    elif kind == "choice":
        options = _choice(criteria, labels)
    elif kind == "score":
        options = _score(criteria, labels)
    else:
        raise BadQuestion(f"type {kind!r} is none of noul, choice, score")
    return Question(id=question_id, type=kind, text=stated["instructions"], options=options)


def _noul(criteria: Any) -> tuple[Option, ...]:
    if not isinstance(criteria, Mapping):
        raise BadQuestion("criteria of a noul question must be an object")
    described = {
        name: next((criteria[key] for key in keys if key in criteria), None)
        for name, keys in _NOUL_KEYS.items()
    }
    if not any(described.values()):
        return ()
    return tuple(Option(name=name, description=text) for name, text in described.items())


def _choice(criteria: Any, labels: Sequence[str] | None) -> tuple[Option, ...]:
    if isinstance(criteria, Mapping):
        names = list(labels or criteria)
        return tuple(Option(name=name, description=criteria.get(name)) for name in names)
    if isinstance(criteria, list):
        return tuple(Option(name=name) for name in labels or criteria)
    raise BadQuestion("criteria of a choice question must be an object or a list")


def _score(criteria: Any, labels: Sequence[str] | None) -> tuple[Option, ...]:
    if isinstance(criteria, Mapping):
        levels = list(labels or criteria)
        return tuple(Option(name=level, description=criteria.get(level)) for level in levels)
    if not isinstance(criteria, list):
        raise BadQuestion("criteria of a score question must be a list or an object")
    if labels is None:
        return tuple(Option(name=text) for text in criteria)
    if len(labels) != len(criteria):
        raise BadQuestion(f"has {len(labels)} labels and {len(criteria)} criteria")
    return tuple(
        Option(name=label, description=text) for label, text in zip(labels, criteria, strict=True)
    )
