"""Complete runs written by hand, through the same code as real ones.

>>> import tempfile
>>> folder = tempfile.mkdtemp()
>>> run = write_run(folder, [decision("c1", "q1", {"yes": 0.9, "no": 0.1})], run_id="r1")
>>> run.status, run.row["decisions"]
('complete', 1)
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from pipeline.output.finishing import COUNTS, RunStart, finish_run, sha256_of, start_run
from pipeline.output.runs import Run, RunKey, find_run
from pipeline.output.tables import DECISIONS, OPTION_PROBABILITIES
from pipeline.output.writing import PartMarker, write_marker, write_table

STARTED = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


@dataclass(frozen=True)
class Decided:
    """One decision row and its option rows."""

    decision: dict[str, Any]
    options: tuple[dict[str, Any], ...]


def decision(
    conversation_id: str,
    question_id: str,
    probabilities: Mapping[str, float],
    *,
    rubric_id: str = "triage",
    rubric_version: str = "1",
    question_type: str = "choice",
    gold: str | None = None,
    **overrides: Any,
) -> Decided:
    """A decision with these option probabilities; `overrides` set further columns."""
    names = list(probabilities)
    values = [probabilities[n] for n in names]
    best = max(range(len(values)), key=values.__getitem__)
    second = sorted(values)[-2]
    keys = {
        "conversation_id": conversation_id,
        "rubric_id": rubric_id,
        "rubric_version": rubric_version,
        "question_id": question_id,
    }
    row = {c.name: None for c in DECISIONS.columns} | keys
    row |= {
        "question_type": question_type,
        "decision": names[best],
        "decision_index": best,
        "probability": values[best],
        "margin": values[best] - second,
        "entropy_nats": -sum(p * math.log(p) for p in values if p > 0),
        "expected_score": sum(i * p for i, p in enumerate(values))
        if question_type == "score"
        else None,
        "label_mass": 1.0,
        "draws": 1,
        "agreement": 1.0,
        "gold": gold,
        "correct": None if gold is None else gold == names[best],
        "dialect": "lines",
        "prompt_sha256": sha256_of([conversation_id, rubric_id]),
        "canvas_sha256": sha256_of(rubric_id),
        "prompt_tokens": 100,
        "canvas_width": 32,
        "dropped_tokens": 0,
        "escaped_control_tokens": 0,
        "single_pass": True,
        "batch_reads": 16,
        "seed": 42,
        "decided_at": STARTED,
    } | overrides
    options = tuple(
        {c.name: None for c in OPTION_PROBABILITIES.columns}
        | keys
        | {
            "option": name,
            "option_index": index,
            "label_token_id": 1000 + index,
            "logprob": math.log(p) if p > 0 else None,
            "probability": p,
            "is_decision": index == best,
        }
        for index, (name, p) in enumerate(probabilities.items())
    )
    return Decided(row, options)


def write_run(
    output: str,
    decided: Iterable[Decided],
    *,
    run_id: str,
    build: str = "baseline",
    run_date: str = "2026-01-02",
    job: str = "synthetic",
    started_at: datetime = STARTED,
    errors: Sequence[dict[str, Any]] = (),
    build_settings: Mapping[str, Any] | None = None,
    engine_fingerprint: Mapping[str, Any] | None = None,
    rubrics: Sequence[Mapping[str, Any]] = (),
    parts: int = 1,
    finish: bool = True,
    max_error_rate: float = 1.0,
) -> Run:
    """Write a run with these rows; `finish=False` leaves it without a manifest."""
    key = RunKey(run_date, build, run_id)
    fingerprint: dict[str, Any] = {
        "build": dict(build_settings or {"name": build, "model": "tiny"})
    }
    if rubrics:
        fingerprint["rubrics"] = list(rubrics)
    start = RunStart(key, job, started_at.isoformat(), sha256_of(fingerprint), fingerprint)
    start_run(output, start)
    everything = list(decided)
    # As in a real run, a conversation is in one part.
    order = dict.fromkeys(d.decision["conversation_id"] for d in everything)
    part_of = {name: number % parts for number, name in enumerate(order)}
    markers = []
    for index in range(parts):
        mine = [d for d in everything if part_of[d.decision["conversation_id"]] == index]
        mine_errors = list(errors) if index == 0 else []
        name = f"part-shard-{index:05d}"
        files = (
            write_table(output, key, "decisions", name, [d.decision for d in mine]),
            write_table(
                output, key, "option_probabilities", name, [o for d in mine for o in d.options]
            ),
            write_table(output, key, "errors", name, mine_errors),
        )
        cases = len({(d.decision["conversation_id"], d.decision["rubric_id"]) for d in mine})
        counts = dict.fromkeys(COUNTS, 0) | {
            "records": cases + len(mine_errors),
            "conversations": cases,
            "rejected_records": len(mine_errors),
            "cases": cases,
            "decided_cases": cases,
            "expected_decisions": len(mine),
            "decisions": len(mine),
            "options": sum(len(d.options) for d in mine),
            "errors": len(mine_errors),
        }
        engine = {"steps": cases, "reads": cases, "single_pass_reads": cases, "engine_seconds": 1.0}
        marker = PartMarker(name, sha256_of(name), files, counts, engine, engine_fingerprint or {})
        write_marker(output, key, marker)
        markers.append(marker)
    if finish:
        finish_run(
            output,
            start,
            markers,
            {m.part: m.counts["records"] for m in markers},
            max_error_rate=max_error_rate,
            finished_at=started_at.replace(minute=started_at.minute + 1),
        )
        return find_run(output, run_id)
    return Run(output, key, {"started_at": start.started_at}, {})
