"""Sums to rows of `diff_summary`: rates, intervals, agreement, tests and a verdict."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from pipeline.diff.rates import difference, rate_of
from pipeline.diff.sums import OVERALL, WITH_GOLD, Group, GroupSums, Sum, bins
from pipeline.output.tables import DIFF_SUMMARY
from pipeline.statistics.agreement import agreement, pooled_agreement
from pipeline.statistics.bootstrap import Floats, percentile_interval, ratio
from pipeline.statistics.calibration import calibration_error
from pipeline.statistics.intervals import wilson
from pipeline.statistics.paired import benjamini_hochberg, mcnemar_exact

SAME, MOVED, UNDECIDED = "same", "moved", "undecided"


@dataclass(frozen=True, slots=True)
class Names:
    """Run ids that every row of the summary repeats."""

    baseline: str
    candidate: str
    noise: str | None
    fp32: str | None


def summarise(
    groups: Mapping[Group, GroupSums], names: Names, threshold: float | None
) -> list[dict[str, Any]]:
    """One row per question, and one overall; sorted by the table's keys."""
    pooled = pooled_agreement([s.matrix() for g, s in groups.items() if g != OVERALL])
    rows = []
    for group, sums in sorted(groups.items()):
        agreed = pooled if group == OVERALL else agreement(sums.matrix())
        row: dict[str, Any] = {c.name: None for c in DIFF_SUMMARY.columns}
        row |= {
            "rubric_id": group[0],
            "question_id": group[1],
            "baseline_run": names.baseline,
            "candidate_run": names.candidate,
            "noise_run": names.noise,
            "fp32_run": names.fp32,
            "near_tie_margin": threshold,
            "kappa": agreed.kappa,
            "ac1": agreed.ac1,
        }
        row |= _flips(sums, threshold is not None) | _movement(sums)
        if names.noise is not None:
            row |= _floor(sums)
        if sums.columns == WITH_GOLD:
            row |= _gold(sums)
        row["verdict"], row["verdict_reason"] = verdict(row)
        rows.append(row)
    questions = [r for r in rows if (r["rubric_id"], r["question_id"]) != OVERALL]
    adjusted = benjamini_hochberg([r["mcnemar_p"] for r in questions])
    for row, p in zip(questions, adjusted, strict=True):
        row["mcnemar_p_adjusted"] = p
    return rows


def _flips(sums: GroupSums, classified: bool) -> dict[str, Any]:
    rate = rate_of(sums.clusters, Sum.FLIPS, Sum.PAIRS)
    low, high = wilson(rate.count, rate.total)
    cluster_low, cluster_high = rate.interval()
    return {
        "pairs": int(rate.total),
        "conversations": sums.conversations,
        "clusters": rate.clusters,
        "baseline_only": sums.baseline_only,
        "candidate_only": sums.candidate_only,
        "flips": int(rate.count),
        "near_tie_flips": sums.classes["near_tie"] if classified else None,
        "substantive_flips": sums.classes["substantive"] if classified else None,
        "cascade_flips": sums.classes["cascade"],
        "threshold_pairs": sums.threshold_pairs or None,
        "threshold_crossings": sums.threshold_crossings if sums.threshold_pairs else None,
        "flip_rate": _known(rate.value),
        "flip_rate_low": float(low),
        "flip_rate_high": float(high),
        "flip_rate_cluster_low": cluster_low,
        "flip_rate_cluster_high": cluster_high,
        "design_effect": rate.total / rate.effective_size if rate.total else None,
    }


def _movement(sums: GroupSums) -> dict[str, Any]:
    if not sums.asked_both:
        return {}
    return {
        "mean_total_variation": sums.total_variation / sums.asked_both,
        "p99_total_variation": sums.movement.quantile(0.99),
        "max_total_variation": sums.movement.largest,
        "mean_jensen_shannon": sums.jensen_shannon / sums.asked_both,
    }


