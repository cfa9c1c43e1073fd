from __future__ import annotations

import numpy as np
import pytest

from pipeline.statistics.agreement import agreement, pooled_agreement


def test_published_kappa() -> None:
    """Fleiss, Levin and Paik (2003), table 18.1: kappa 0.676."""
    found = agreement(np.array([[75, 1, 4], [5, 4, 1], [0, 0, 10]]))
    assert found.observed == pytest.approx(0.89)
    assert found.kappa == pytest.approx(0.676, abs=5e-4)


def test_published_ac1_under_skew() -> None:
    """Gwet (2008): 118 and 0 agree, 5 and 2 do not; kappa is below 0, AC1 is 0.94."""
    found = agreement(np.array([[118, 5], [2, 0]]))
    assert found.kappa == pytest.approx(-0.0234, abs=5e-4)
    assert found.ac1 == pytest.approx(0.9408, abs=5e-4)


def test_one_option_everywhere_has_no_kappa_but_full_ac1() -> None:
    found = agreement(np.array([[50, 0], [0, 0]]))
    assert found.kappa is None
    assert found.ac1 == 1.0


def test_nothing_to_agree_on() -> None:
    found = agreement(np.zeros((2, 2), np.int64))
    assert np.isnan(found.observed)
    assert (found.kappa, found.ac1) == (None, None)
    assert pooled_agreement([]).kappa is None


def test_pooling_equal_tables_changes_nothing() -> None:
    table = np.array([[40, 3], [5, 20]])
    one, three = agreement(table), pooled_agreement([table, table, table])
    assert three.kappa == pytest.approx(one.kappa)
    assert three.ac1 == pytest.approx(one.ac1)


def test_pooling_does_not_reward_telling_questions_apart() -> None:
    """Two questions answered at random agree by chance within each of them."""
    coin = np.array([[25, 25], [25, 25]])
    assert pooled_agreement([coin, coin]).kappa == pytest.approx(0)
