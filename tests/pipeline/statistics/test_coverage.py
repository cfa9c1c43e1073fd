"""Simulated coverage: an interval of 95% holds the truth in 93 to 97 of 100 samples."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from pipeline.statistics.bootstrap import cluster_hash, percentile_interval, poisson_weights
from pipeline.statistics.calibration import brier, log_loss
from pipeline.statistics.intervals import (
    clustered_interval,
    effective_size,
    paired_difference,
    wilson,
)

SAMPLES = 4000
Floats = NDArray[np.float64]


def weights(clusters: int, name: str = "conversation") -> Floats:
    ids = [cluster_hash(f"{name} {i}") for i in range(clusters)]
    return poisson_weights(np.array(ids, np.uint64))


def covered(low: Floats, high: Floats, truth: Floats | float) -> float:
    return float(np.mean((low <= truth) & (truth <= high)))


def clustered(events: Floats, size: int) -> tuple[Floats, tuple[Floats, Floats]]:
    """Rates and clustered intervals of (clusters, samples) event counts, `size` items each."""
    clusters = len(events)
    w = weights(clusters)
    replicates = (w.T @ events) / (w.sum(axis=0)[:, None] * size)
    rate = events.sum(axis=0) / (clusters * size)
    effective = effective_size(rate, clusters * size, clusters, replicates.var(axis=0, ddof=1))
    return rate, clustered_interval(rate, effective, clusters)


# Coverage of any interval of a count jumps from rate to rate, so each sample has a rate of its own.
RATES = [(0.01, 0.05), (0.05, 0.3)]


@pytest.mark.parametrize("n", [231, 2000])
@pytest.mark.parametrize("rates", RATES)
def test_wilson_and_clustered_intervals_of_independent_decisions(
    n: int, rates: tuple[float, float]
) -> None:
    rng = np.random.default_rng([n, int(rates[1] * 100)])
    rate = rng.uniform(*rates, SAMPLES)
    events = (rng.random((n, SAMPLES)) < rate).astype(np.float64)
    assert 0.93 <= covered(*wilson(events.sum(axis=0), n), rate) <= 0.97
    assert 0.93 <= covered(*clustered(events, 1)[1], rate) <= 0.97


@pytest.mark.parametrize(("clusters", "size"), [(77, 3), (400, 5)])
@pytest.mark.parametrize("rates", RATES)
def test_clustered_interval_where_decisions_flip_together(
    clusters: int, size: int, rates: tuple[float, float]
) -> None:
    """Intra-cluster correlation 0.3, as when questions of one conversation share a read."""
    rng = np.random.default_rng([clusters, int(rates[1] * 100)])
    rate = rng.uniform(*rates, SAMPLES)
    others = 1 / 0.3 - 1
    shared = rng.beta(rate * others, (1 - rate) * others, (clusters, SAMPLES))
    events = rng.binomial(size, shared).astype(np.float64)
    plain = covered(*wilson(events.sum(axis=0), clusters * size), rate)
    assert plain < 0.93, "Wilson alone should be too narrow here, or the test shows nothing"
    assert 0.93 <= covered(*clustered(events, size)[1], rate) <= 0.97


@pytest.mark.parametrize("n", [231, 2000])
@pytest.mark.parametrize(("fixing", "breaking"), [(0.04, 0.01), (0.1, 0.05), (0.03, 0.03)])
def test_paired_difference_of_exclusive_events(n: int, fixing: float, breaking: float) -> None:
    """Fixes against breaks, or flips of the candidate against flips of the repeat."""
    rng = np.random.default_rng([n, int(fixing * 1e4)])
    draw = rng.random((n, SAMPLES))
    one = (draw < fixing).astype(np.float64)
    two = ((draw >= fixing) & (draw < fixing + breaking)).astype(np.float64)
    (p1, bounds1), (p2, bounds2) = clustered(one, 1), clustered(two, 1)
    low, high = paired_difference(p1, bounds1, p2, bounds2)
    assert 0.93 <= covered(low, high, fixing - breaking) <= 0.97


@pytest.mark.parametrize("n", [231, 2000])
def test_paired_bootstrap_of_brier_and_log_loss(n: int) -> None:
    rng = np.random.default_rng(n)

    def differences(rows: int) -> Floats:
        logits = rng.normal(0, 2, (rows, 3))
        truth = softmax(logits)
        gold = (rng.random(rows)[:, None] > truth.cumsum(axis=1)).sum(axis=1)
        first = softmax(1.3 * logits + rng.normal(0, 0.3, logits.shape))
        second = softmax(1.1 * logits + rng.normal(0, 0.3, logits.shape))
        scores = [score(second, gold) - score(first, gold) for score in (brier, log_loss)]
        return np.stack(scores, axis=1)

    truth = differences(2_000_000).mean(axis=0)
    hits = np.zeros(2)
    samples = 1500
    for sample in range(samples):
        if sample % 100 == 0:  # other conversations, other weights
            w = weights(n, f"conversation {sample}")
        replicates = (w.T @ differences(n)) / w.sum(axis=0)[:, None]
        for metric in (0, 1):
            low, high = percentile_interval(replicates[:, metric])
            hits[metric] += low <= truth[metric] <= high
    assert np.all(hits / samples >= 0.93)
    assert np.all(hits / samples <= 0.97)


def softmax(logits: Floats) -> Floats:
    raised = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(raised / raised.sum(axis=1, keepdims=True), np.float64)
