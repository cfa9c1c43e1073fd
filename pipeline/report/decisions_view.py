"""What the report says about decisions, as text and numbers ready to be shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipeline.diff.result import Comparison
from pipeline.report.plots import Bar, bar, rate_axis
from pipeline.report.words import name_of, number, percent, signed

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
    crossed: str
    rate: str
    interval: str
    floor: str
    kinds: str
    kappa: str
    ac1: str
    movement: str
    bar: Bar


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
    """The total, then all questions, most flips first; and the ticks of their bars' axis."""
    rows = sorted(
        comparison.questions, key=lambda r: (-r["flips"], -(r["flip_rate"] or 0), name_of(r))
    )
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
        name="All questions" if overall else name_of(row),
        overall=overall,
        flips=row["flips"],
        pairs=row["pairs"],
        crossed=f"{row['threshold_crossings']:,} of {row['threshold_pairs']:,}"
        if row.get("threshold_pairs")
        else "",
        rate=f"{rate:.2%}",
        interval=f"{low:.2%} to {high:.2%}",
        floor=percent(row["noise_floor"]),
        kinds=", ".join(kinds) or ("none" if not row["flips"] else "not classified"),
        kappa=number(row["kappa"]),
        ac1=number(row["ac1"]),
        movement=number(row["max_total_variation"]),
        bar=bar(axis, low, rate, high, row["noise_floor"]),
    )


def flip_rows(comparison: Comparison) -> list[dict[str, Any]]:
    """The listed flips: ids, answers, probabilities; nothing of what was said."""
    return [
        {
            "rank": rank,
            "kind": _CLASS_WORDS[flip["flip_class"]],
            "conversation": flip["conversation_id"],
            "question": name_of(flip),
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
                "name": "All questions" if row is comparison.overall else name_of(row),
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
