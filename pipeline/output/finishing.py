"""The first and the last thing a run writes: who it is, and, once its counts add up, that it is
complete."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib import metadata
from typing import Any

from pipeline import storage
from pipeline.output import runs
from pipeline.output.runs import RunKey
from pipeline.output.tables import RUNS
from pipeline.output.writing import PART_TABLES, PartMarker, to_json, write_table

MACHINE_LOCAL = frozenset({"cpu_model", "cpu_features", "threads", "machine_type", "memory_gib"})
"""Facts of a fingerprint that say where a run ran, not what ran."""

COUNTS = (
    "records",  # records read
    "conversations",  # records that are conversations
    "rejected_records",  # records that are not; one error row each
    "shard_errors",  # error rows about a shard as a whole
    "cases",  # conversation x rubric pairs
    "decided_cases",  # pairs with decisions
    "failed_cases",  # pairs with an error row instead
    "refused_cases",  # of these, pairs the engine refused
    "expected_decisions",  # questions of the decided pairs
    "decisions",  # rows in decisions
    "options",  # rows in option_probabilities
    "errors",  # rows in errors
)


@dataclass(frozen=True)
class RunStart:
    """What is known before the first part: the content of `run.json`.

    Attributes:
        key: places the run's files.
        job: name of the job.
        started_at: ISO 8601, UTC.
        job_sha256: of `fingerprint`; runs with equal hashes can take over each other's parts.
        fingerprint: job, build and rubric settings that can move a decision.
    """

    key: RunKey
    job: str
    started_at: str
    job_sha256: str
    fingerprint: Mapping[str, Any]


def start_run(output: str, start: RunStart) -> None:
    """Write `run.json`."""
    record = {**asdict(start.key), **asdict(start)}
    del record["key"]
    storage.write_atomic(start.key.record_path(output, "run.json"), to_json(record))


def finish_run(
    output: str,
    start: RunStart,
    markers: Sequence[PartMarker],
    scanned: Mapping[str, int],
    *,
    max_error_rate: float,
    finished_at: datetime | None = None,
) -> dict[str, Any]:
    """Reconcile, then write the row in `runs` and the manifest; returns the manifest.

    `scanned` gives the records of every part as counted before planning. When counts do not
    reconcile or too many cases failed, the manifest says `failed` and why, and `runs` gets no row.
    `finished_at` is now unless given.
    """
    markers = sorted(markers, key=lambda m: m.part)
    counts = total_counts(markers)
    problems = reconcile(markers, scanned)
    rate = error_rate(counts)
    if rate > max_error_rate:
        problems.append(
            f"{counts['errors']} of {counts['errors'] + counts['decided_cases']} outcomes are "
            f"errors ({rate:.2%}), above max_error_rate {max_error_rate:.2%}; see the errors table"
        )
    fingerprint = _fingerprint(start, markers)
    row = _row(start, markers, counts, fingerprint, finished_at or datetime.now(UTC))
    files = [f for m in markers for f in m.files]
    if not problems:
        files.append(write_table(output, start.key, "runs", "part-run", [row]))
    manifest = {
        "status": runs.FAILED if problems else runs.COMPLETE,
        "problems": problems,
        "row": {k: v.isoformat() if isinstance(v, datetime) else v for k, v in row.items()},
        "counts": counts,
        "fingerprint": fingerprint,
        "files": [asdict(f) for f in files],
        "copied_parts": {m.part: m.copied_from for m in markers if m.copied_from},
    }
    storage.write_atomic(start.key.record_path(output, "manifest.json"), to_json(manifest))
    return manifest


def reconcile(markers: Sequence[PartMarker], scanned: Mapping[str, int]) -> list[str]:
    """Everything in the counts that does not add up; empty when nothing was lost or doubled."""
    problems = []
    parts = [m.part for m in markers]
    problems += [
        f"part {p} was written twice" for p in sorted({p for p in parts if parts.count(p) > 1})
    ]
    problems += [f"part {p} was read but not written" for p in sorted(scanned.keys() - set(parts))]
    problems += [f"part {p} was written but not read" for p in sorted(set(parts) - scanned.keys())]
    for marker in markers:
        for name, left, right in _equations(marker, scanned):
            if left != right:
                problems.append(f"part {marker.part}: {name}: {left} is not {right}")
    return problems


def error_rate(counts: Mapping[str, int]) -> float:
    """Error rows among all outcomes (error rows and decided cases); 0 without outcomes."""
    outcomes = counts["errors"] + counts["decided_cases"]
    return counts["errors"] / outcomes if outcomes else 0.0


def total_counts(markers: Sequence[PartMarker]) -> dict[str, int]:
    """Counts summed over parts."""
    return {name: sum(m.counts[name] for m in markers) for name in COUNTS}


def _equations(marker: PartMarker, scanned: Mapping[str, int]) -> list[tuple[str, int, int]]:
    c = marker.counts
    rows = {f.table: f.rows for f in marker.files}
    return [
        ("records read and records scanned", c["records"], scanned.get(marker.part, c["records"])),
        ("records and their outcomes", c["records"], c["conversations"] + c["rejected_records"]),
        ("cases and their outcomes", c["cases"], c["decided_cases"] + c["failed_cases"]),
        (
            "error rows and their causes",
            c["errors"],
            c["rejected_records"] + c["shard_errors"] + c["failed_cases"],
        ),
        ("decisions and questions of decided cases", c["decisions"], c["expected_decisions"]),
        ("rows in decisions", rows.get("decisions", -1), c["decisions"]),
        ("rows in option_probabilities", rows.get("option_probabilities", -1), c["options"]),
        ("rows in errors", rows.get("errors", -1), c["errors"]),
        ("tables of the part", len(marker.files), len(PART_TABLES)),
    ]


def _fingerprint(start: RunStart, markers: Sequence[PartMarker]) -> dict[str, Any]:
    engines: dict[bytes, Mapping[str, Any]] = {
        to_json(m.engine_fingerprint): m.engine_fingerprint for m in markers if m.engine_fingerprint
    }
    first = dict(next(iter(engines.values()), {}))
    return {"job": dict(start.fingerprint), "engine": first, "distinct_engines": len(engines)}


def fingerprint_sha256(fingerprint: Mapping[str, Any]) -> str:
    """Hash of a run's fingerprint without the facts that only say where it ran."""
    engine = {k: v for k, v in fingerprint["engine"].items() if k not in MACHINE_LOCAL}
    return sha256_of({"job": fingerprint["job"], "engine": engine})


