"""Rows of `decisions` and `option_probabilities`: what was decided, and the receipt for it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from engine.reads import ReadResult
from pipeline.deciding.planning import Case, PlanSettings
from pipeline.output.tables import DECISIONS
from rubrics.canvas import Canvas, Slot
from rubrics.compiler import CompiledRubric
from rubrics.encoding import ids_sha256
from rubrics.model import Question
from rubrics.scoring import Scored


def read_problem(canvas: Canvas, draws: Sequence[ReadResult]) -> str | None:
    """Why these draws cannot be scored, as `code: explanation`, or None."""
    for draw in draws:
        if draw.error is not None:
            return draw.error
        for slot in canvas.slots:
            found = draw.logprobs.get(slot.position, {})
            if not all(math.isfinite(found.get(label, math.nan)) for label in slot.label_ids):
                return (
                    f"no_probability: question {slot.question_id}: the engine gave no finite "
                    "probability for a label; run `onepass doctor`"
                )
    return None


def receipt(
    case: Case,
    canvas: Canvas,
    prompt_ids: tuple[int, ...],
    draws: Sequence[ReadResult],
    settings: PlanSettings,
    decided_at: datetime,
) -> dict[str, Any]:
    """The columns that say how a decision came about, shared by all questions of a canvas."""
    return {
        "draws": len(draws),
        "prompt_sha256": ids_sha256(prompt_ids),
        "canvas_sha256": canvas.sha256,
        "prompt_tokens": len(prompt_ids),
        "canvas_width": canvas.width,
        "dropped_tokens": case.dropped_tokens,
        "escaped_control_tokens": case.escaped_control_tokens,
        "single_pass": all(draw.single_pass for draw in draws),
        "batch_reads": max(draw.batch_reads for draw in draws),
        "seed": settings.seed,
        "decided_at": decided_at,
    }


def decided_rows(
    case: Case,
    compiled: CompiledRubric,
    question: Question,
    slot: Slot,
    scored: Scored,
    receipt: dict[str, Any],
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The decision row of one question and a row for each of its options."""
    keys = _keys(case, compiled, question)
    decision = question.options[scored.decision_index].name
    gold = case.gold.get(question.id)
    row = keys | {
        "conversation_group": case.conversation_group,
        "question_type": question.type,
        "decision": decision,
        "decision_index": scored.decision_index,
        "probability": scored.probability,
        "margin": scored.margin,
        "entropy_nats": scored.entropy_nats,
        "expected_score": scored.expected_score,
        "label_mass": scored.label_mass,
        "standard_error": scored.standard_error,
        "agreement": scored.agreement,
        "skipped_because": None,
        "gold": gold,
        "correct": None if gold is None else gold == decision,
        "dialect": compiled.dialect,
        **receipt,
    }
    options = [
        keys
        | {
            "option": option.name,
            "option_index": index,
            "label_token_id": slot.label_ids[index],
            "logprob": scored.logprobs[index],
            "probability": scored.probabilities[index],
            "is_decision": index == scored.decision_index,
        }
        for index, option in enumerate(question.options)
    ]
    return row, options


def skipped_row(
    case: Case, compiled: CompiledRubric, question: Question, because: str
) -> dict[str, Any]:
    """The decision row of a question that was not asked; it has no option rows."""
    row: dict[str, Any] = {column.name: None for column in DECISIONS.columns}
    return (
        row
        | _keys(case, compiled, question)
        | {
            "conversation_group": case.conversation_group,
            "question_type": question.type,
            "skipped_because": because,
            "gold": case.gold.get(question.id),
            "dialect": compiled.dialect,
        }
    )


def _keys(case: Case, compiled: CompiledRubric, question: Question) -> dict[str, Any]:
    return {
        "conversation_id": case.conversation_id,
        "rubric_id": compiled.rubric.id,
        "rubric_version": compiled.rubric.version,
        "question_id": question.id,
    }
