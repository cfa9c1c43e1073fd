"""Rates with clustered intervals, read off the sums and their bootstrap replicates."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pipeline.statistics.bootstrap import ClusterSums, Floats, ratio
from pipeline.statistics.intervals import (
    Method,
    clustered_interval,
    effective_size,
    paired_difference,
)


@dataclass(frozen=True, slots=True)
class Rate:
    """A rate of events among items that come in clusters.

    Attributes:
        count, total: events and items.
        clusters: conversations.
        replicates: (replicates,) the rate under each bootstrap replicate.
    """

    count: float
    total: float
    clusters: int
    replicates: Floats

    @property
    def value(self) -> float:
        """Events per item; NaN without items."""
        return self.count / self.total if self.total else float("nan")

    @property
    def effective_size(self) -> float:
        """How many independent items carry as much."""
        if not self.total:
            return 0.0
        variance = float(np.nanvar(self.replicates, ddof=1))
        return float(effective_size(self.value, self.total, self.clusters, variance))

    def interval(self, confidence: float = 0.95, method: Method = "wilson") -> tuple[float, float]:
        """Two-sided interval at the effective size; (0, 1) without items."""
        if not self.total:
            return 0.0, 1.0
        low, high = clustered_interval(
            self.value, self.effective_size, self.clusters, confidence, method
        )
        return float(low), float(high)


def rate_of(sums: ClusterSums, events: int, items: int) -> Rate:
    """The rate of one column of the sums among another."""
    totals, replicates = sums.totals(), sums.replicates()
    return Rate(
        float(totals[events]),
        float(totals[items]),
        sums.clusters,
        ratio(replicates[:, events], replicates[:, items]),
    )


def difference(
    first: Rate, second: Rate, confidence: float = 0.95, method: Method = "wilson"
) -> tuple[float, float]:
    """Interval of `first - second`, paired: their correlation is that of the replicates."""
    bounds = [
        tuple(np.asarray(bound) for bound in rate.interval(confidence, method))
        for rate in (first, second)
    ]
    low, high = paired_difference(
        first.value,
        (bounds[0][0], bounds[0][1]),
        second.value,
        (bounds[1][0], bounds[1][1]),
        correlation(first.replicates, second.replicates),
    )
    return float(low), float(high)


def correlation(first: Floats, second: Floats) -> float:
    """Pearson's r over replicates; 0 where either does not vary."""
    known = np.isfinite(first) & np.isfinite(second)
    if np.count_nonzero(known) < 2:
        return 0.0
    one, two = first[known], second[known]
    if one.std() == 0 or two.std() == 0:
        return 0.0
    return float(np.corrcoef(one, two)[0, 1])