def _floor(sums: GroupSums) -> dict[str, Any]:
    """Candidate against repeat over the same pairs; what flips in both cancels out."""
    floor = rate_of(sums.clusters, Sum.NOISE_FLIPS, Sum.NOISE_PAIRS)
    if not floor.total:
        return {"noise_pairs": 0, "noise_flips": 0}
    more = rate_of(sums.clusters, Sum.CANDIDATE_ONLY, Sum.NOISE_PAIRS)
    less = rate_of(sums.clusters, Sum.NOISE_ONLY, Sum.NOISE_PAIRS)
    low, high = difference(more, less)
    return {
        "noise_pairs": int(floor.total),
        "noise_flips": int(floor.count),
        "noise_floor": floor.value,
        "candidate_only_flips": int(more.count),
        "noise_only_flips": int(less.count),
        "above_floor": more.value - less.value,
        "above_floor_low": low,
        "above_floor_high": high,
    }


def _gold(sums: GroupSums) -> dict[str, Any]:
    clusters = sums.clusters
    fixes = rate_of(clusters, Sum.FIXES, Sum.GOLD)
    breaks = rate_of(clusters, Sum.BREAKS, Sum.GOLD)
    if not fixes.total:
        return {"gold_pairs": 0}
    test = mcnemar_exact(int(fixes.count), int(breaks.count))
    low, high = difference(fixes, breaks)
    row: dict[str, Any] = {
        "gold_pairs": int(fixes.total),
        "fixes": int(fixes.count),
        "breaks": int(breaks.count),
        "mcnemar_p": test.p,
        "mcnemar_note": test.note,
        "baseline_accuracy": rate_of(clusters, Sum.BASELINE_RIGHT, Sum.GOLD).value,
        "candidate_accuracy": rate_of(clusters, Sum.CANDIDATE_RIGHT, Sum.GOLD).value,
        "delta_accuracy": fixes.value - breaks.value,
        "delta_accuracy_low": low,
        "delta_accuracy_high": high,
    }
    for name, statistic in _DELTAS.items():
        value = float(statistic(clusters.totals()[None, :])[0])
        if math.isfinite(value):
            row[f"delta_{name}"] = value
            bounds = percentile_interval(statistic(clusters.replicates()))
            row[f"delta_{name}_low"], row[f"delta_{name}_high"] = bounds
    return row


def _mean_difference(baseline: int, candidate: int) -> Callable[[Floats], Floats]:
    return lambda sums: ratio(sums[:, candidate] - sums[:, baseline], sums[:, Sum.SCORED])


def _ece_difference(sums: Floats) -> Floats:
    first, second = (calibration_error(*bins(sums, side)) for side in (0, 1))
    return np.asarray(second - first, np.float64)


_DELTAS: dict[str, Callable[[Floats], Floats]] = {
    "brier": _mean_difference(Sum.BASELINE_BRIER, Sum.CANDIDATE_BRIER),
    "log_loss": _mean_difference(Sum.BASELINE_LOG_LOSS, Sum.CANDIDATE_LOG_LOSS),
    "ece": _ece_difference,
}


def verdict(row: Mapping[str, Any]) -> tuple[str, str]:
    """One word and one sentence from a row's figures.

    `same`: no decision differs. `moved`: decisions differ, and with a repeat run more than that
    one explains. `undecided`: some differ, but not demonstrably more than in the repeat.
    """
    pairs, flips = row["pairs"], row["flips"]
    low, high = row["flip_rate_cluster_low"], row["flip_rate_cluster_high"]
    if not pairs:
        return UNDECIDED, "No decision is in both runs."
    if not flips:
        if not row["max_total_variation"]:
            return SAME, f"All {pairs:,} decisions and every probability are identical."
        reason = f"None of {pairs:,} decisions changed; a rate up to {high:.2%} is not excluded."
        return SAME, reason
    changed = f"{flips:,} of {pairs:,} decisions changed ({flips / pairs:.2%}, {_range(low, high)})"
    if row["noise_floor"] is None:
        return MOVED, f"{changed}; no repeat run says how many change by themselves."
    repeat = f"a repeat of the baseline changed {row['noise_flips']:,} of {row['noise_pairs']:,}"
    if row["above_floor_low"] > 0:
        return MOVED, f"{changed}; {repeat}, demonstrably fewer."
    return UNDECIDED, f"{changed}; {repeat}, which this sample cannot tell apart."


def _range(low: float, high: float) -> str:
    return f"95% interval {low:.2%} to {high:.2%}"


def _known(value: float) -> float | None:
    return value if math.isfinite(value) else None
