"""How the report writes numbers and names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def signed(value: float, style: str) -> str:
    """A difference with its sign, a real minus included."""
    return format(value, f"+{style}").replace("-", "\N{MINUS SIGN}")


def percent(value: float | None) -> str:
    """A rate; a dash where there is none."""
    return "–" if value is None else f"{value:.2%}"


def number(value: float | None) -> str:
    """Three decimals; a dash where there is none."""
    return "–" if value is None else f"{value:.3f}"


def name_of(row: Mapping[str, Any]) -> str:
    """A question with its rubric."""
    return f"{row['rubric_id']}/{row['question_id']}"
