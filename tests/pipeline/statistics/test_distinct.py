from __future__ import annotations

import numpy as np
import pytest

from pipeline.statistics.bootstrap import cluster_hash
from pipeline.statistics.distinct import LIMIT, DistinctCount


def hashes(count: int) -> np.ndarray:
    return np.array([cluster_hash(f"g{i}") for i in range(count)], np.uint64)


def test_few_are_counted_exactly_however_often_they_come() -> None:
    found = DistinctCount()
    assert found.total == 0
    for start in range(0, 900, 100):
        found.merge(DistinctCount().add(hashes(1000)[start : start + 200]))
    assert found.total == 1000


def test_many_are_estimated_the_same_under_any_sharding() -> None:
    everything = hashes(5 * LIMIT)
    whole = DistinctCount().add(everything)
    pieces = np.array_split(np.random.default_rng(0).permutation(everything), 7)
    cut = DistinctCount()
    for piece in pieces:
        cut.merge(DistinctCount().add(piece).add(everything[:100]))
    assert whole.total == cut.total == pytest.approx(5 * LIMIT, rel=0.02)
