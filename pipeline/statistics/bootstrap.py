"""Cluster bootstrap over any number of shards, the same whatever the sharding.

Every cluster draws, in every replicate, a Poisson(1) weight that depends on nothing but its id and
the replicate's number. A replicate's statistic is then a function of weighted sums, and sums add up
across bundles, workers and runners, also those of one cluster that is spread over them: no shuffle
by cluster is needed, and memory is (replicates x columns) however many clusters there are.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from pipeline.statistics.distinct import DistinctCount

Floats = NDArray[np.float64]

REPLICATES = 1000
_PER_HASH = 4  # 16-bit draws in a 64-bit hash

# Fractions are summed as whole multiples of this, so that sums are exact and their order, which
# differs between shardings, cannot show. Exact up to about eight million rows of size 1.
QUANTUM = 2.0**-30

_FOLD_ROWS = 1024


def quantised(values: Floats) -> Floats:
    """Round to multiples of QUANTUM (an error below 5e-10)."""
    return np.asarray(np.rint(values / QUANTUM) * QUANTUM, np.float64)


def cluster_hash(cluster_id: str) -> int:
    """64-bit hash of a cluster's id; stable across processes and machines."""
    return int.from_bytes(hashlib.blake2b(cluster_id.encode(), digest_size=8).digest(), "little")


def _poisson_table() -> NDArray[np.uint8]:
    """Weight for each of 65,536 equally likely 16-bit draws."""
    upper = np.rint(stats.poisson.cdf(np.arange(9), 1.0) * 65536).astype(np.int64)
    return np.asarray(np.searchsorted(upper, np.arange(65536), side="right"), np.uint8)


_WEIGHT_OF_DRAW = _poisson_table()


def poisson_weights(hashes: NDArray[np.uint64]) -> NDArray[np.float64]:
    """(clusters, REPLICATES) weights with mean 1 and variance 1."""
    words = -(-REPLICATES // _PER_HASH)
    steps = np.arange(1, words + 1, dtype=np.uint64)
    with np.errstate(over="ignore"):
        z = hashes[:, None] + steps[None, :] * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z ^= z >> np.uint64(31)
    draws = np.ascontiguousarray(z.astype("<u8")).view("<u2").reshape(len(hashes), -1)
    return np.asarray(_WEIGHT_OF_DRAW[draws[:, :REPLICATES]], np.float64)


@dataclass(slots=True)
class ClusterSums:
    """Sums of columns over clusters, and the same sums under every bootstrap replicate.

    Rows wait unweighted until there are enough for one matrix product, so a question asked a few
    times stays a few rows.
    """

    columns: int
    _whole: int = 0
    _spread: DistinctCount = field(default_factory=DistinctCount)
    _hashes: list[NDArray[np.uint64]] = field(default_factory=list)
    _rows: list[Floats] = field(default_factory=list)
    _waiting: int = 0
    _totals: Floats | None = None
    _replicates: Floats | None = None

    @property
    def clusters(self) -> int:
        """How many clusters were added; `spread` ones once, however often they came."""
        return self._whole + self._spread.total

    def add(
        self,
        hashes: NDArray[np.uint64],
        rows: Floats,
        spread: NDArray[np.bool_] | None = None,
    ) -> ClusterSums:
        """Add one row of sums per cluster; returns self.

        Args:
            hashes: (clusters,) `cluster_hash` of each cluster.
            rows: (clusters, columns); whole numbers or `quantised` fractions.
            spread: (clusters,) which of them may come again, with other rows; None when none.
        """
        if len(hashes):
            self._hashes.append(hashes)
            self._rows.append(rows)
            self._waiting += len(hashes)
            if spread is None:
                self._whole += len(hashes)
            else:
                self._whole += int(np.count_nonzero(~spread))
                self._spread.add(hashes[spread])
            if self._waiting >= _FOLD_ROWS:
                self._fold()
        return self

    def merge(self, other: ClusterSums) -> ClusterSums:
        """Add another's sums; returns self."""
        self._whole += other._whole
        self._spread.merge(other._spread)
        self._hashes += other._hashes
        self._rows += other._rows
        self._waiting += other._waiting
        if other._totals is not None and other._replicates is not None:
            self._accumulate(other._totals, other._replicates)
        if self._waiting >= _FOLD_ROWS:
            self._fold()
        return self

    def totals(self) -> Floats:
        """(columns,) plain sums."""
        self._fold()
        return np.zeros(self.columns) if self._totals is None else self._totals

    def replicates(self) -> Floats:
        """(replicates, columns) weighted sums."""
        self._fold()
        return (
            np.zeros((REPLICATES, self.columns)) if self._replicates is None else self._replicates
        )

    def _fold(self) -> None:
        if not self._waiting:
            return
        hashes, rows = np.concatenate(self._hashes), np.concatenate(self._rows)
        self._hashes, self._rows, self._waiting = [], [], 0
        for start in range(0, len(hashes), _FOLD_ROWS):
            block = rows[start : start + _FOLD_ROWS]
            weights = poisson_weights(hashes[start : start + _FOLD_ROWS])
            self._accumulate(block.sum(axis=0), weights.T @ block)

    def _accumulate(self, totals: Floats, replicates: Floats) -> None:
        if self._totals is None or self._replicates is None:
            self._totals, self._replicates = totals.copy(), replicates.copy()
        else:
            self._totals = self._totals + totals
            self._replicates = self._replicates + replicates


def sums_by_cluster(codes: NDArray[np.int64], rows: Floats) -> tuple[NDArray[np.int64], Floats]:
    """Sum item rows by cluster.

    Args:
        codes: (items,) cluster code of each item.
        rows: (items, columns).

    Returns:
        Codes, in order, and (clusters, columns) sums of the clusters that have items.
    """
    order = np.argsort(codes, kind="stable")
    present, first = np.unique(codes[order], return_index=True)
    if not len(present):
        return present, rows[:0]
    return present, np.add.reduceat(rows[order], first, axis=0)


def ratio(numerator: Floats, denominator: Floats) -> Floats:
    """Elementwise ratio of sums; NaN where the denominator is 0."""
    out = np.full(np.broadcast(numerator, denominator).shape, np.nan)
    return np.asarray(np.divide(numerator, denominator, out=out, where=denominator != 0))


def percentile_interval(replicates: Floats) -> tuple[float, float]:
    """95% percentile interval of a statistic's replicates; NaN when no replicate has a value."""
    known = replicates[np.isfinite(replicates)]
    if not known.size:
        return float("nan"), float("nan")
    low, high = np.quantile(known, [0.025, 0.975])
    return float(low), float(high)
