from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.statistics.bootstrap import (
    QUANTUM,
    REPLICATES,
    ClusterSums,
    cluster_hash,
    percentile_interval,
    poisson_weights,
    quantised,
    ratio,
    sums_by_cluster,
)

HASH_OF_C1 = 0x4E746D6FA300F043


def hashes(*names: str) -> np.ndarray:
    return np.array([cluster_hash(name) for name in names], np.uint64)


def test_weights_are_poisson_of_mean_one() -> None:
    weights = poisson_weights(hashes(*(f"c{i}" for i in range(2000))))
    assert weights.shape == (2000, REPLICATES)
    assert weights.mean() == pytest.approx(1, abs=0.003)
    assert weights.var() == pytest.approx(1, abs=0.01)
    shares = np.bincount(weights.astype(int).ravel()) / weights.size
    assert shares[:4] == pytest.approx([0.3679, 0.3679, 0.1839, 0.0613], abs=0.002)


def test_weights_of_different_clusters_and_replicates_are_uncorrelated() -> None:
    weights = poisson_weights(hashes(*(f"c{i}" for i in range(300))))
    clusters = np.corrcoef(weights)
    replicates = np.corrcoef(weights.T)
    for matrix in (clusters, replicates):
        off = matrix[~np.eye(len(matrix), dtype=bool)]
        assert abs(off.mean()) < 0.005
        assert off.std() == pytest.approx(1 / np.sqrt(weights.size / len(matrix)), rel=0.1)


def test_weights_depend_on_the_id_alone() -> None:
    assert cluster_hash("c1") == HASH_OF_C1
    alone = poisson_weights(hashes("c1"))
    among = poisson_weights(hashes("c0", "c1", "c2"))[1:2]
    np.testing.assert_array_equal(alone, among)


@given(st.lists(st.integers(0, 3000), max_size=4), st.integers(0, 2**32 - 1))
def test_sums_are_the_same_under_any_sharding(cuts: list[int], seed: int) -> None:
    rng = np.random.default_rng(seed)
    ids = hashes(*(f"c{i}" for i in range(3000)))
    rows = np.stack([rng.integers(0, 5, 3000).astype(float), quantised(rng.random(3000))], axis=1)
    whole = ClusterSums(2).add(ids, rows)
    merged = ClusterSums(2)
    borders = sorted({0, 3000, *cuts})
    pieces = [slice(a, b) for a, b in pairwise(borders)]
    rng.shuffle(pieces)
    for piece in pieces:
        merged.merge(ClusterSums(2).add(ids[piece], rows[piece]))
    np.testing.assert_array_equal(whole.totals(), merged.totals())
    np.testing.assert_array_equal(whole.replicates(), merged.replicates())
    assert whole.clusters == merged.clusters == 3000


def test_replicates_agree_with_the_plain_bootstrap() -> None:
    """The standard error of a mean is that of resampling whole clusters with replacement."""
    rng = np.random.default_rng(1)
    totals = rng.poisson(2, 800).astype(float)
    sums = ClusterSums(2).add(
        hashes(*(f"c{i}" for i in range(800))), np.stack([totals, np.full(800, 5.0)], axis=1)
    )
    found = ratio(sums.replicates()[:, 0], sums.replicates()[:, 1])
    draws = rng.integers(0, 800, (5000, 800))
    expected = totals[draws].mean(axis=1) / 5
    assert found.mean() == pytest.approx(expected.mean(), rel=0.01)
    assert found.std() == pytest.approx(expected.std(), rel=0.08)


def test_empty_sums_are_zero() -> None:
    sums = ClusterSums(3)
    assert sums.totals().tolist() == [0, 0, 0]
    assert sums.replicates().shape == (REPLICATES, 3)


def test_item_rows_are_summed_by_cluster() -> None:
    codes = np.array([2, 0, 2, 0, 2])
    found, sums = sums_by_cluster(codes, np.arange(10.0).reshape(5, 2))
    assert found.tolist() == [0, 2]
    assert sums.tolist() == [[8, 10], [12, 15]]
    none = sums_by_cluster(codes[:0], np.zeros((0, 2)))
    assert len(none[0]) == 0


def test_quantised_fractions_are_close_and_sum_exactly() -> None:
    values = np.random.default_rng(0).random(10_000)
    rounded = quantised(values)
    assert np.abs(rounded - values).max() <= QUANTUM / 2
    assert rounded.sum() == rounded[::-1].sum() == np.sort(rounded).sum()


def test_percentiles_ignore_replicates_without_a_value() -> None:
    assert percentile_interval(np.array([np.nan, 1.0, 1.0])) == (1.0, 1.0)
    assert np.isnan(percentile_interval(np.array([np.nan]))).all()
