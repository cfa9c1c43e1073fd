"""JevBench's public items (fstandhartinger/jevbench, MIT): one question each, with gold.

    {"id", "family", "topic", "state": TEXT or JSON, "question": {"type", "instructions",
     "criteria"}, "labels": [NAME, ...], "expected": NAME, "split", "group",
     "provenance": {"license", "source", "gold_probs", ...}}

The files are not part of this project: the user names them, and is told when they are not the
published ones. Items that ask the same question share a rubric; its one question has the id
`answer`. What the metrics need beyond the tables (family, gold probabilities) is in each record's
metadata.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pipeline.importers.folder import Imported, RubricShelf, read_jsonl
from pipeline.importers.questions import BAD_ITEM, BadQuestion, reason, to_question
from pipeline.yaml_files import ConfigError

QUESTION_ID = "answer"

PUBLISHED = {
    "easy.jsonl": "231df3c2c8e88a1a8c137ebe85de96ba70fabd330849098ac7b3c52c70b7172b",
    "original.jsonl": "5c2414edb3006b8bfcb70fda433f0f9ca015759433849f8d3104328a1f7c4180",
    "hard.jsonl": "89e9e6becb33ed88c1de7d42dcc87531b2fb64cfaef4e1986faf7c37b3f80ebb",
}
"""SHA-256 of the three public files: 48, 72 and 111 items."""

SOURCE = """JevBench, https://github.com/fstandhartinger/jevbench, MIT; the licence of an item is in
its metadata. Imported by `onepass import jevbench`."""

_METADATA = ("family", "topic", "split")


def import_items(paths: Sequence[Path]) -> Imported:
    """Items of files, or of folders of them; one shard per file; raises ConfigError."""
    files = [
        file
        for path in paths
        for file in (sorted(path.glob("*.jsonl")) if path.is_dir() else [path])
    ]
    if not files:
        raise ConfigError([f"{path}: holds no .jsonl file" for path in paths])
    shelf = RubricShelf(version="1")
    shards: dict[str, list[dict[str, Any]]] = {}
    problems: list[str] = []
    notes: list[str] = []
    for file in files:
        if file.stem in shards:
            problems.append(f"{file}: a file of that name is there already; rename one")
            continue
        shards[file.stem] = []
        for number, item in read_jsonl(file):
            try:
                shards[file.stem].append(_record(item, shelf))
            except BAD_ITEM as error:
                problems.append(f"{file}:{number}: {reason(error)}")
        sha256 = hashlib.sha256(file.read_bytes()).hexdigest()
        if PUBLISHED.get(file.name) != sha256:
            notes.append(f"{file}: not a published file of JevBench (SHA-256 {sha256})")
    if problems:
        raise ConfigError(problems)
    return Imported(SOURCE, shards, shelf.rubrics, notes)


def _record(item: dict[str, Any], shelf: RubricShelf) -> dict[str, Any]:
    for key in ("id", "family", "expected"):
        if not isinstance(item.get(key), str) or not item[key]:
            raise BadQuestion(f"{key} must be a string")
    if not item.get("state"):
        raise BadQuestion("state must be text or JSON that says something")
    labels = item.get("labels")
    if not isinstance(labels, list) or not all(isinstance(label, str) for label in labels):
        raise BadQuestion("labels must be a list of strings")
    question = to_question(QUESTION_ID, item.get("question"), labels)
    names = [option.name for option in question.options]
    if sorted(names) != sorted(labels):
        raise BadQuestion(
            f"labels are {', '.join(labels)}, but the question has {', '.join(names)}"
        )
    group = item.get("group") or None
    if not isinstance(group, str | None):
        raise BadQuestion("group must be a string")
    gold = question.find(item["expected"])
    if gold is None:
        raise BadQuestion(f"expected {item['expected']!r} is none of {', '.join(names)}")
    provenance = item.get("provenance")
    provenance = provenance if isinstance(provenance, dict) else {}
    prefix = re.sub(r"[^A-Za-z0-9]+", "_", item["family"]).strip("_") or "items"
    return {
        "id": item["id"],
        "group": group,
        "state": item["state"],
        "gold": {QUESTION_ID: names[gold]},
        "metadata": {
            **{key: item.get(key) for key in _METADATA},
            "license": provenance.get("license"),
            "gold_probs": provenance.get("gold_probs"),
        },
        "rubrics": [shelf.rubric_for(prefix, [question]).id],
    }
