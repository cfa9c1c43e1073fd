"""The record of a finished comparison: what the command prints, the gate judges and the report
draws. Written last, next to the tables; a comparison without one is unfinished."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel

from pipeline import storage
from pipeline.diff.factors import Attribution
from pipeline.output.comparisons import comparison_path
from pipeline.output.runs import Run, RunKey


class Side(BaseModel):
    """One run of the comparison: its role (baseline, candidate, noise, fp32, other), its facts
    (the flat fingerprint) and the figures of its row in `runs`."""

    role: str
    run_id: str
    build: str
    run_date: str
    facts: dict[str, str]
    figures: dict[str, float | int | str | None]


class CalibrationBin(BaseModel):
    """Decisions whose probability lies in [low, low + 0.1): how many, mean, share right."""

    low: float
    count: int
    probability: float
    right: float


class Point(BaseModel):
    """One pair of the scatter: baseline margin, largest change of a gap between two options."""

    margin: float
    movement: float
    changed: bool
    flip_class: str | None


class Comparison(BaseModel):
    """A finished comparison.

    Attributes:
        id: names it; follows from the runs compared.
        made_at: ISO 8601, UTC.
        sides: baseline, candidate, then the others.
        overall, questions: rows of `diff_summary`.
        flips_total: how many rows of `diffs` changed; `flips` holds the worst of them.
        points: a random sample of pairs, without regard to whether they changed.
        calibration: per side (baseline, candidate); empty without gold.
        allowed: differences that were waved through.
        differing: what those were, in words.
        thresholds: as `RUBRIC/QUESTION/OPTION=P`.
    """

    id: str
    made_at: str
    sides: list[Side]
    overall: dict[str, Any]
    questions: list[dict[str, Any]]
    flips_total: int
    flips: list[dict[str, Any]]
    points: list[Point]
    calibration: list[list[CalibrationBin]]
    attribution: Attribution
    allowed: list[str]
    differing: list[str]
    thresholds: list[str] = []


class Refusal(BaseModel):
    """Why the runs were not compared."""

    refused: list[str]


def comparison_id(runs: Sequence[Run], roles: Sequence[str]) -> str:
    """Id of a comparison: readable, and different when any of its runs or their roles is."""
    everything = "\n".join(f"{role} {run.run_id}" for role, run in zip(roles, runs, strict=True))
    digest = hashlib.sha256(everything.encode()).hexdigest()[:8]
    return f"{runs[1].run_id}-vs-{runs[0].run_id}-{digest}"


def result_key(runs: Sequence[Run], identity: str) -> RunKey:
    """Where the tables of a comparison lie: with the candidate's date and build."""
    return RunKey(runs[1].run_date, runs[1].build, identity)


def load_comparison(output: str, identity: str) -> Comparison:
    """Read a record; raises `FileNotFoundError`."""
    return Comparison.model_validate_json(storage.read_bytes(comparison_path(output, identity)))
