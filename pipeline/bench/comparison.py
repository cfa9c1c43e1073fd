"""Arms compared request by request: percentiles, paired changes and their intervals."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from engine.reads import ReadResult
from pipeline.statistics.bootstrap import (
    ClusterSums,
    cluster_hash,
    percentile_interval,
    quantised,
    ratio,
)

Sample = Mapping[str, Any]


def percentiles(seconds: Sequence[float]) -> dict[str, float]:
    """p50, p95, p99 and mean, in seconds."""
    values = np.asarray(seconds, np.float64)
    p50, p95, p99 = np.quantile(values, [0.5, 0.95, 0.99])
    return {"p50": float(p50), "p95": float(p95), "p99": float(p99), "mean": float(values.mean())}


def paired_change(
    samples: Iterable[Sample], arm: str, against: str, value: str = "seconds"
) -> dict[str, float]:
    """How much `arm` differs from `against` in requests both answered in the same pass.

    The change is that of the geometric mean (-0.2: a fifth less); its 95% interval comes from a
    bootstrap over requests, so that a request's passes count once.
    """
    values: dict[tuple[str, str, int], dict[str, float]] = {}
    for sample in samples:
        if sample["arm"] in (arm, against):
            key = (sample["set"], sample["request"], sample["pass"])
            values.setdefault(key, {})[sample["arm"]] = float(sample[value])
    logs: dict[str, list[float]] = {}
    for (set_name, request, _), pair in values.items():
        if len(pair) == 2:
            logs.setdefault(f"{set_name}/{request}", []).append(
                float(np.log(pair[arm] / pair[against]))
            )
    if not logs:
        raise ValueError(f"no request was answered by both {arm} and {against}")
    sums = ClusterSums(columns=2).add(
        np.array([cluster_hash(name) for name in logs], np.uint64),
        quantised(np.array([[sum(found), len(found)] for found in logs.values()], np.float64)),
    )
    total, replicates = sums.totals(), sums.replicates()
    low, high = percentile_interval(np.exp(ratio(replicates[:, 0], replicates[:, 1])) - 1)
    change = float(np.exp(total[0] / total[1]) - 1)
    return {"change": change, "low": low, "high": high, "pairs": float(total[1])}


def verdict(by_pass: Sequence[tuple[float, float]]) -> dict[str, Any]:
    """Whether a speedup may be reported: `by_pass` holds (change, change of the A/A repeat).

    The condition is set beforehand: in every pass the arm is faster than the baseline by more than
    the baseline differs from itself.
    """
    failing = [
        number
        for number, (change, repeat) in enumerate(by_pass)
        if change >= 0 or abs(change) <= abs(repeat)
    ]
    return {
        "reported": not failing,
        "reason": None
        if not failing
        else f"not larger than the difference of the repeated baseline in pass(es) {failing}",
    }


def agreement(first: Sequence[ReadResult], second: Sequence[ReadResult]) -> dict[str, Any]:
    """Slots whose most probable label is the same, and the largest difference of a probability."""
    same = slots = 0
    largest = 0.0
    for one, other in zip(first, second, strict=True):
        for slot, logprobs in one.logprobs.items():
            theirs = other.logprobs[slot]
            slots += 1
            same += max(logprobs, key=logprobs.__getitem__) == max(theirs, key=theirs.__getitem__)
            largest = max(
                largest,
                *(abs(float(np.exp(logprobs[i]) - np.exp(theirs[i]))) for i in logprobs),
            )
    return {"slots": slots, "same_decision": same, "largest_probability_difference": largest}
