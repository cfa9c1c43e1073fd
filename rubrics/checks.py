"""What a rubric's fields must satisfy together; every function lists all problems it finds."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rubrics.model import Question

MAX_QUESTIONS = 64
MIN_OPTIONS, MAX_OPTIONS = 2, 26

# Control characters and both Unicode line breaks would break the one-line answers of a canvas.
_NOT_IN_NAMES = {"Cc", "Zl", "Zp", "Cs"}


def name_key(name: str) -> str:
    """What makes two names the same: composed form, without case."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())


def rubric_problems(fields: Mapping[str, str]) -> list[str]:
    """Problems of a rubric's own text fields, as far as they are given."""
    problems = []
    if "id" in fields and not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", fields["id"]):
        problems.append(
            f"id: {fields['id']!r} is not made of letters, digits, '_', '-' and '.'; rename it"
        )
    if "version" in fields:
        problems += _name_problems("version", fields["version"])
    return problems + _text_problems("instructions", fields.get("instructions", ""))


def question_problems(numbered: Sequence[tuple[int, Question]], known_ids: set[str]) -> list[str]:
    """Problems of questions, each given with its place in the rubric.

    Args:
        numbered: (place, question) pairs; places are those of the file.
        known_ids: ids that `depends_on` and `ask_if` may name.
    """
    problems = []
    if not numbered:
        problems.append("questions: there are none; ask at least one")
    if len(numbered) > MAX_QUESTIONS:
        problems.append(
            f"questions: there are {len(numbered)}; at most {MAX_QUESTIONS} fit one rubric"
        )
    problems += _duplicates((f"questions[{i}].id", q.id) for i, q in numbered)
    questions = {q.id: q for _, q in numbered}
    for index, question in numbered:
        where = f"questions[{index}]"
        problems += _name_problems(f"{where}.id", question.id)
        if ":" in question.id:
            problems.append(f"{where}.id: {question.id!r} has a colon; use '_' or '-' instead")
        if not question.text.strip():
            problems.append(f"{where}.text: is blank; write the question")
        problems += _text_problems(f"{where}.text", question.text)
        problems += _option_problems(f"{where}.options", question)
        problems += _dependency_problems(where, question, questions, known_ids)
    return problems + _cycle_problems(questions)


def _option_problems(where: str, question: Question) -> list[str]:
    count = len(question.options)
    if question.type == "noul":
        if tuple(option.name for option in question.options) != ("yes", "no"):
            return [
                f"{where}: a noul question has the options yes, no in this order; leave them out"
            ]
    elif not MIN_OPTIONS <= count <= MAX_OPTIONS:
        return [f"{where}: there are {count}; give {MIN_OPTIONS} to {MAX_OPTIONS}"]
    problems = _duplicates((f"{where}[{i}].name", o.name) for i, o in enumerate(question.options))
    for i, option in enumerate(question.options):
        problems += _name_problems(f"{where}[{i}].name", option.name)
        problems += _text_problems(f"{where}[{i}].description", option.description or "")
    return problems


def _dependency_problems(
    where: str, question: Question, questions: dict[str, Question], known_ids: set[str]
) -> list[str]:
    problems = []
    for key, ids in (("depends_on", question.depends_on), ("ask_if", tuple(question.ask_if))):
        problems += [
            f"{where}.{key}: no question has the id {other!r}; use the id of another question"
            for other in ids
            if other not in known_ids
        ]
    for other, names in question.ask_if.items():
        if not names:
            problems.append(f"{where}.ask_if.{other}: names no option; list those that allow it")
        asked = questions.get(other)
        if asked is None:
            continue
        options = ", ".join(option.name for option in asked.options)
        problems += [
            f"{where}.ask_if.{other}: {name!r} is no option of {other}; use one of {options}"
            for name in names
            if asked.find(name) is None
        ]
    return problems


def _cycle_problems(questions: dict[str, Question]) -> list[str]:
    waiting = {
        q.id: {other for other in q.dependencies if other in questions} for q in questions.values()
    }
    while ready := [q for q, others in waiting.items() if not others & waiting.keys()]:
        for question_id in ready:
            del waiting[question_id]
    if not waiting:
        return []
    # Every question left waits for another one left: walking along must come back to a start.
    path = [next(iter(waiting))]
    while len(set(path)) == len(path):
        path.append(min(waiting[path[-1]] & waiting.keys()))
    circle = " -> ".join(path[path.index(path[-1]) :])
    return [f"questions: {circle} wait for each other; remove one depends_on or ask_if"]


def _duplicates(named: Iterable[tuple[str, str]]) -> list[str]:
    problems = []
    first: dict[str, str] = {}
    for where, name in named:
        key = name_key(name)
        if key in first:
            problems.append(
                f"{where}: {name!r} is the same as {first[key]}; names differ by more "
                "than case and Unicode form"
            )
        first.setdefault(key, where)
    return problems


def _name_problems(where: str, name: str) -> list[str]:
    if not name.strip():
        return [f"{where}: is blank; name it"]
    if name != name.strip():
        return [f"{where}: {name!r} begins or ends with white space; remove it"]
    bad = sorted({f"U+{ord(c):04X}" for c in name if unicodedata.category(c) in _NOT_IN_NAMES})
    if bad:
        return [f"{where}: has control or line-break characters ({', '.join(bad)}); remove them"]
    return []


def _text_problems(where: str, text: str) -> list[str]:
    if any(unicodedata.category(character) == "Cs" for character in text):
        return [f"{where}: has half of a surrogate pair, which is no character; remove it"]
    return []
