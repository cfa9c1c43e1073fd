"""Chance-corrected agreement of two sets of decisions.

`table[i, j]` counts decisions that are option i in one run and j in the other; all options of the
question are rows and columns, whether chosen or not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from statsmodels.stats.inter_rater import cohens_kappa

Table = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Agreement:
    """`kappa` is None where chance alone explains full agreement (one option everywhere)."""

    observed: float
    kappa: float | None
    ac1: float | None


def agreement(table: Table) -> Agreement:
    """Cohen's kappa and Gwet's AC1 of one question.

    Kappa collapses when nearly every decision is the same option, however well the runs agree;
    AC1 does not. Both are given so that neither misleads alone.
    """
    total = int(table.sum())
    if total == 0:
        return Agreement(float("nan"), None, None)
    observed = float(np.trace(table) / total)
    kappa = None
    if _cohen_chance(table) < 1:
        kappa = float(cohens_kappa(table, return_results=False))
    return Agreement(observed, kappa, _corrected(observed, _gwet_chance(table)))


def pooled_agreement(tables: Sequence[Table]) -> Agreement:
    """Agreement over several questions: chance is each question's own, weighted by its pairs."""
    kept = [t for t in tables if t.sum() > 0]
    total = sum(int(t.sum()) for t in kept)
    if total == 0:
        return Agreement(float("nan"), None, None)
    observed = sum(float(np.trace(t)) for t in kept) / total
    cohen = sum(_cohen_chance(t) * float(t.sum()) for t in kept) / total
    gwet = sum(_gwet_chance(t) * float(t.sum()) for t in kept) / total
    return Agreement(observed, _corrected(observed, cohen), _corrected(observed, gwet))


def _corrected(observed: float, chance: float) -> float | None:
    return (observed - chance) / (1 - chance) if chance < 1 else None


def _cohen_chance(table: Table) -> float:
    total = float(table.sum())
    return float(table.sum(axis=0) @ table.sum(axis=1)) / total**2


def _gwet_chance(table: Table) -> float:
    """Gwet 2008: mean of both runs' shares per option, over (options - 1)."""
    options = table.shape[0]
    if options < 2:
        return 1.0
    share = (table.sum(axis=0) + table.sum(axis=1)) / (2 * float(table.sum()))
    return float((share * (1 - share)).sum() / (options - 1))
