"""Scores of probabilities against gold, as sums that add up across shards.

Brier is the multiclass sum over options of (p - y)^2; log loss is in nats, with probabilities
clipped at 1e-15; calibration error uses ten equal-width bins of the decision's probability.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

BINS = 10
_FLOOR = 1e-15


def brier(probabilities: Floats, gold_index: Ints) -> Floats:
    """Per row of a (rows, options) matrix, in [0, 2]."""
    picked = np.take_along_axis(probabilities, gold_index[:, None], axis=1)[:, 0]
    return np.asarray((probabilities**2).sum(axis=1) - 2 * picked + 1, np.float64)


def log_loss(probabilities: Floats, gold_index: Ints) -> Floats:
    """Per row, nats."""
    picked = np.take_along_axis(probabilities, gold_index[:, None], axis=1)[:, 0]
    return np.asarray(-np.log(np.clip(picked, _FLOOR, 1.0)), np.float64)


def bin_of(confidence: Floats) -> Ints:
    """Bin of a decision's probability; 1.0 belongs to the last."""
    return np.asarray(np.clip(confidence * BINS, 0, BINS - 1), np.int64)


def calibration_error(count: Floats, confidence: Floats, correct: Floats) -> Floats:
    """Expected calibration error from per-bin sums along the last axis; NaN without any row."""
    total = count.sum(axis=-1)
    gaps = np.abs(confidence - correct).sum(axis=-1)
    return np.asarray(np.divide(gaps, total, out=np.full_like(total, np.nan), where=total > 0))
