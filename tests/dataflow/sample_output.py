"""An output folder with a history: several builds and dates, written by the pipeline's own code.

Rows are drawn with a fixed seed. Beside the complete runs lie what views must not show: an earlier
run of the same date and build with more parts, a failed run and an unfinished one.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from pipeline.output.finishing import COUNTS, RunStart, finish_run, start_run
from pipeline.output.runs import RunKey
from pipeline.output.tables import DECISIONS, ERRORS, OPTION_PROBABILITIES, Table
from pipeline.output.writing import PART_TABLES, PartMarker, write_marker, write_table

QUESTIONS = {
    "urgency": ("routine", "soon", "urgent"),
    "topic": ("billing", "symptoms", "scheduling"),
    "angry": ("yes", "no"),
}
JOB = "nightly"


@dataclass
class History:
    """What was written: rows of the complete, latest runs, by table, with the partition keys."""

    output: str
    rows: dict[str, list[dict[str, Any]]] = field(default_factory=dict)


def write_history(output: str) -> History:
    history = History(output)
    rng = random.Random(7)
    for number, date in enumerate(("2026-11-16", "2026-11-17", "2026-11-24")):
        for build in ("base", "single_pass"):
            run_id = f"{date}-{build}"
            _run(history, RunKey(date, build, run_id), rng, parts=2, hour=number + 2)
    for key, keep in (
        (RunKey("2026-11-17", "base", "replaced"), "replaced"),
        (RunKey("2026-11-24", "base", "failed"), "failed"),
        (RunKey("2026-11-24", "single_pass", "unfinished"), "unfinished"),
    ):
        _run(History(output), key, rng, parts=3, hour=1, ending=keep)
    return history


def _run(
    history: History,
    key: RunKey,
    rng: random.Random,
    *,
    parts: int,
    hour: int,
    ending: str = "complete",
) -> None:
    started = datetime.fromisoformat(f"{key.run_date}T{hour:02}:00:00+00:00")
    build = {"model": "tiny", "dtype": "bfloat16", "single_pass_reads": key.build != "base"}
    start = RunStart(key, JOB, started.isoformat(), "0" * 64, {"build": build})
    start_run(history.output, start)
    markers = [_part(history, key, rng, part, started) for part in range(parts)]
    if ending == "unfinished":
        return
    finished = started + timedelta(seconds=rng.randint(200, 900))
    allowed = 0.0 if ending == "failed" else 1.0
    manifest = finish_run(
        history.output,
        start,
        markers,
        {marker.part: marker.counts["records"] for marker in markers},
        max_error_rate=allowed,
        finished_at=finished,
    )
    assert manifest["status"] == ("failed" if ending == "failed" else "complete")
    row = {**manifest["row"], "started_at": started, "finished_at": finished}
    history.rows.setdefault("runs", []).append(_keyed(key, row))


def _part(
    history: History, key: RunKey, rng: random.Random, part: int, started: datetime
) -> PartMarker:
    tables: dict[str, list[dict[str, Any]]] = {name: [] for name in PART_TABLES}
    for number in range(12):
        conversation = f"c{part}-{number}"
        if rng.random() < 0.1:
            tables["errors"].append(_error(conversation, part, number))
            continue
        for question, options in QUESTIONS.items():
            _answer(tables, conversation, question, options, rng, key, started)
    for name, rows in tables.items():
        history.rows.setdefault(name, []).extend(_keyed(key, row) for row in rows)
    name = f"part-{part:05}"
    files = tuple(
        write_table(history.output, key, table, name, rows) for table, rows in tables.items()
    )
    failed = len(tables["errors"])
    counts = dict.fromkeys(COUNTS, 0) | {
        "records": 12,
        "conversations": 12,
        "cases": 12,
        "decided_cases": 12 - failed,
        "failed_cases": failed,
        "expected_decisions": len(tables["decisions"]),
        "decisions": len(tables["decisions"]),
        "options": len(tables["option_probabilities"]),
        "errors": failed,
    }
    reads = 12 - failed
    engine = {
        "steps": reads * (1 if key.build == "single_pass" else 2),
        "reads": reads,
        "single_pass_reads": reads if key.build == "single_pass" else 0,
        "prompt_tokens": 300 * reads,
        "prompt_tokens_cached": 120 * reads,
        "engine_seconds": 0.5 * reads,
    }
    facts = {"machine_type": "c4-standard-24", "cpu_features": ["amx_tile"], "threads": 24}
    marker = PartMarker(name, "0" * 64, files, counts, engine, facts)
    write_marker(history.output, key, marker)
    return marker


def _answer(
    tables: dict[str, list[dict[str, Any]]],
    conversation: str,
    question: str,
    options: tuple[str, ...],
    rng: random.Random,
    key: RunKey,
    started: datetime,
) -> None:
    keys = {"conversation_id": conversation, "rubric_id": "triage", "rubric_version": "1",
            "question_id": question}  # fmt: skip
    skipped = question == "angry" and rng.random() < 0.2
    weights = [rng.random() ** 3 + 0.01 for _ in options]
    probabilities = [weight / sum(weights) for weight in weights]
    best = max(range(len(options)), key=lambda index: probabilities[index])
    ordered = sorted(probabilities, reverse=True)
    gold = rng.choice(options) if question == "topic" and rng.random() < 0.7 else None
    row = _blank(DECISIONS) | keys | {"question_type": "choice", "seed": 42, "decided_at": started}
    if skipped:
        tables["decisions"].append(row | {"skipped_because": "urgency"})
        return
    tables["decisions"].append(
        row
        | {
            "decision": options[best],
            "decision_index": best,
            "probability": probabilities[best],
            "margin": ordered[0] - ordered[1],
            "gold": gold,
            "correct": None if gold is None else gold == options[best],
            "single_pass": key.build == "single_pass",
        }
    )
    tables["option_probabilities"] += [
        _blank(OPTION_PROBABILITIES)
        | keys
        | {"option": option, "option_index": index, "probability": probabilities[index],
           "is_decision": index == best}
        for index, option in enumerate(options)
    ]  # fmt: skip


def _error(conversation: str, part: int, number: int) -> dict[str, Any]:
    return _blank(ERRORS) | {
        "source": f"{part}.jsonl",
        "record_index": number,
        "conversation_id": conversation,
        "rubric_id": "triage",
        "stage": "plan",
        "code": "prompt_too_long" if number % 2 else "empty",
        "message": "too long",
    }


def _blank(table: Table) -> dict[str, Any]:
    return dict.fromkeys((column.name for column in table.columns), None)


def _keyed(key: RunKey, row: dict[str, Any]) -> dict[str, Any]:
    return {"run_date": key.run_date, "build": key.build, "run_id": key.run_id, **row}
