"""Puts a comparison into the template."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import metadata, resources
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from pipeline.diff.gate import Check, met
from pipeline.diff.result import Comparison
from pipeline.report import decisions_view, plots, runs_view

ROLE_NAMES = {
    "baseline": "Baseline",
    "candidate": "Candidate",
    "noise": "Repeat",
    "fp32": "FP32",
    "other": "Other run",
}
_KIND_WORDS = {
    "substantive": "substantive flip",
    "flip": "flip",
    "near_tie": "near tie that flipped",
    "cascade": "flip behind another flip",
    "same": "unchanged (a sample)",
}


def render(comparison: Comparison, checks: Sequence[Check] = ()) -> str:
    """The report as one HTML document without references to anything outside it."""
    environment = Environment(
        loader=PackageLoader("pipeline.report", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
    )
    content: dict[str, Any] = {
        "comparison": comparison,
        "baseline": comparison.sides[0],
        "candidate": comparison.sides[1],
        "verdict": comparison.overall["verdict"],
        "reason": comparison.overall["verdict_reason"],
        "role_names": ROLE_NAMES,
        "checks": checks,
        "gate_met": met(list(checks)),
        "version": metadata.version("onepass"),
        # Both are our own files, not data.
        "style": Markup(_text("style.css")),
        "script": Markup(_text("script.js")),
        **_numbers(comparison),
        **_flips(comparison),
        **_pictures(comparison),
    }
    return environment.get_template("template.html").render(content)


def _text(name: str) -> str:
    return resources.files("pipeline.report").joinpath(name).read_text(encoding="utf-8")


def _numbers(comparison: Comparison) -> dict[str, Any]:
    questions, question_ticks = decisions_view.question_rows(comparison)
    effects, effect_ticks = runs_view.effects(comparison)
    gold = decisions_view.gold_rows(comparison)
    facts = runs_view.facts(comparison)
    differing = sum(fact.differs for fact in facts)
    return {
        "figures": decisions_view.figures(comparison),
        "one_sided": _one_sided(comparison.overall),
        # With few questions all are shown; of many, those without a flip fold away.
        "moved_questions": [q for q in questions if q.flips or q.overall or len(questions) <= 13],
        "still_questions": [
            q for q in questions if not (q.flips or q.overall or len(questions) <= 13)
        ],
        "question_ticks": question_ticks,
        "matrix": runs_view.matrix(comparison),
        "common": max((pair.pairs for pair in comparison.attribution.pairs), default=0),
        "effects": effects,
        "effect_ticks": effect_ticks,
        "contrasts": runs_view.contrasts(comparison),
        "gold": gold,
        "gold_left_out": sum(bool(q["gold_pairs"]) for q in comparison.questions)
        - max(len(gold) - 1, 0),
        "speed": runs_view.speed(comparison),
        "facts": facts,
        "facts_note": f"{differing} of {len(facts)} facts about the builds and machines differ."
        if differing
        else f"All {len(facts)} facts about the builds and machines are the same.",
    }


def _one_sided(overall: dict[str, Any]) -> str:
    parts = [
        f"{overall[f'{side}_only']:,} decisions are in the {side} only"
        for side in ("baseline", "candidate")
        if overall[f"{side}_only"]
    ]
    return "; ".join(parts) + ". They are listed in the table diffs." if parts else ""


def _flips(comparison: Comparison) -> dict[str, Any]:
    rows = decisions_view.flip_rows(comparison)
    return {
        "flips": rows,
        "flips_note": decisions_view.shown_note(rows, comparison.flips_total)
        if rows
        else "No decision differs.",
        "flip_questions": sorted({row["question"] for row in rows}),
        "flip_kinds": sorted({row["kind"] for row in rows}),
        "has_gold": any(row["correct"] for row in rows),
        "has_others": any(row["others"] for row in rows),
    }


def _pictures(comparison: Comparison) -> dict[str, Any]:
    scatter = plots.scatter(comparison)
    kinds = {mark.kind for mark in scatter.marks}
    counts = {kind: sum(mark.kind == kind for mark in scatter.marks) for kind in kinds}
    described = ", ".join(f"{counts[k]:,} {_KIND_WORDS[k]}" for k in _KIND_WORDS if k in kinds)
    calibration = [
        mark
        for kind, bins in zip(("baseline", "candidate"), comparison.calibration, strict=False)
        for mark in plots.calibration_marks(bins, kind)
    ]
    return {
        "scatter": scatter,
        "scatter_description": f"Marks: {described or 'none'}. Both axes are logarithmic.",
        "scatter_note": ""
        if scatter.threshold is not None
        else "Without a repeat or an fp32 run nothing says which margins are near ties.",
        "legend": [(kind, word) for kind, word in _KIND_WORDS.items() if kind in kinds],
        "calibration": calibration,
        "calibration_description": "; ".join(mark.title for mark in calibration),
        "unit_ticks": plots.UNIT_TICKS,
        "unit_ticks_down": plots.UNIT_TICKS_DOWN,
    }