def sha256_of(value: Any) -> str:
    """SHA-256 of a value's canonical JSON."""
    return hashlib.sha256(to_json(value)).hexdigest()


def _row(
    start: RunStart,
    markers: Sequence[PartMarker],
    counts: Mapping[str, int],
    fingerprint: Mapping[str, Any],
    finished_at: datetime,
) -> dict[str, Any]:
    started_at = datetime.fromisoformat(start.started_at)
    engine = fingerprint["engine"]
    build = start.fingerprint.get("build", {})
    spent = {n: sum(m.engine.get(n, 0) for m in markers) for n in _ENGINE_COLUMNS.values()}
    features = engine.get("cpu_features") or ()
    row: dict[str, Any] = {c.name: None for c in RUNS.columns}
    row.update({name: engine[name] for name in row.keys() & engine.keys()})
    row.update({name: counts[name] for name in row.keys() & counts.keys()})
    row.update({column: int(spent[name]) for column, name in _ENGINE_COLUMNS.items()})
    row.update(
        job=start.job,
        started_at=started_at,
        finished_at=finished_at,
        seconds=(finished_at - started_at).total_seconds(),
        fingerprint_sha256=fingerprint_sha256(fingerprint),
        fingerprint_json=json.dumps(fingerprint, sort_keys=True),
        model=build.get("model"),
        dtype=build.get("dtype"),
        single_pass_reads=build.get("single_pass_reads"),
        onepass_version=metadata.version("onepass"),
        cpu_features=features if isinstance(features, str) else " ".join(features),
        parts=len(markers),
        resumed_parts=sum(m.copied_from is not None for m in markers),
        engine_seconds=float(spent["engine_seconds"]),
    )
    return row


_ENGINE_COLUMNS = {
    "steps": "steps",
    "reads": "reads",
    "single_pass": "single_pass_reads",
    "two_step_flag_off": "two_step_flag_off",
    "two_step_not_eligible": "two_step_not_eligible",
    "two_step_token_budget": "two_step_token_budget",
    "two_step_model_length": "two_step_model_length",
    "prompt_tokens": "prompt_tokens",
    "prompt_tokens_computed": "prompt_tokens_computed",
    "prompt_tokens_cached": "prompt_tokens_cached",
    "canvas_tokens": "canvas_tokens",
    "logits_columns": "logits_columns",
    "engine_seconds": "engine_seconds",
}
"""Column of `runs` -> counter of the engine."""
