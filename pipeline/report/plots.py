"""Where marks lie, as percentages of their plot: charts keep text size at every width."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipeline.diff.result import CalibrationBin, Comparison

LOG_LOW, LOG_HIGH = -4.0, math.log10(2.0)
_LOG_TICKS = (1e-4, 1e-3, 1e-2, 1e-1, 1.0)


@dataclass(frozen=True, slots=True)
class Tick:
    """A labelled place on an axis, in percent from its start."""

    at: float
    label: str


@dataclass(frozen=True, slots=True)
class Mark:
    """A symbol in a plot: percent from the left, percent from the top, what it means, what a
    pointer or a screen reader is told."""

    x: float
    y: float
    kind: str
    title: str


@dataclass(frozen=True, slots=True)
class Bar:
    """An interval with its estimate and the noise floor, percent along a common axis."""

    low: float
    high: float
    at: float
    floor: float | None


@dataclass(frozen=True, slots=True)
class Scatter:
    """Margin against movement on logarithmic axes."""

    marks: list[Mark]
    x_ticks: list[Tick]
    y_ticks: list[Tick]
    diagonal: tuple[float, float, float, float]
    threshold: float | None


@dataclass(frozen=True, slots=True)
class Axis:
    """A linear axis of rates from 0 to `top`."""

    top: float

    def at(self, rate: float) -> float:
        """Percent along the axis."""
        return min(100.0, 100 * rate / self.top)

    @property
    def ticks(self) -> list[Tick]:
        digits = 0 if self.top >= 0.04 else 1 if self.top >= 0.004 else 2
        return [Tick(25.0 * k, f"{self.top * k / 4:.{digits}%}") for k in range(5)]


def rate_axis(highs: Sequence[float]) -> Axis:
    """The shortest axis with round quarters that holds every upper bound."""
    top = max([*highs, 0.0])
    for step in (0.001, 0.002, 0.004, 0.01, 0.02, 0.04, 0.08, 0.1, 0.2, 0.4, 0.6, 0.8):
        if top <= step:
            return Axis(step)
    return Axis(1.0)


def bar(axis: Axis, low: float, rate: float, high: float, floor: float | None) -> Bar:
    """An interval on the axis."""
    return Bar(
        axis.at(low), axis.at(high), axis.at(rate), None if floor is None else axis.at(floor)
    )


def log_percent(value: float) -> float:
    """Percent along a logarithmic axis from 0.0001 to 2; what is smaller lies at its start."""
    exponent = math.log10(max(value, 10**LOG_LOW))
    return round(100 * (min(exponent, LOG_HIGH) - LOG_LOW) / (LOG_HIGH - LOG_LOW), 2)


def scatter(comparison: Comparison) -> Scatter:
    """A sample of the decisions that stayed, and every flip listed, worst on top."""
    marks = [
        Mark(
            log_percent(point.margin),
            100 - log_percent(point.movement),
            "same",
            "",
        )
        for point in comparison.points
        if not point.changed
    ]
    marks += [
        _flip_mark(flip) for flip in reversed(comparison.flips) if flip["gap_movement"] is not None
    ]
    threshold = comparison.overall["near_tie_margin"]
    start, end = log_percent(10**LOG_LOW), log_percent(1.0)
    return Scatter(
        marks=marks,
        x_ticks=[Tick(log_percent(t), f"{t:g}") for t in _LOG_TICKS],
        y_ticks=[Tick(100 - log_percent(t), f"{t:g}") for t in _LOG_TICKS],
        diagonal=(start, 100 - start, end, 100 - end),
        threshold=log_percent(threshold) if threshold else None,
    )


def _flip_mark(flip: Mapping[str, Any]) -> Mark:
    title = (
        f"{flip['conversation_id']}, {flip['rubric_id']}/{flip['question_id']}: "
        f"{flip['baseline_decision']} to {flip['candidate_decision']}, margin "
        f"{flip['baseline_margin']:.4f}, movement {flip['gap_movement']:.4f}"
    )
    return Mark(
        log_percent(flip["baseline_margin"]),
        100 - log_percent(flip["gap_movement"]),
        flip["flip_class"] or "flip",
        title,
    )


def calibration_marks(bins: Sequence[CalibrationBin], kind: str) -> list[Mark]:
    """Mean probability against the share right, per bin."""
    return [
        Mark(
            round(100 * b.probability, 2),
            round(100 - 100 * b.right, 2),
            kind,
            f"{kind}: {b.count:,} decisions with mean probability {b.probability:.3f}, "
            f"{b.right:.1%} right",
        )
        for b in bins
    ]


UNIT_TICKS = [Tick(25.0 * k, f"{k / 4:g}") for k in range(5)]
UNIT_TICKS_DOWN = [Tick(100 - 25.0 * k, f"{k / 4:g}") for k in range(5)]
