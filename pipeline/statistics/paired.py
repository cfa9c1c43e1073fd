"""Paired tests of correctness, and correction for testing many questions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from statsmodels.stats.contingency_tables import mcnemar
from statsmodels.stats.multitest import multipletests

ALPHA = 0.05


@dataclass(frozen=True, slots=True)
class McNemar:
    """Outcome of an exact McNemar test: a p-value, or why there cannot be one."""

    p: float | None
    note: str | None


def mcnemar_exact(fixes: int, breaks: int) -> McNemar:
    """Exact two-sided McNemar test over the decisions that became right or wrong.

    With n such decisions the smallest p any split can reach is 2 x 0.5^n; when that exceeds
    `ALPHA`, "not significant" is certain beforehand and no p-value is given.

    >>> mcnemar_exact(0, 2).note
    'not testable: 2 discordant, smallest reachable p 0.5 exceeds 0.05'
    >>> round(mcnemar_exact(1, 9).p, 3)
    0.021
    """
    discordant = fixes + breaks
    smallest = min(1.0, 2 * 0.5**discordant)
    if smallest > ALPHA:
        note = (
            f"not testable: {discordant} discordant, smallest reachable p {smallest:.3g} "
            f"exceeds {ALPHA:g}"
        )
        return McNemar(None, note)
    return McNemar(float(mcnemar([[0, fixes], [breaks, 0]], exact=True).pvalue), None)


def benjamini_hochberg(p_values: Sequence[float | None]) -> list[float | None]:
    """Adjusted p-values over those that were tested; None stays None and is not counted."""
    tested = [p for p in p_values if p is not None]
    if not tested:
        return list(p_values)
    adjusted = iter(multipletests(tested, method="fdr_bh")[1])
    return [None if p is None else float(next(adjusted)) for p in p_values]
