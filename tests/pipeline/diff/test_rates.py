from __future__ import annotations

import numpy as np

from pipeline.diff.rates import Rate, difference, rate_of
from pipeline.statistics.bootstrap import ClusterSums, cluster_hash


def rate(events: int, clusters: int = 500, size: int = 6) -> Rate:
    """`events` single events spread over as many of the clusters."""
    hashes = np.array([cluster_hash(f"c{i}") for i in range(clusters)], np.uint64)
    rows = np.stack([np.arange(clusters) < events, np.full(clusters, size)], axis=1)
    return rate_of(ClusterSums(2).add(hashes, rows.astype(np.float64)), 0, 1)


def test_many_events_differ_from_none() -> None:
    """None of 3,000 in a repeat and 19 in the other run: that is no accident, though a rate of
    zero alone could hide as much as 0.8% if whole conversations flipped together."""
    some, none = rate(19), rate(0)
    assert none.interval()[1] > some.value
    low, high = difference(some, none)
    assert 0 < low < some.value < high


def test_two_rates_of_zero_bound_each_other_cautiously() -> None:
    none = rate(0)
    assert difference(none, none) == (-none.interval()[1], none.interval()[1])


def test_a_rate_without_items_is_unknown() -> None:
    nothing = Rate(0.0, 0.0, 0, np.full(10, np.nan))
    assert nothing.interval() == (0.0, 1.0)
    assert np.isnan(nothing.value)
