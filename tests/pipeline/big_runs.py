"""Large synthetic runs, written with Arrow; run as a script to measure a comparison.

    python -m tests.pipeline.big_runs write FOLDER DECISIONS [--shifted]
    python -m tests.pipeline.big_runs compare FOLDER

`--shifted` cuts the candidate into other parts than the baseline, so that every row has to move.
"""

from __future__ import annotations

import io
import json
import resource
import sys
import time
from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pipeline import storage
from pipeline.diff.compare import compare
from pipeline.diff.job import plan
from pipeline.output.finishing import COUNTS, RunStart, finish_run, sha256_of, start_run
from pipeline.output.runs import Run, RunKey, find_run
from pipeline.output.tables import DECISIONS, OPTION_PROBABILITIES, Table
from pipeline.output.writing import PartMarker, TableFile, describe, write_marker
from tests.pipeline.synthetic import STARTED

QUESTIONS = ("intent", "risk", "topic", "tone", "urgency")
OPTIONS = 3
PART = 5_000
"""Decisions in a part."""


def write_big_run(
    output: str, run_id: str, build: str, decisions: int, *, noise: float = 0.0, shift: int = 0
) -> Run:
    """A complete run of `decisions` decisions; `noise` moves every logit by that much at random,
    `shift` moves the borders of its parts by that many conversations."""
    key = RunKey("2026-01-02", build, run_id)
    fingerprint = {"build": {"name": build, "model": "tiny"}}
    start = RunStart(key, "big", STARTED.isoformat(), sha256_of(fingerprint), fingerprint)
    start_run(output, start)
    markers = []
    for number, ids in enumerate(_parts(decisions // len(QUESTIONS), shift)):
        name = f"part-{number:05d}"
        tables = _rows(ids, noise, np.random.default_rng([number, len(run_id), shift]))
        files = tuple(_write(output, key, table, name, rows) for table, rows in tables.items())
        counts = dict.fromkeys(COUNTS, 0) | {
            "records": len(ids),
            "conversations": len(ids),
            "cases": len(ids),
            "decided_cases": len(ids),
            "expected_decisions": len(ids) * len(QUESTIONS),
            "decisions": len(ids) * len(QUESTIONS),
            "options": len(ids) * len(QUESTIONS) * OPTIONS,
        }
        marker = PartMarker(name, name, files, counts, {"steps": len(ids), "reads": len(ids)}, {})
        write_marker(output, key, marker)
        markers.append(marker)
    scanned = {m.part: m.counts["records"] for m in markers}
    finish_run(output, start, markers, scanned, max_error_rate=1.0, finished_at=STARTED)
    return find_run(output, run_id)


def _parts(conversations: int, shift: int) -> Iterator[list[int]]:
    step = PART // len(QUESTIONS)
    borders = sorted({0, *range(shift or step, conversations, step), conversations})
    for low, high in pairwise(borders):
        yield list(range(low, high))


def _rows(ids: list[int], noise: float, rng: np.random.Generator) -> dict[str, pa.Table]:
    n = len(ids) * len(QUESTIONS)
    stable = np.stack([np.random.default_rng(i).normal(0, 3, (5, OPTIONS)) for i in ids])
    logits = stable.reshape(n, OPTIONS) + noise * rng.normal(size=(n, OPTIONS))
    probability = np.exp(logits - logits.max(axis=1, keepdims=True))
    probability /= probability.sum(axis=1, keepdims=True)
    best, ordered = probability.argmax(axis=1), np.sort(probability, axis=1)
    keys = {
        "conversation_id": np.repeat([f"conversation-{i:08d}" for i in ids], len(QUESTIONS)),
        "rubric_id": np.full(n, "triage"),
        "rubric_version": np.full(n, "1"),
        "question_id": np.tile(QUESTIONS, len(ids)),
    }
    names = np.array(["low", "middle", "high"])
    decided = keys | {
        "question_type": np.full(n, "choice"),
        "decision": names[best],
        "decision_index": best,
        "probability": ordered[:, -1],
        "margin": ordered[:, -1] - ordered[:, -2],
        "dialect": np.full(n, "lines"),
        "prompt_sha256": np.repeat([sha256_of(i) for i in ids], len(QUESTIONS)),
        "canvas_sha256": np.full(n, sha256_of("canvas")),
        "gold": names[stable.reshape(n, OPTIONS).argmax(axis=1)],
        "correct": best == stable.reshape(n, OPTIONS).argmax(axis=1),
    }
    options = {name: np.repeat(column, OPTIONS) for name, column in keys.items()} | {
        "option": np.tile(names, n),
        "option_index": np.tile(np.arange(OPTIONS), n),
        "probability": probability.reshape(-1),
        "is_decision": (np.arange(OPTIONS) == best[:, None]).reshape(-1),
    }
    return {
        "decisions": _table(DECISIONS, decided, n),
        "option_probabilities": _table(OPTION_PROBABILITIES, options, n * OPTIONS),
        "errors": None,
    }


def _table(table: Table, columns: dict[str, np.ndarray], rows: int) -> pa.Table:
    return pa.table(
        [
            pa.array(columns[c.name], c.type) if c.name in columns else pa.nulls(rows, c.type)
            for c in table.columns
        ],
        schema=table.schema,
    )


def _write(output: str, key: RunKey, table: str, part: str, rows: pa.Table | None) -> TableFile:
    from pipeline.output.writing import write_table

    if rows is None:
        return write_table(output, key, table, part, [])
    sink = io.BytesIO()
    pq.write_table(rows, sink, compression="zstd", store_schema=False)
    path = key.table_path(output, table, part)
    storage.write_atomic(path, sink.getvalue())
    return describe(output, table, path, rows.num_rows, sink.getvalue())


def main(arguments: list[str]) -> None:
    command, folder, *rest = arguments
    if command == "write":
        shift = 333 if "--shifted" in rest else 0
        for run_id, build, noise, moved in (
            ("base", "baseline", 0.0, 0),
            ("repeat-", "baseline", 0.002, 0),
            ("candidate", "single_pass", 0.02, shift),
        ):
            write_big_run(folder, run_id, build, int(rest[0]), noise=noise, shift=moved)
        return
    began = time.monotonic()
    runs = [find_run(folder, name) for name in ("base", "candidate", "repeat-")]
    job, units = plan(runs[:2], output=folder, noise=runs[2])
    result = compare(job, units)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    row = result.overall
    figures = {
        "pairs": row["pairs"],
        "flips": row["flips"],
        "seconds": round(time.monotonic() - began, 1),
        "cpu_seconds": round(time.process_time(), 1),
        "peak_mib": round(peak),
    }
    print(json.dumps(figures))


if __name__ == "__main__":
    main(sys.argv[1:])
