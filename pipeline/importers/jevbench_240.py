"""Chen Feng's JevBench (PyPI `jevbench`): synthetic cases of 8 to 12 questions, no gold labels.

    {"id", "domain", "state": TEXT, "questions": {ID: question, ...},
     "hierarchies": {ID: [{GROUP: [OPTION, ...], ...}, ...], ...}, ...}

The data set shuffles the options of a choice from case to case. Here every choice has one order,
that of its groups where they are stated, so that the cases of a domain that ask the same questions
share a rubric, and with it the prefix of their prompts.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pipeline.importers.folder import Imported, RubricShelf, read_jsonl
from pipeline.importers.questions import BAD_ITEM, BadQuestion, reason, to_question
from pipeline.yaml_files import ConfigError
from rubrics.model import Question

DEFAULT_PATH = Path("../shared/data/jevbench-240")

SOURCE = """JevBench cases (https://pypi.org/project/jevbench), Copyright 2026 Chen Feng,
Apache-2.0. Imported by `onepass import jevbench-240`, which puts the options of each choice in one
order; the data set shuffles them from case to case."""


def import_cases(path: Path) -> Imported:
    """Cases of a JSONL file, or of the folder's; one shard per domain; raises ConfigError."""
    files = sorted(path.glob("*.jsonl")) if path.is_dir() else [path]
    if not files or not files[0].exists():
        raise ConfigError([f"{path}: holds no .jsonl file; name the folder or file of the cases"])
    shelf = RubricShelf(version="1")
    shards: dict[str, list[dict[str, Any]]] = {}
    problems: list[str] = []
    for file in files:
        for number, case in read_jsonl(file):
            try:
                record = _record(case, shelf)
            except BAD_ITEM as error:
                problems.append(f"{file}:{number}: {reason(error)}")
                continue
            shards.setdefault(case["domain"], []).append(record)
    if problems:
        raise ConfigError(problems)
    return Imported(SOURCE, shards, shelf.rubrics)


def _record(case: dict[str, Any], shelf: RubricShelf) -> dict[str, Any]:
    strings = [case.get(key) for key in ("id", "domain", "state")]
    if not all(isinstance(value, str) and value for value in strings):
        raise BadQuestion("a case must have id, domain and state, each a string")
    stated = case.get("questions")
    if not isinstance(stated, dict):
        raise BadQuestion("questions must be an object")
    hierarchies = case.get("hierarchies") or {}
    questions = [
        _ordered(to_question(name, question), hierarchies.get(name) or [{}])
        for name, question in stated.items()
    ]
    rubric = shelf.rubric_for(case["domain"], questions)
    return {
        "id": case["id"],
        "state": case["state"],
        "metadata": {"domain": case["domain"], "source": case.get("source")},
        "rubrics": [rubric.id],
    }


def _ordered(question: Question, hierarchies: list[dict[str, list[str]]]) -> Question:
    if question.type != "choice":
        return question
    grouped = [name for group in hierarchies[0].values() for name in group]
    place = {name: number for number, name in enumerate(grouped)}
    options = sorted(question.options, key=lambda o: (place.get(o.name, len(place)), o.name))
    return question.model_copy(update={"options": tuple(options)})
