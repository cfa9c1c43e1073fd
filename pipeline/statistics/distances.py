"""How far an option distribution moved between two runs.

Arguments are (pairs, options) matrices, rows summing to 1; options a question does not have hold 0
on both sides and add nothing.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import rel_entr

Floats = NDArray[np.float64]


def total_variation(first: Floats, second: Floats) -> Floats:
    """Half the summed absolute changes, in [0, 1]."""
    return np.asarray(0.5 * np.abs(first - second).sum(axis=1), np.float64)


def jensen_shannon(first: Floats, second: Floats) -> Floats:
    """Jensen-Shannon divergence in nats, in [0, ln 2] (not its square root)."""
    middle = 0.5 * (first + second)
    both = rel_entr(first, middle).sum(axis=1) + rel_entr(second, middle).sum(axis=1)
    # Equal rows can come out at -1e-17.
    return np.asarray(np.maximum(0.5 * both, 0.0), np.float64)


def largest_change(first: Floats, second: Floats) -> Floats:
    """Largest absolute change of one option's probability."""
    return np.asarray(np.abs(first - second).max(axis=1, initial=0.0), np.float64)


def gap_movement(first: Floats, second: Floats) -> Floats:
    """Largest change of the gap between any two options, in [0, 2].

    A decision can only flip when its margin is at most this, which makes it the scale on which
    margins are called near ties.
    """
    change = second - first
    return np.asarray(change.max(axis=1, initial=0.0) - change.min(axis=1, initial=0.0), np.float64)
