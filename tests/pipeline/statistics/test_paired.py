from __future__ import annotations

import pytest
from scipy import stats

from pipeline.statistics.paired import benjamini_hochberg, mcnemar_exact


@pytest.mark.parametrize(
    ("fixes", "breaks", "p"), [(1, 9, 0.021), (2, 8, 0.109), (0, 6, 0.031), (6, 0, 0.031)]
)
def test_exact_mcnemar(fixes: int, breaks: int, p: float) -> None:
    found = mcnemar_exact(fixes, breaks)
    assert found.note is None
    assert found.p == pytest.approx(p, abs=5e-4)
    assert found.p == pytest.approx(stats.binomtest(fixes, fixes + breaks).pvalue)


@pytest.mark.parametrize(
    ("discordant", "smallest"), [(0, "1"), (2, "0.5"), (4, "0.125"), (5, "0.0625")]
)
def test_too_few_discordant_decisions_are_not_testable(discordant: int, smallest: str) -> None:
    found = mcnemar_exact(discordant, 0)
    assert found.p is None
    assert found.note is not None
    assert f"smallest reachable p {smallest} exceeds 0.05" in found.note


def test_published_benjamini_hochberg_example() -> None:
    """Benjamini and Hochberg (1995), 15 hypotheses of the myocardial infarction trial: the four
    smallest are rejected at 0.05, the fifth is not."""
    p = [
        0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344,
        0.0459, 0.3240, 0.4262, 0.5719, 0.6528, 0.7590, 1.0,
    ]  # fmt: skip
    adjusted = benjamini_hochberg(p)
    assert [a is not None and a <= 0.05 for a in adjusted] == [True] * 4 + [False] * 11
    assert adjusted[3] == pytest.approx(0.0095 * 15 / 4)


def test_untested_questions_do_not_count() -> None:
    assert benjamini_hochberg([0.04, None, 0.01]) == [
        pytest.approx(0.04),
        None,
        pytest.approx(0.02),
    ]
    assert benjamini_hochberg([None]) == [None]
