"""What the report says about the runs: how they agree, what moves them, speed, fingerprints."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pipeline.diff.result import Comparison, Side
from pipeline.report.plots import bar, rate_axis
from pipeline.report.words import signed


@dataclass(frozen=True, slots=True)
class Cell:
    """A pair of runs in the agreement matrix; `shade` is 0 to 100."""

    text: str
    note: str
    shade: float
    same: bool


@dataclass(frozen=True, slots=True)
class Fact:
    """One line of the fingerprints."""

    name: str
    values: list[str]
    differs: bool


def matrix(comparison: Comparison) -> list[list[Cell]]:
    """Flips between any two of the runs; rows and columns in the order of the sides."""
    pairs = {(p.first, p.second): p for p in comparison.attribution.pairs}
    largest = max((p.rate for p in pairs.values()), default=0.0) or 1.0
    rows = []
    for first in comparison.sides:
        cells = []
        for second in comparison.sides:
            pair = pairs.get((first.run_id, second.run_id)) or pairs.get(
                (second.run_id, first.run_id)
            )
            if pair is None:
                cells.append(Cell("", "", 0.0, True))
                continue
            note = f"{pair.rate:.2%}, differ in {', '.join(pair.factors) or 'nothing (repeat)'}"
            shade = round(100 * pair.rate / largest)
            cells.append(Cell(f"{pair.flips:,}", note, shade, False))
        rows.append(cells)
    return rows


def effects(comparison: Comparison) -> tuple[list[dict[str, Any]], list[Any]]:
    """Factors, strongest first, with bars on a common axis."""
    found = comparison.attribution.effects
    axis = rate_axis([e.high for e in found])
    rows = [
        {
            "name": "repeat (nothing differs)" if e.factor == "repeat" else e.factor,
            "pairs": e.run_pairs,
            "rate": f"{e.rate:.2%}",
            "interval": f"{e.low:.2%} to {e.high:.2%}",
            "above": "" if e.above_repeat is None else signed(e.above_repeat, ".2%"),
            "above_interval": ""
            if e.above_repeat_low is None or e.above_repeat_high is None
            else f"{signed(e.above_repeat_low, '.2%')} to {signed(e.above_repeat_high, '.2%')}",
            "bar": bar(axis, e.low, e.rate, e.high, None),
        }
        for e in found
    ]
    return rows, axis.ticks


def contrasts(comparison: Comparison) -> list[dict[str, str]]:
    """Paired differences between factors, largest first."""
    return [
        {
            "name": f"{c.first} minus {c.second}",
            "difference": signed(c.difference, ".2%"),
            "interval": f"{signed(c.low, '.2%')} to {signed(c.high, '.2%')}",
            "told": "yes" if c.low > 0 or c.high < 0 else "not by this sample",
        }
        for c in comparison.attribution.contrasts
    ]


def facts(comparison: Comparison) -> list[Fact]:
    """Fingerprints of all sides, line by line, those that differ first."""
    names = sorted({name for side in comparison.sides for name in side.facts})
    found = []
    for name in names:
        values = [side.facts.get(name, "") for side in comparison.sides]
        found.append(Fact(name, values, len(set(values)) > 1))
    return sorted(found, key=lambda f: (not f.differs, f.name))


def speed(comparison: Comparison) -> list[tuple[str, list[str]]]:
    """Steps and speed of every side, one line per figure."""
    lines: list[tuple[str, list[str]]] = []
    for label, figure in _SPEED.items():
        lines.append((label, [figure(side) for side in comparison.sides]))
    return lines


def _value(side: Side, name: str) -> float:
    value = side.figures.get(name)
    return float(value) if isinstance(value, int | float) else 0.0


def _ratio(side: Side, over: str, under: str, style: str) -> str:
    divisor = _value(side, under)
    return format(_value(side, over) / divisor, style) if divisor else "unknown"


_SPEED: dict[str, Callable[[Side], str]] = {
    "Decisions": lambda s: f"{_value(s, 'decisions'):,.0f}",
    "Reads": lambda s: f"{_value(s, 'reads'):,.0f}",
    "Engine steps": lambda s: f"{_value(s, 'steps'):,.0f}",
    "Steps per read": lambda s: _ratio(s, "steps", "reads", ".2f"),
    "Reads in one step": lambda s: _ratio(s, "single_pass", "reads", ".1%"),
    "Reads per second in the engine": lambda s: _ratio(s, "reads", "engine_seconds", ",.1f"),
    "Decisions per second, whole run": lambda s: _ratio(s, "decisions", "seconds", ",.1f"),
    "Prompt tokens from the cache": lambda s: _ratio(
        s, "prompt_tokens_cached", "prompt_tokens", ".1%"
    ),
    "Error rows": lambda s: f"{_value(s, 'errors'):,.0f}",
}
