from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.spatial.distance import jensenshannon

from pipeline.statistics.distances import (
    gap_movement,
    jensen_shannon,
    largest_change,
    total_variation,
)
from pipeline.statistics.histogram import Histogram

rows = hnp.arrays(np.float64, (2, 6, 4), elements=st.floats(0.001, 1)).map(
    lambda a: a / a.sum(axis=2, keepdims=True)
)


@given(rows)
def test_distances_agree_with_scipy_and_with_each_other(pair: np.ndarray) -> None:
    p, q = pair
    divergence = jensen_shannon(p, q)
    np.testing.assert_allclose(divergence, jensenshannon(p, q, axis=1) ** 2, atol=1e-9)
    variation, largest, gap = total_variation(p, q), largest_change(p, q), gap_movement(p, q)
    assert np.all(largest <= variation + 1e-12)
    assert np.all(largest <= gap + 1e-12)
    assert np.all(gap <= 2 * largest + 1e-12)
    np.testing.assert_allclose(variation, total_variation(q, p))


@given(rows)
def test_a_flip_needs_a_gap_movement_of_at_least_the_margin(pair: np.ndarray) -> None:
    p, q = pair
    ordered = np.sort(p, axis=1)
    margin = ordered[:, -1] - ordered[:, -2]
    flipped = p.argmax(axis=1) != q.argmax(axis=1)
    assert np.all(gap_movement(p, q)[flipped] >= margin[flipped] - 1e-12)


def test_equal_and_opposite_distributions() -> None:
    certain, opposite = np.array([[1.0, 0.0]]), np.array([[0.0, 1.0]])
    for distance in (total_variation, jensen_shannon, largest_change, gap_movement):
        assert distance(certain, certain) == 0
    assert total_variation(certain, opposite) == 1
    assert jensen_shannon(certain, opposite) == pytest.approx(np.log(2))
    assert gap_movement(certain, opposite) == 2


@given(hnp.arrays(np.float64, st.integers(1, 300), elements=st.floats(0, 2)), st.floats(0.01, 1))
def test_histogram_quantiles_are_never_low_and_at_most_a_bin_high(
    values: np.ndarray, share: float
) -> None:
    found = Histogram().add(values).quantile(share)
    exact = float(np.quantile(values, share, method="inverted_cdf"))
    assert exact <= found * (1 + 1e-12)
    assert found <= max(exact * 10 ** (1 / 100), 2.1e-12) * (1 + 1e-12)


@given(hnp.arrays(np.float64, st.integers(0, 50), elements=st.floats(0, 2)))
def test_histograms_add_up(values: np.ndarray) -> None:
    half = len(values) // 2
    merged = Histogram().add(values[half:]).merge(Histogram().add(values[:half]))
    whole = Histogram().add(values)
    np.testing.assert_array_equal(merged.counts, whole.counts)
    assert (merged.largest, merged.total) == (whole.largest, len(values))


def test_no_movement_at_all_is_a_quantile_of_zero() -> None:
    assert Histogram().quantile(0.99) == 0
    assert Histogram().add(np.zeros(10)).quantile(0.99) == 0
