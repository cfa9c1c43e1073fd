"""How many different things there are, in fixed space and under any sharding."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

LIMIT = 32_768
"""Hashes kept. Fewer are counted exactly; from here on the spacing of the smallest ones tells how
many there are, with a standard error of 0.6%."""


@dataclass(slots=True)
class DistinctCount:
    """Counts distinct 64-bit hashes by keeping the smallest of them.

    >>> DistinctCount().add(np.array([7, 9], np.uint64)).add(np.array([7], np.uint64)).total
    2
    """

    _smallest: NDArray[np.uint64] = field(default_factory=lambda: np.zeros(0, np.uint64))

    def add(self, hashes: NDArray[np.uint64]) -> DistinctCount:
        """Count the hashes in; returns self."""
        if len(hashes):
            self._smallest = np.union1d(self._smallest, hashes)[:LIMIT]
        return self

    def merge(self, other: DistinctCount) -> DistinctCount:
        """Count in what another one counted; returns self."""
        return self.add(other._smallest)

    @property
    def total(self) -> int:
        if len(self._smallest) < LIMIT:
            return len(self._smallest)
        return round((LIMIT - 1) * 2**64 / int(self._smallest[-1]))
