"""What the report says, section by section, as text and numbers ready to be shown."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipeline.diff.result import Comparison, Side
from pipeline.report.plots import Bar, rate_axis
from pipeline.report.plots import bar as make_bar

_CLASS_WORDS = {
    "substantive": "substantive",
    "near_tie": "near tie",
    "cascade": "cascade",
    None: "flip",
}


@dataclass(frozen=True, slots=True)
class Figure:
    """One of the few numbers at the top."""

    label: str
    value: str
    note: str


@dataclass(frozen=True, slots=True)
class QuestionRow:
    """One question, or all of them (`overall`)."""

    name: str
    overall: bool
    flips: int
    pairs: int
    rate: str
    interval: str
    floor: str
    kinds: str
    kappa: str
    ac1: str
    movement: str
    bar: Bar


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


def figures(comparison: Comparison) -> list[Figure]:
    """The numbers that a reader wants before any table."""
    o = comparison.overall
    low, high = o["flip_rate_cluster_low"], o["flip_rate_cluster_high"]
    rate = o["flip_rate"] or 0.0
    found = [
        Figure("Decisions changed", f"{o['flips']:,}", f"of {o['pairs']:,} compared"),
        Figure("Flip rate", f"{rate:.2%}", f"95% interval {low:.2%} to {high:.2%}"),
    ]
    if o["noise_floor"] is None:
        found.append(Figure("Noise floor", "unknown", "no repeat run was given"))
    else:
        note = f"{o['noise_flips']:,} of {o['noise_pairs']:,} changed in a repeat"
        found.append(Figure("Noise floor", f"{o['noise_floor']:.2%}", note))
    if o["substantive_flips"] is None:
        found.append(Figure("Substantive", "unknown", "needs a repeat or an fp32 run"))
    else:
        note = f"{o['near_tie_flips']:,} near ties, {o['cascade_flips']:,} cascades"
        found.append(Figure("Substantive", f"{o['substantive_flips']:,}", note))
    if o["gold_pairs"]:
        low, high = (signed(o[f"delta_accuracy_{end}"], ".2%") for end in ("low", "high"))
        value = signed(o["delta_accuracy"], ".2%")
        found.append(Figure("Accuracy", value, f"95% interval {low} to {high}"))
    else:
        moved = o["p99_total_variation"]
        value = "none" if moved is None else f"{moved:.3f}"
        found.append(Figure("Movement", value, "99% of decisions moved at most this much"))
    return found


def question_rows(comparison: Comparison) -> tuple[list[QuestionRow], list[Any]]:
    """All questions, most flips first, then the total; and the axis of their bars."""
    rows = sorted(comparison.questions, key=lambda r: (-(r["flip_rate"] or 0), _name(r)))
    everything = [comparison.overall, *rows]
    axis = rate_axis([r["flip_rate_cluster_high"] for r in everything if r["pairs"]])
    return [_question_row(r, axis, r is comparison.overall) for r in everything], axis.ticks


def _question_row(row: Mapping[str, Any], axis: Any, overall: bool) -> QuestionRow:
    rate = row["flip_rate"] or 0.0
    low, high = row["flip_rate_cluster_low"], row["flip_rate_cluster_high"]
    kinds = []
    for name, word in (("substantive", ""), ("near_tie", "near tie"), ("cascade", "cascade")):
        count = row[f"{name}_flips"]
        if count:
            kinds.append(f"{count:,} {word + 's' * (count > 1) if word else name}")
    return QuestionRow(
        name="All questions" if overall else _name(row),
        overall=overall,
        flips=row["flips"],
        pairs=row["pairs"],
        rate=f"{rate:.2%}",
        interval=f"{low:.2%} to {high:.2%}",
        floor=percent(row["noise_floor"]),
        kinds=", ".join(kinds) or ("none" if not row["flips"] else "not classified"),
        kappa=number(row["kappa"]),
        ac1=number(row["ac1"]),
        movement=number(row["max_total_variation"]),
        bar=make_bar(axis, low, rate, high, row["noise_floor"]),
    )


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
            "bar": make_bar(axis, e.low, e.rate, e.high, None),
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


def flip_rows(comparison: Comparison) -> list[dict[str, Any]]:
    """The listed flips: ids, answers, probabilities; nothing of what was said."""
    return [
        {
            "rank": rank,
            "kind": _CLASS_WORDS[flip["flip_class"]],
            "conversation": flip["conversation_id"],
            "question": _name(flip),
            "baseline": _answer(flip, "baseline"),
            "candidate": _answer(flip, "candidate"),
            "margin": _margin(flip),
            "moved": flip["total_variation"],
            "moved_text": number(flip["total_variation"]),
            "correct": _correct(flip),
            "others": _others(flip),
        }
        for rank, flip in enumerate(comparison.flips, 1)
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


def gold_rows(comparison: Comparison) -> list[dict[str, Any]]:
    """All questions with gold, then, one by one, those with fixes or breaks (or all of a few)."""
    rows = []
    few = sum(bool(q["gold_pairs"]) for q in comparison.questions) <= 12
    for row in [comparison.overall, *comparison.questions]:
        if not row["gold_pairs"] or not (
            few or row is comparison.overall or row["fixes"] or row["breaks"]
        ):
            continue
        p, adjusted = row["mcnemar_p"], row["mcnemar_p_adjusted"]
        test = row["mcnemar_note"] if p is None else f"p = {p:.3g}"
        if p is not None and adjusted is not None:
            test += f", adjusted {adjusted:.3g}"
        rows.append(
            {
                "name": "All questions" if row is comparison.overall else _name(row),
                "accuracy": f"{row['baseline_accuracy']:.1%} to {row['candidate_accuracy']:.1%}",
                "fixes": f"{row['fixes']:,}",
                "breaks": f"{row['breaks']:,}",
                "test": str(test),
                **{m: _delta(row, m) for m in ("accuracy_change", "brier", "log_loss", "ece")},
            }
        )
    return rows


def _delta(row: Mapping[str, Any], metric: str) -> tuple[str, str]:
    """A change and its interval."""
    name = "accuracy" if metric == "accuracy_change" else metric
    value = row[f"delta_{name}"]
    if value is None:
        return "–", ""
    low, high = row[f"delta_{name}_low"], row[f"delta_{name}_high"]
    style = ".2%" if name == "accuracy" else ".4f"
    return signed(value, style), f"{signed(low, style)} to {signed(high, style)}"


def signed(value: float, style: str) -> str:
    """A difference with its sign, a real minus included."""
    return format(value, f"+{style}").replace("-", "\N{MINUS SIGN}")


def percent(value: float | None) -> str:
    """A rate; "unknown" where there is none."""
    return "unknown" if value is None else f"{value:.2%}"


def number(value: float | None) -> str:
    """Three decimals; a dash where there is none."""
    return "–" if value is None else f"{value:.3f}"


def _name(row: Mapping[str, Any]) -> str:
    return f"{row['rubric_id']}/{row['question_id']}"


def _answer(flip: Mapping[str, Any], side: str) -> str:
    if flip[f"{side}_decision"] is None:
        return "not asked"
    return f"{flip[f'{side}_decision']} {flip[f'{side}_probability']:.3f}"


def _margin(flip: Mapping[str, Any]) -> str:
    margins = [flip["baseline_margin"], flip["candidate_margin"]]
    return " / ".join("–" if m is None else f"{m:.4f}" for m in margins)


def _correct(flip: Mapping[str, Any]) -> str:
    if flip["gold"] is None:
        return ""
    if flip["candidate_correct"]:
        return "fixed"
    return "broken" if flip["baseline_correct"] else "wrong in both"


def _others(flip: Mapping[str, Any]) -> str:
    said = [
        f"{name} {flip[column]}"
        for name, column in (("repeat", "noise_decision"), ("fp32", "fp32_decision"))
        if flip[column] is not None
    ]
    return ", ".join(said)


def shown_note(shown: Sequence[Any], total: int) -> str:
    """How much of the list there is."""
    if len(shown) == total:
        return f"All {total:,} flips, worst first."
    return f"The worst {len(shown):,} of {total:,} flips; the table diffs holds all of them."
