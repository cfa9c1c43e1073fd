"""Rates with clustered intervals, read off the sums and their bootstrap replicates."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pipeline.statistics.bootstrap import ClusterSums, Floats, ratio
from pipeline.statistics.intervals import clustered_interval, effective_size, paired_difference


@dataclass(frozen=True, slots=True)
class Rate:
    """A rate of events among items that come in clusters.

    Attributes:
        count, total: events and items.
        clusters: groups of conversations, and conversations without a group.
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

    @property
    def varies(self) -> bool:
        """Whether the sample shows how events cluster: some items are events, and some not."""
        return 0 < self.count < self.total

    def interval(self, size: float | None = None) -> tuple[float, float]:
        """95% interval at the effective size (or at `size`); (0, 1) without items."""
        if not self.total:
            return 0.0, 1.0
        if size is None:
            size = self.effective_size
        low, high = clustered_interval(self.value, size, self.clusters)
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


def difference(first: Rate, second: Rate) -> tuple[float, float]:
    """95% interval of `first - second`, paired: their correlation is that of the replicates.

    Where only one of them varies, the other is taken to cluster like it.
    """
    bounds = [
        tuple(np.asarray(b) for b in rate.interval(_size(rate, other)))
        for rate, other in ((first, second), (second, first))
    ]
    low, high = paired_difference(
        first.value,
        (bounds[0][0], bounds[0][1]),
        second.value,
        (bounds[1][0], bounds[1][1]),
        correlation(first.replicates, second.replicates),
    )
    return float(low), float(high)


def _size(rate: Rate, other: Rate) -> float:
    if rate.varies or not other.varies:
        return rate.effective_size
    return rate.total * other.effective_size / other.total


def correlation(first: Floats, second: Floats) -> float:
    """Pearson's r over replicates; 0 where either does not vary."""
    known = np.isfinite(first) & np.isfinite(second)
    if np.count_nonzero(known) < 2:
        return 0.0
    one, two = first[known], second[known]
    if one.std() == 0 or two.std() == 0:
        return 0.0
    return float(np.corrcoef(one, two)[0, 1])
