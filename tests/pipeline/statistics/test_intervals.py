from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from pipeline.statistics.intervals import (
    clustered_interval,
    effective_size,
    paired_difference,
    rate_interval,
    scaled,
    smallest_sample,
    wilson,
)


@pytest.mark.parametrize(
    ("changed", "low", "high"),
    [(0, 0.0, 0.0164), (2, 0.0024, 0.0310), (4, 0.0068, 0.0437), (10, 0.0237, 0.0778)],
)
def test_intervals_of_the_published_counts_of_231(changed: int, low: float, high: float) -> None:
    bounds = wilson(changed, 231)
    assert [round(float(b), 4) for b in bounds] == [low, high]


def test_wilson_agrees_with_scipy() -> None:
    for count, total in ((0, 5), (3, 17), (50, 51), (9, 9)):
        expected = stats.binomtest(count, total).proportion_ci(method="wilson")
        np.testing.assert_allclose(wilson(count, total), expected, atol=1e-12)
    exact = stats.binomtest(3, 17).proportion_ci(method="exact")
    np.testing.assert_allclose(rate_interval(3, 17, method="beta"), exact, atol=1e-9)


def test_no_items_exclude_nothing() -> None:
    assert [float(b) for b in wilson(0, 0)] == [0.0, 1.0]


def test_effective_size_counts_clusters_where_nothing_happened() -> None:
    assert effective_size(0.0, 1000, 200, 0.0) == 200
    assert effective_size(1.0, 1000, 200, 0.0) == 200


def test_effective_size_never_exceeds_the_items() -> None:
    independent = 0.1 * 0.9 / 1000
    assert effective_size(0.1, 1000, 200, independent / 2) == 1000
    assert effective_size(0.1, 1000, 200, independent * 4) == pytest.approx(250)


def test_few_clusters_widen_the_interval() -> None:
    narrow = clustered_interval(0.1, 200.0, 200)
    wide = clustered_interval(0.1, 200.0, 5)
    assert wide[0] < narrow[0] < 0.1 < narrow[1] < wide[1]
    low, high = clustered_interval(0.5, 2.0, 1)
    assert 0 <= low < 0.1
    assert 0.9 < high <= 1
    many = clustered_interval(np.array([0.1, 0.1]), np.array([200.0, 200.0]), np.array([200, 5]))
    np.testing.assert_allclose(many[1], [narrow[1], wide[1]])


def test_paired_difference_of_published_data() -> None:
    """Newcombe (1998), Statistics in Medicine 17:2635, table II: of 50 pairs 36 are positive before
    and 26 after, 24 on both; without correlation the hybrid interval is that of his method for
    independent samples."""
    first, second = wilson(36, 50), wilson(26, 50)
    low, high = paired_difference(36 / 50, first, 26 / 50, second)
    p1, p2 = 36 / 50, 26 / 50
    (l1, u1), (l2, u2) = first, second
    assert low == pytest.approx(p1 - p2 - np.hypot(p1 - l1, u2 - p2))
    assert high == pytest.approx(p1 - p2 + np.hypot(u1 - p1, p2 - l2))


def test_paired_difference_agrees_with_statsmodels_for_independent_rates() -> None:
    from statsmodels.stats.proportion import confint_proportions_2indep

    expected = confint_proportions_2indep(36, 50, 26, 50, method="newcomb", compare="diff")
    found = paired_difference(36 / 50, wilson(36, 50), 26 / 50, wilson(26, 50))
    np.testing.assert_allclose(found, expected, atol=1e-10)


def test_correlated_rates_differ_more_precisely() -> None:
    first, second = wilson(36, 50), wilson(26, 50)
    loose = paired_difference(0.72, first, 0.52, second)
    tight = paired_difference(0.72, first, 0.52, second, 0.6)
    assert loose[0] < tight[0] < 0.2 < tight[1] < loose[1]


def test_no_event_at_all_still_has_a_width() -> None:
    none = wilson(0, 231)
    low, high = paired_difference(0.0, none, 0.0, none)
    assert (float(low), float(high)) == (-float(none[1]), float(none[1]))


def needed(rate: float, budget: float) -> int | None:
    """Items whose one-sided exact 95% bound lies below the budget, should the rate stay."""
    return smallest_sample(
        lambda n: bool(rate_interval(rate * n, n, 0.9, "beta")[1] < budget), limit=10**5
    )


def test_items_needed_for_common_budgets() -> None:
    assert [needed(0.0, budget) for budget in (0.01, 0.02, 0.05)] == [299, 149, 59]
    moving = needed(0.01, 0.02)
    assert moving is not None
    assert moving > 149
    assert needed(0.02, 0.02) is None


def test_clustered_items_are_worth_less() -> None:
    assert [scaled(150, effect) for effect in (0.5, 1.0, 2.0)] == [150, 150, 300]


def test_smallest_sample_gives_up_at_its_limit() -> None:
    assert smallest_sample(lambda n: n >= 1000) == 1000
    assert smallest_sample(lambda n: n >= 1) == 1
    assert smallest_sample(lambda n: False, limit=1 << 20) is None
