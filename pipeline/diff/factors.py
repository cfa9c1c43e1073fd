"""Attribution: which factor moves how many decisions, over all pairs of several runs.

A pair of runs that differ in one factor measures that factor; a pair that differs in none is a
repeat and measures the floor; a pair that differs in several is shown and attributed to nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations

from pydantic import BaseModel

from pipeline.diff.facts import differing_factors
from pipeline.diff.rates import Rate, difference, rate_of
from pipeline.statistics.bootstrap import ClusterSums

REPEAT = "repeat"


class PairFlips(BaseModel):
    """Decisions that differ between two of the runs, over the decisions that all runs have."""

    first: str
    second: str
    factors: list[str]
    pairs: int
    flips: int
    rate: float
    low: float
    high: float


class FactorEffect(BaseModel):
    """One factor's mean flip rate over the pairs of runs that differ in it alone.

    `above_repeat*` compare it with the mean of the repeat pairs; None when there is none.
    """

    factor: str
    run_pairs: int
    flips: int
    pairs: int
    rate: float
    low: float
    high: float
    above_repeat: float | None = None
    above_repeat_low: float | None = None
    above_repeat_high: float | None = None


class FactorContrast(BaseModel):
    """Paired difference of two factors' flip rates: first minus second."""

    first: str
    second: str
    difference: float
    low: float
    high: float


class Attribution(BaseModel):
    """Agreement of every pair of runs, and what it says about each factor."""

    pairs: list[PairFlips]
    effects: list[FactorEffect]
    contrasts: list[FactorContrast]


def attribute(
    sums: ClusterSums, run_ids: Sequence[str], facts: Sequence[Mapping[str, str]]
) -> Attribution:
    """Attribute flips to factors.

    Args:
        sums: column 0 counts decisions that all runs have, then one column of flips for every
            pair of runs, in the order of `itertools.combinations`.
        run_ids: by side.
        facts: flat fingerprints by side.
    """
    pairs, by_factor = [], dict[str, list[Rate]]()
    for column, (i, j) in enumerate(combinations(range(len(run_ids)), 2), start=1):
        rate = rate_of(sums, column, 0)
        factors = differing_factors(facts[i], facts[j])
        low, high = rate.interval()
        pairs.append(
            PairFlips(
                first=run_ids[i],
                second=run_ids[j],
                factors=factors,
                pairs=int(rate.total),
                flips=int(rate.count),
                rate=rate.value if rate.total else 0.0,
                low=low,
                high=high,
            )
        )
        if len(factors) <= 1 and rate.total:
            by_factor.setdefault(factors[0] if factors else REPEAT, []).append(rate)
    rates = {factor: _mean(found) for factor, found in by_factor.items()}
    effects = [
        _effect(factor, by_factor[factor], rates[factor], rates.get(REPEAT)) for factor in rates
    ]
    strongest_first = sorted((f for f in rates if f != REPEAT), key=lambda f: (-rates[f].value, f))
    contrasts = [
        _contrast(first, second, rates) for first, second in combinations(strongest_first, 2)
    ]
    return Attribution(
        pairs=pairs,
        effects=sorted(effects, key=lambda e: -e.rate),
        contrasts=sorted(contrasts, key=lambda c: -c.difference),
    )


def _mean(rates: Sequence[Rate]) -> Rate:
    """Rate of a decision under a factor: all its pairs of runs are over the same decisions."""
    count = sum(r.count for r in rates) / len(rates)
    replicates = sum((r.replicates for r in rates[1:]), rates[0].replicates) / len(rates)
    return Rate(count, rates[0].total, rates[0].clusters, replicates)


def _effect(factor: str, found: Sequence[Rate], mean: Rate, repeat: Rate | None) -> FactorEffect:
    low, high = mean.interval()
    effect = FactorEffect(
        factor=factor,
        run_pairs=len(found),
        flips=int(sum(r.count for r in found)),
        pairs=int(sum(r.total for r in found)),
        rate=mean.value,
        low=low,
        high=high,
    )
    if repeat is not None and factor != REPEAT:
        effect.above_repeat = mean.value - repeat.value
        effect.above_repeat_low, effect.above_repeat_high = difference(mean, repeat)
    return effect


def _contrast(first: str, second: str, rates: Mapping[str, Rate]) -> FactorContrast:
    one, two = rates[first], rates[second]
    low, high = difference(one, two)
    return FactorContrast(
        first=first, second=second, difference=one.value - two.value, low=low, high=high
    )
