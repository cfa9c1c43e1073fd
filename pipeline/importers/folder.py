"""What an importer makes of a data set, and the folder it writes.

FOLDER/conversations/*.jsonl    shards; every record names the rubrics that apply to it
FOLDER/rubrics/*.yaml
FOLDER/job.yaml                 `onepass run FOLDER/job.yaml` decides all of it
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from pipeline import storage
from pipeline.yaml_files import ConfigError
from rubrics.model import Question, Rubric

Record = Mapping[str, Any]


@dataclass(frozen=True)
class Imported:
    """A data set as conversations and rubrics.

    Attributes:
        source: what it is, whose, under which licence; heads the job file.
        shards: name (without suffix) -> records as `pipeline.input.records` takes them.
        rubrics: everything the records name.
        notes: what the user should know about the source.
    """

    source: str
    shards: Mapping[str, Sequence[Record]]
    rubrics: Sequence[Rubric]
    notes: Sequence[str] = field(default=())

    @property
    def conversations(self) -> int:
        return sum(len(records) for records in self.shards.values())

    @property
    def questions(self) -> int:
        """Questions asked in all: decisions a run will make."""
        sizes = {rubric.id: len(rubric.questions) for rubric in self.rubrics}
        records = (record for shard in self.shards.values() for record in shard)
        return sum(sizes[rubric] for record in records for rubric in record["rubrics"])


class RubricShelf:
    """Rubrics by what they ask: equal questions share a rubric, named by prefix and number."""

    def __init__(self, version: str) -> None:
        self._version = version
        self._by_questions: dict[tuple[str, str], Rubric] = {}
        self._counts: dict[str, int] = {}

    def rubric_for(self, prefix: str, questions: Sequence[Question]) -> Rubric:
        """The rubric of these questions; raises RubricError when they cannot be asked."""
        key = (prefix, json.dumps([question.model_dump() for question in questions]))
        if key not in self._by_questions:
            number = self._counts.get(prefix, 0) + 1
            rubric = Rubric(
                id=f"{prefix}-{number:02d}", version=self._version, questions=tuple(questions)
            )
            self._by_questions[key] = rubric
            self._counts[prefix] = number
        return self._by_questions[key]

    @property
    def rubrics(self) -> list[Rubric]:
        return list(self._by_questions.values())


def write_folder(imported: Imported, folder: Path, build: str) -> Path:
    """Write shards, rubrics and job; returns the job's path.

    Raises ConfigError when the folder holds shards or rubrics of something else, which the job
    would take in.
    """
    files = {
        folder / "conversations" / f"{name}.jsonl": _jsonl(records)
        for name, records in imported.shards.items()
    }
    for rubric in imported.rubrics:
        files[folder / "rubrics" / f"{rubric.id}.yaml"] = _yaml(_stated(rubric))
    present = {path for name in ("conversations", "rubrics") for path in folder.glob(f"{name}/*")}
    if others := sorted(present - files.keys()):
        raise ConfigError(
            [f"{folder}: holds {others[0].relative_to(folder)}; name an empty folder, or remove it"]
        )
    job = {
        "build": build,
        "rubrics": [f"{folder}/rubrics/*.yaml"],
        "input": f"{folder}/conversations/*.jsonl",
        "output": "out/",
    }
    header = "".join(f"# {line}\n" for line in imported.source.splitlines())
    files[folder / "job.yaml"] = header.encode() + _yaml(job)
    for path, data in files.items():
        storage.write_atomic(str(path), data)
    return folder / "job.yaml"


def read_jsonl(path: Path) -> list[tuple[int, dict[str, Any]]]:
    """(line number from 1, object) of every line; raises ConfigError with all that are none."""
    found, problems = [], []
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        raise ConfigError([f"{path}: cannot be read: {error.strerror}"]) from None
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            value = json.loads(line.decode("utf-8"))
        except ValueError:
            value = None
        if isinstance(value, dict):
            found.append((number, value))
        else:
            problems.append(f"{path}:{number}: is no JSON object")
    if problems:
        raise ConfigError(problems)
    return found


def _stated(rubric: Rubric) -> dict[str, Any]:
    """The rubric as somebody would write it: nothing that goes without saying."""
    stated: dict[str, Any] = rubric.model_dump(mode="json", exclude_defaults=True)
    for question in stated["questions"]:
        if question["type"] == "noul" and question["options"] == [{"name": "yes"}, {"name": "no"}]:
            del question["options"]
    return stated


def _jsonl(records: Sequence[Record]) -> bytes:
    return b"".join(json.dumps(r, ensure_ascii=False).encode("utf-8") + b"\n" for r in records)


def _yaml(value: Any) -> bytes:
    text: str = yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=100)
    return text.encode("utf-8")
