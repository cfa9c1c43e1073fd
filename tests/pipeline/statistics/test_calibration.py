from __future__ import annotations

import numpy as np
import pytest

from pipeline.statistics.calibration import BINS, bin_of, brier, calibration_error, log_loss


def test_scores_of_one_decision() -> None:
    p = np.array([[0.7, 0.2, 0.1], [1.0, 0.0, 0.0]])
    assert brier(p, np.array([0, 1])) == pytest.approx([0.3**2 + 0.2**2 + 0.1**2, 2.0])
    assert log_loss(p, np.array([0, 1])) == pytest.approx([-np.log(0.7), -np.log(1e-15)])


def test_calibration_error_of_a_hand_computed_sample() -> None:
    confidence = np.array([0.95, 0.95, 0.65, 0.65, 1.0])
    correct = np.array([1.0, 0.0, 1.0, 1.0, 1.0])
    bins = bin_of(confidence)
    assert bins.tolist() == [9, 9, 6, 6, 9]
    sums = [np.bincount(bins, w, BINS) for w in (np.ones(5), confidence, correct)]
    expected = (abs(2.9 - 2.0) + abs(1.3 - 2.0)) / 5
    assert calibration_error(*sums) == pytest.approx(expected)


def test_calibration_error_without_rows_is_unknown() -> None:
    assert np.isnan(calibration_error(np.zeros(BINS), np.zeros(BINS), np.zeros(BINS)))
