"""A gate: what a candidate may change, written down before the runs are made.

    # my_gate.yaml
    confidence: 0.95
    flips:
      budget: 0.01                    # of the flip rate above the noise floor, all questions
      questions: {triage/urgency: 0.02}
    protected: [triage/urgency]       # no substantive flip
    accuracy:
      margin: 0.02                    # may not drop by as much

Every check asks for proof of equivalence, not for the absence of proof of a difference: the bound
of an interval has to clear the limit. A sample too small for that is `undecided`, with the size
that would decide, and does not pass.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, model_validator

from pipeline.diff.result import Comparison
from pipeline.statistics.intervals import (
    Bounds,
    clustered_interval,
    paired_difference,
    rate_interval,
    scaled,
    smallest_sample,
)
from pipeline.yaml_files import ConfigError, load_mapping, validated

Status = Literal["passed", "failed", "undecided"]


class _Config(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class FlipBudget(_Config):
    """Flip rate above the noise floor that is acceptable: overall, and for single questions
    (`RUBRIC/QUESTION`)."""

    budget: float | None = Field(None, gt=0, lt=1)
    questions: dict[str, float] = {}

    @model_validator(mode="after")
    def _limits(self) -> FlipBudget:
        for name, budget in self.questions.items():
            if not 0 < budget < 1:
                raise ValueError(f"budget {budget} of {name} must be between 0 and 1")
        if self.budget is None and not self.questions:
            raise ValueError("give a budget, budgets of questions, or both")
        return self


class AccuracyMargin(_Config):
    """Drop in accuracy that has to be excluded."""

    margin: float = Field(gt=0, lt=1)


class Gate(_Config):
    """The checks; `confidence` is one-sided."""

    confidence: float = Field(0.95, gt=0.5, lt=1)
    flips: FlipBudget | None = None
    protected: tuple[str, ...] = ()
    accuracy: AccuracyMargin | None = None

    @model_validator(mode="after")
    def _checks_something(self) -> Gate:
        if not (self.flips or self.protected or self.accuracy):
            raise ValueError("checks nothing; give flips, protected or accuracy")
        return self


@dataclass(frozen=True, slots=True)
class Check:
    """One check of the gate; `needed` decisions would decide an undecided one."""

    name: str
    status: Status
    detail: str
    needed: int | None = None


def load_gate(name: str) -> Gate:
    """A gate that ships, by name, or one at a path; raises ConfigError with every problem."""
    path = name
    if "/" not in name and not name.endswith((".yaml", ".yml")):
        shipped = Path(str(resources.files("configs"))) / "gates"
        path = str(shipped / f"{name}.yaml")
        if not Path(path).is_file():
            ships = ", ".join(sorted(p.stem for p in shipped.glob("*.yaml")))
            raise ConfigError([f"gate {name}: none ships by that name; use {ships} or a path"])
    return validated(Gate, load_mapping(path), path)


def judge(gate: Gate, comparison: Comparison) -> list[Check]:
    """Every check of the gate, in the order of its file."""
    rows = {f"{r['rubric_id']}/{r['question_id']}": r for r in comparison.questions}
    checks = []
    if gate.flips and gate.flips.budget is not None:
        checks.append(_flips("flips", comparison.overall, gate.flips.budget, gate.confidence))
    for name, budget in gate.flips.questions.items() if gate.flips else ():
        checks.append(
            _flips(f"flips {name}", rows[name], budget, gate.confidence)
            if name in rows
            else _absent(f"flips {name}", name, rows)
        )
    for name in gate.protected:
        label = f"protected {name}"
        checks.append(_protected(label, rows[name]) if name in rows else _absent(label, name, rows))
    if gate.accuracy:
        checks.append(_accuracy(comparison.overall, gate.accuracy.margin, gate.confidence))
    return checks


def met(checks: list[Check]) -> bool:
    """Whether every check passed."""
    return all(check.status == "passed" for check in checks)


def _absent(label: str, name: str, rows: Mapping[str, Any]) -> Check:
    known = ", ".join(sorted(rows)) or "none"
    return Check(label, "failed", f"question {name} is not in these runs; they have {known}")


def _protected(label: str, row: Mapping[str, Any]) -> Check:
    flips, substantive = row["flips"], row["substantive_flips"]
    if substantive is None:
        if not flips:
            return Check(label, "passed", f"no flip in {row['pairs']:,} decisions")
        return Check(
            label,
            "undecided",
            f"{flips:,} flips of unknown kind; give --noise or --fp32 to tell near ties apart",
        )
    detail = f"{substantive:,} substantive of {flips:,} flips in {row['pairs']:,} decisions"
    return Check(label, "failed" if substantive else "passed", detail)


def _flips(label: str, row: Mapping[str, Any], budget: float, confidence: float) -> Check:
    """Upper bound of (flip rate - floor) below the budget; without a repeat run the floor is 0."""
    floored = row["noise_pairs"] is not None and row["noise_pairs"] > 0
    total = row["noise_pairs"] if floored else row["pairs"]
    if not total:
        return Check(label, "undecided", "no decision is in both runs")
    more = (row["candidate_only_flips"] if floored else row["flips"]) / total
    less = row["noise_only_flips"] / total if floored else 0.0
    effect, clusters = row["design_effect"] or 1.0, row["clusters"]
    upper = _difference(more, less, total / effect, clusters, confidence)[1]
    what = "flip rate above the floor" if floored else "flip rate (no repeat run sets a floor)"
    detail = f"{what} {more - less:.2%}, upper bound {upper:.2%}, budget {budget:.2%}"
    return _decide(
        label,
        detail,
        holds=upper < budget,
        hopeless=more - less >= budget,
        enough=lambda n: _difference(more, less, n, None, confidence)[1] < budget,
        effect=effect,
    )


def _accuracy(row: Mapping[str, Any], margin: float, confidence: float) -> Check:
    """Lower bound of the change in accuracy above minus the margin."""
    total = row["gold_pairs"]
    if not total:
        return Check("accuracy", "undecided", "the runs have no gold answers to be right about")
    fixes, breaks = row["fixes"] / total, row["breaks"] / total
    effect, clusters = row["design_effect"] or 1.0, row["clusters"]
    lower = _difference(fixes, breaks, total / effect, clusters, confidence)[0]
    detail = (
        f"accuracy changed by {fixes - breaks:+.2%}, lower bound {lower:+.2%}, "
        f"margin {-margin:+.2%}"
    )
    return _decide(
        "accuracy",
        detail,
        holds=lower > -margin,
        hopeless=fixes - breaks <= -margin,
        enough=lambda n: _difference(fixes, breaks, n, None, confidence)[0] > -margin,
        effect=effect,
    )


def _decide(
    label: str,
    detail: str,
    *,
    holds: bool,
    hopeless: bool,
    enough: Callable[[int], bool],
    effect: float,
) -> Check:
    if holds:
        return Check(label, "passed", detail)
    if hopeless:
        return Check(label, "failed", detail)
    independent = smallest_sample(enough)
    needed = None if independent is None else scaled(independent, effect)
    if needed is None:
        return Check(label, "undecided", f"{detail}; no feasible sample decides")
    return Check(label, "undecided", f"{detail}; about {needed:,} decisions would decide", needed)


def _difference(
    first: float, second: float, size: float, clusters: int | None, confidence: float
) -> tuple[float, float]:
    """Bounds of a difference of two exclusive events' rates, each one-sided at `confidence`.

    Clopper-Pearson, because a gate should err on the side of asking for more.
    """
    level = 2 * confidence - 1

    def bounds(rate: float) -> Bounds:
        if clusters is None:
            return rate_interval(rate * size, size, level, "beta")
        return clustered_interval(rate, np.float64(size), clusters, level, "beta")

    low, high = paired_difference(first, bounds(first), second, bounds(second))
    return float(low), float(high)
