"""A comparison in a terminal: the verdict first, then what it rests on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from pipeline.diff.factors import Attribution
from pipeline.diff.gate import Check, met
from pipeline.diff.result import Comparison

_STYLES = {"same": "bold green", "moved": "bold red", "undecided": "bold yellow"}
_CHECK_STYLES = {"passed": "green", "failed": "bold red", "undecided": "bold yellow"}
_FLIPS_PRINTED = 10
_QUESTIONS_PRINTED = 12


def print_comparison(console: Console, comparison: Comparison, *, factors: bool) -> None:
    """Verdict, questions, worst flips; with `factors` what moved them."""
    overall = comparison.overall
    verdict = Text(overall["verdict"].upper(), style=_STYLES[overall["verdict"]])
    console.print(verdict, Text(overall["verdict_reason"]))
    _print_sides(console, comparison)
    _print_near_ties(console, overall)
    if comparison.thresholds:
        text = (
            f"{overall['threshold_crossings'] or 0:,} of {overall['threshold_pairs'] or 0:,} "
            f"decisions crossed a threshold ({', '.join(comparison.thresholds)})."
        )
        console.print(Text(text))
    for side, name in (("baseline_only", "baseline"), ("candidate_only", "candidate")):
        if overall[side]:
            console.print(Text(f"{overall[side]:,} decisions are in the {name} only."))
    if overall["clusters"] < overall["conversations"]:
        text = (
            f"Intervals resample {overall['clusters']:,} groups: {overall['conversations']:,} "
            "conversations are not independent."
        )
        console.print(Text(text))
    for difference in comparison.differing:
        console.print(Text(f"Allowed: {difference}", style="yellow"))
    agreed = [_number(overall[name]) or "undefined" for name in ("kappa", "ac1")]
    console.print(Text(f"Agreement beyond chance: Cohen's κ {agreed[0]}, Gwet's AC1 {agreed[1]}."))
    console.print(_questions(comparison))
    left_out = len(comparison.questions) - len(_printed(comparison.questions, "flips"))
    if left_out:
        text = f"{left_out:,} more questions are in the table diff_summary and in the report."
        console.print(Text(text, style="dim"))
    if overall["gold_pairs"]:
        console.print(_gold(comparison))
    if comparison.flips:
        console.print(_flips(comparison))
    if factors:
        numbers = {side.run_id: f"{n} {side.build}" for n, side in enumerate(comparison.sides, 1)}
        _print_attribution(console, comparison.attribution, numbers)


def print_checks(console: Console, checks: Sequence[Check]) -> None:
    """The gate's outcome."""
    passed = met(list(checks))
    title = Text("Gate met" if passed else "Gate not met", "bold green" if passed else "bold red")
    console.print()
    console.print(title)
    table = Table("check", "outcome", "figures", box=None, pad_edge=False)
    for check in checks:
        table.add_row(
            Text(check.name), Text(check.status, _CHECK_STYLES[check.status]), Text(check.detail)
        )
    console.print(table)


def percent(value: float | None) -> str:
    """A rate as text; empty when there is none."""
    return "" if value is None else f"{value:.2%}"


def _count(value: int | None) -> str:
    return "" if value is None else f"{value:,}"


def _print_sides(console: Console, comparison: Comparison) -> None:
    for number, side in enumerate(comparison.sides, 1):
        console.print(Text(f"{number} {side.role:<10}{side.run_id}  {side.build}", style="dim"))


def _print_near_ties(console: Console, overall: Mapping[str, Any]) -> None:
    if not overall["flips"]:
        return
    if overall["near_tie_margin"] is None:
        text = "Near ties are not told apart: give --noise or --fp32."
    else:
        text = (
            f"{overall['substantive_flips']:,} substantive, {overall['near_tie_flips']:,} near "
            f"ties (margin up to {overall['near_tie_margin']:.4f}), "
            f"{overall['cascade_flips']:,} behind another flip."
        )
    console.print(Text(text))


def _printed(rows: Sequence[dict[str, Any]], *counts: str) -> list[dict[str, Any]]:
    """The questions that moved most, in the order of the table."""
    ranked = sorted(rows, key=lambda r: (-sum(r[c] or 0 for c in counts), -r["pairs"]))
    kept = {id(row) for row in ranked[:_QUESTIONS_PRINTED]}
    return [row for row in rows if id(row) in kept]


