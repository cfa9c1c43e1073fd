"""Small jobs over shards written on the spot, decided by the fake engine."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from engine.builds import Build
from engine.checkpoints import resolve
from engine.fake import FakeEngine
from pipeline.deciding.inference import EngineSource
from pipeline.jobs.config import Job, LoadedJob
from pipeline.jobs.running import execute, pipeline_options, prepare
from pipeline.output.runs import Run
from rubrics.model import Rubric, load_rubric

NOON = datetime(2026, 1, 2, 12, 0, tzinfo=UTC)


def fake_engine(build: Build) -> FakeEngine:
    return FakeEngine(build, resolve(build.model).vocab_size)


def noon() -> datetime:
    return NOON


FAKE = EngineSource(fake_engine, noon)

CHAINED = Rubric.model_validate(
    {
        "id": "chained",
        "version": "1",
        "questions": [
            {"id": "pain", "type": "noul", "text": "Is there pain?"},
            {
                "id": "where",
                "type": "choice",
                "text": "Where?",
                "options": ["head", "chest", "leg"],
                "ask_if": {"pain": ["yes"]},
            },
            {
                "id": "how_bad",
                "type": "score",
                "text": "How bad?",
                "options": ["mild", "bad", "worst"],
                "ask_if": {"where": ["head", "chest"]},
            },
            {"id": "calm", "type": "noul", "text": "Calm?", "depends_on": ["pain"], "alone": True},
        ],
    }
)


def conversation(number: int, **extra: Any) -> dict[str, Any]:
    """A valid record; its text holds the canary `CANARY-<number>`."""
    text = f"CANARY-{number} I have had a headache for {number} days."
    return {"id": f"c{number:03d}", "messages": [{"role": "user", "content": text}], **extra}


def write_shard(path: Path, records: Iterable[Any]) -> Path:
    """JSONL; strings are written as they are."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [r if isinstance(r, str) else json.dumps(r, ensure_ascii=False) for r in records]
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def make_job(
    folder: Path,
    rubrics: Sequence[Rubric] | None = None,
    build: dict[str, Any] | None = None,
    **job: Any,
) -> LoadedJob:
    """A job over `folder/in/*.jsonl` into `folder/out`."""
    settings = {
        "name": "test",
        "build": "tiny",
        "rubrics": ["triage"],
        "input": str(folder / "in" / "*.jsonl"),
        "output": str(folder / "out"),
        "max_error_rate": 1.0,
        **job,
    }
    return LoadedJob(
        Job.model_validate(settings),
        Build.model_validate({"name": "tiny", **(build or {})}),
        tuple(rubrics or (load_rubric("triage"),)),
    )


def decide(
    job: LoadedJob, *, resume: bool = False, source: EngineSource = FAKE, flags: Sequence[str] = ()
) -> Run:
    """Run a job to the end."""
    return execute(prepare(job, resume=resume, source=source), pipeline_options(job, flags))


def rows(run: Run, table: str) -> list[dict[str, Any]]:
    """All rows of one table of a run."""
    return [r for f in run.files(table) for r in pq.read_table(f, partitioning=None).to_pylist()]


def table_bytes(run: Run) -> dict[str, bytes]:
    """Every part's file by table and name, without `runs`, whose times differ."""
    return {
        f"{table}/{Path(file).name}": Path(file).read_bytes()
        for table in ("decisions", "option_probabilities", "errors")
        for file in run.files(table)
    }
