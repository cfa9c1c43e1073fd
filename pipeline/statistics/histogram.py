"""Quantiles of many small positive numbers in fixed space, the same under any sharding."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

_DECADES = 12
_PER_DECADE = 100
_BINS = _DECADES * _PER_DECADE + 2
_TOP = 2.0


def _edges() -> NDArray[np.float64]:
    exponents = np.arange(_DECADES * _PER_DECADE + 1) / _PER_DECADE - _DECADES
    return _TOP * 10.0**exponents


_EDGES = _edges()


@dataclass(slots=True)
class Histogram:
    """Counts of values in [0, 2] in bins 2.3% wide; values below 2e-12 share the first bin."""

    counts: NDArray[np.int64] = field(default_factory=lambda: np.zeros(_BINS, np.int64))
    largest: float = 0.0

    def add(self, values: NDArray[np.float64]) -> Histogram:
        """Count the values in; returns self."""
        if values.size:
            bins = np.searchsorted(_EDGES, values, side="left")
            self.counts += np.bincount(bins, minlength=_BINS)
            self.largest = max(self.largest, float(values.max()))
        return self

    def merge(self, other: Histogram) -> Histogram:
        """Add another histogram's counts; returns self."""
        self.counts += other.counts
        self.largest = max(self.largest, other.largest)
        return self

    @property
    def total(self) -> int:
        return int(self.counts.sum())

    def quantile(self, share: float) -> float:
        """Upper edge of the bin that holds the quantile: never below it, at most 2.3% above."""
        if not self.total:
            return 0.0
        rank = max(1, int(np.ceil(share * self.total)))
        place = int(np.searchsorted(np.cumsum(self.counts), rank))
        if place == 0 and self.largest == 0.0:
            return 0.0
        return min(float(_EDGES[min(place, len(_EDGES) - 1)]), self.largest)