def _questions(comparison: Comparison) -> Table:
    table = Table(title="Flips by question", title_justify="left", box=None, pad_edge=False)
    crossed = ["crossed"] if comparison.thresholds else []
    for name in ("question", "flips", "of", *crossed, "rate", "95% clustered", "floor", "max TV"):
        table.add_column(name, justify="left" if name == "question" else "right", overflow="fold")
    for row in [*_printed(comparison.questions, "flips"), comparison.overall]:
        low, high = row["flip_rate_cluster_low"], row["flip_rate_cluster_high"]
        table.add_row(
            Text(_name(row)),
            f"{row['flips']:,}",
            f"{row['pairs']:,}",
            *(_count(row["threshold_crossings"]) for _ in crossed),
            percent(row["flip_rate"]),
            f"{low:.2%} – {high:.2%}",
            percent(row["noise_floor"]),
            _number(row["max_total_variation"]),
            style="bold" if row is comparison.overall else None,
        )
    return table


def _gold(comparison: Comparison) -> Table:
    table = Table(title="Against gold", title_justify="left", box=None, pad_edge=False)
    for name in ("question", "fixes", "breaks", "Δ accuracy", "95%", "McNemar p (BH)", "Δ Brier"):
        table.add_column(name, justify="left" if name == "question" else "right", overflow="fold")
    known = [row for row in comparison.questions if row["gold_pairs"]]
    for row in [*_printed(known, "fixes", "breaks"), comparison.overall]:
        p, adjusted = row["mcnemar_p"], row["mcnemar_p_adjusted"]
        tested = "not testable" if p is None else f"{p:.3g}"
        table.add_row(
            Text(_name(row)),
            f"{row['fixes']:,}",
            f"{row['breaks']:,}",
            f"{row['delta_accuracy']:+.2%}",
            f"{row['delta_accuracy_low']:+.2%} – {row['delta_accuracy_high']:+.2%}",
            tested if adjusted is None else f"{tested} ({adjusted:.3g})",
            "" if row["delta_brier"] is None else f"{row['delta_brier']:+.5f}",
        )
    return table


def _flips(comparison: Comparison) -> Table:
    shown = comparison.flips[:_FLIPS_PRINTED]
    title = f"Worst flips ({len(shown)} of {comparison.flips_total:,})"
    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    for name in ("conversation", "question", "baseline", "candidate", "TV", "kind"):
        table.add_column(name, justify="right" if name == "TV" else "left", overflow="fold")
    for flip in shown:
        table.add_row(
            Text(flip["conversation_id"]),
            Text(_name(flip)),
            Text(_answer(flip, "baseline")),
            Text(_answer(flip, "candidate")),
            _number(flip["total_variation"]),
            (flip["flip_class"] or "").replace("_", " "),
        )
    return table


def _print_attribution(
    console: Console, attribution: Attribution, numbers: Mapping[str, str]
) -> None:
    pairs = Table(title="Pairs of runs", title_justify="left", box=None, pad_edge=False)
    for name in ("runs", "differ in", "flips", "of", "rate", "95%"):
        pairs.add_column(name, justify="left" if name in ("runs", "differ in") else "right")
    for pair in attribution.pairs:
        pairs.add_row(
            Text(f"{numbers[pair.first]} | {numbers[pair.second]}"),
            Text(", ".join(pair.factors) or "nothing (repeat)"),
            f"{pair.flips:,}",
            f"{pair.pairs:,}",
            percent(pair.rate),
            f"{pair.low:.2%} – {pair.high:.2%}",
        )
    console.print(pairs)
    effects = Table(title="Factors", title_justify="left", box=None, pad_edge=False)
    for name in ("factor", "rate", "95%", "above repeat", "95% paired"):
        effects.add_column(name, justify="left" if name == "factor" else "right")
    for effect in attribution.effects:
        above = effect.above_repeat
        effects.add_row(
            Text(effect.factor),
            percent(effect.rate),
            f"{effect.low:.2%} – {effect.high:.2%}",
            "" if above is None else f"{above:+.2%}",
            ""
            if effect.above_repeat_low is None or effect.above_repeat_high is None
            else f"{effect.above_repeat_low:+.2%} – {effect.above_repeat_high:+.2%}",
        )
    console.print(effects)
    for contrast in attribution.contrasts:
        clear = contrast.low > 0 or contrast.high < 0
        console.print(
            Text(
                f"{contrast.first} minus {contrast.second}: {contrast.difference:+.2%} "
                f"(95% {contrast.low:+.2%} to {contrast.high:+.2%}), "
                + ("a clear difference" if clear else "not told apart by this sample")
            )
        )


def _name(row: Mapping[str, Any]) -> str:
    if row["question_id"] == "*":
        return "all questions"
    return f"{row['rubric_id']}/{row['question_id']}"


def _answer(flip: Mapping[str, Any], side: str) -> str:
    decision = flip[f"{side}_decision"]
    if decision is None:
        return "not asked"
    return f"{decision} {flip[f'{side}_probability']:.3f}"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"
