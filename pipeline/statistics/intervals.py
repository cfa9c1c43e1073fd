"""Intervals for rates and for differences of paired rates, with and without clusters.

>>> low, high = wilson(10, 231)
>>> f"{float(low):.4f} {float(high):.4f}"
'0.0237 0.0778'
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats
from statsmodels.stats.proportion import proportion_confint

Floats = NDArray[np.float64]
Bounds = tuple[Floats, Floats]

# "beta" is Clopper-Pearson: a gate must not pass on an approximation that is too narrow at zero.
Method = Literal["wilson", "beta"]


def wilson(count: ArrayLike, total: ArrayLike) -> Bounds:
    """95% Wilson interval of `count` in `total`; counts need not be whole, arrays broadcast."""
    return rate_interval(count, total)


def rate_interval(
    count: ArrayLike, total: ArrayLike, confidence: float = 0.95, method: Method = "wilson"
) -> Bounds:
    """Two-sided interval of a rate; (0, 1) where `total` is 0."""
    counts, totals = np.broadcast_arrays(
        np.asarray(count, np.float64), np.asarray(total, np.float64)
    )
    known = totals > 0
    low, high = proportion_confint(
        np.where(known, counts, 0.0),
        np.where(known, totals, 1.0),
        alpha=1 - confidence,
        method=method,
    )
    low = np.where(known, np.clip(low, 0.0, 1.0), 0.0)
    high = np.where(known, np.clip(high, 0.0, 1.0), 1.0)
    return np.asarray(low, np.float64), np.asarray(high, np.float64)


def effective_size(
    rate: ArrayLike, total: ArrayLike, clusters: ArrayLike, variance: ArrayLike
) -> Floats:
    """How many independent items carry what `total` clustered ones do.

    `variance` is the cluster bootstrap's variance of the rate. Where the rate is 0 or 1 the sample
    says nothing about how items cluster, and each cluster counts once: the cautious end.
    """
    rates, totals, groups, variances = np.broadcast_arrays(
        *(np.asarray(v, np.float64) for v in (rate, total, clusters, variance))
    )
    independent = rates * (1 - rates) / np.maximum(totals, 1)
    ratio = np.divide(variances, independent, out=np.ones_like(independent), where=independent > 0)
    sized = totals / np.maximum(ratio, 1.0)
    return np.asarray(np.where(independent > 0, sized, np.minimum(groups, totals)), np.float64)


def clustered_interval(
    rate: ArrayLike,
    size: ArrayLike,
    clusters: ArrayLike,
    confidence: float = 0.95,
    method: Method = "wilson",
) -> Bounds:
    """Interval of a rate from its effective size, widened by Student's t for few clusters.

    Percentiles of the bootstrap alone cover too little for rare events, and nothing at a count of
    zero; a score interval at the effective size does not have that fault.
    """
    groups = np.asarray(clusters, np.float64)
    tail = stats.t.isf((1 - confidence) / 2, np.maximum(groups - 1, 1))
    # With one or two clusters the level rounds to 1, where the interval has no bounds.
    widened = np.minimum(1 - 2 * stats.norm.sf(tail), 1 - 1e-12)
    rates, sizes, level = np.broadcast_arrays(
        np.asarray(rate, np.float64), np.asarray(size, np.float64), widened
    )
    if level.ndim == 0 or np.all(level == level.flat[0]):
        return rate_interval(rates * sizes, sizes, float(level.flat[0]), method)
    parts = [
        rate_interval(r * s, s, float(c), method)
        for r, s, c in zip(rates.flat, sizes.flat, level.flat, strict=True)
    ]
    low = np.array([float(p[0]) for p in parts]).reshape(rates.shape)
    high = np.array([float(p[1]) for p in parts]).reshape(rates.shape)
    return low, high


def paired_difference(
    first: ArrayLike,
    first_interval: Bounds,
    second: ArrayLike,
    second_interval: Bounds,
    correlation: ArrayLike = 0.0,
) -> Bounds:
    """Interval of `first - second` from the two rates' own intervals (Newcombe's hybrid score).

    `correlation` is that of the two estimates. With rates of exclusive events (fixes and breaks)
    and no event at all, the bounds are those of one rate: they do not collapse to a point.
    """
    p1, p2, rho = (np.asarray(v, np.float64) for v in (first, second, correlation))
    (l1, u1), (l2, u2) = first_interval, second_interval

    def reach(one: Floats, other: Floats) -> Floats:
        squared = one**2 - 2 * rho * one * other + other**2
        return np.asarray(np.sqrt(np.maximum(squared, 0.0)), np.float64)

    difference = p1 - p2
    low = difference - reach(p1 - l1, u2 - p2)
    high = difference + reach(u1 - p1, p2 - l2)
    return np.maximum(low, -1.0), np.minimum(high, 1.0)


def scaled(independent: int, design_effect: float) -> int:
    """Clustered items that carry as much as `independent` ones."""
    return int(np.ceil(independent * max(design_effect, 1.0)))


def smallest_sample(enough: Callable[[int], bool], limit: int = 10**9) -> int | None:
    """The smallest sample size from which on `enough` holds, which it must keep holding; None
    when that is beyond `limit`."""
    high = 1
    while not enough(high):
        if high >= limit:
            return None
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high
