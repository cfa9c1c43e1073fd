"""Conversations and compiled rubrics -> cases: what the engine will be asked. Pure functions.

A part is the unit of work: its records are planned, decided and written together, so its rows do
not depend on what other parts hold, on the runner, or on how often it is tried. From here on a
conversation is token ids, hashes and counts; its text stays behind.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from engine.builds import Build
from engine.reads import Read
from pipeline.input.conversations import Conversation, Rejected
from rubrics.canvas import Canvas
from rubrics.compiler import CompiledRubric
from rubrics.errors import PromptError
from rubrics.prompt import OnTooLong


@dataclass(frozen=True, slots=True)
class Case:
    """All reads of one conversation under one rubric.

    Attributes:
        source, record_index: where the conversation came from, for error rows.
        conversation_group: as the conversation states it.
        gold: question id -> expected option.
        prompt_ids: prompt of the first stage; later stages extend it with answers.
        conversation_sha256: of the conversation's own ids; keys the noise of its canvases.
        dropped_tokens: conversation tokens cut by `on_too_long`.
        escaped_control_tokens: look-alikes of control tokens in the text.
    """

    source: str
    record_index: int
    conversation_id: str
    conversation_group: str | None
    rubric_id: str
    gold: Mapping[str, str]
    prompt_ids: tuple[int, ...]
    conversation_sha256: str
    dropped_tokens: int
    escaped_control_tokens: int


@dataclass(frozen=True)
class PlannedPart:
    """A part ready for the engine.

    Attributes:
        part: name of the part, also of its files.
        digest: of everything its rows follow from, apart from the engine.
        cases: by rubric, then in record order, so that reads sharing a prefix are neighbours.
        rejected: error rows known before the engine is asked.
        counts: records, conversations, rejected_records, shard_errors, cases.
    """

    part: str
    digest: str
    cases: tuple[Case, ...] = field(repr=False)
    rejected: tuple[Rejected, ...] = field(repr=False)
    counts: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class PlanSettings:
    """How a job turns conversations into reads."""

    samples: int
    seed: int
    on_too_long: OnTooLong
    max_model_len: int


def plan_part(
    part: str,
    digest: str,
    records: Iterable[Conversation | Rejected],
    rubrics: Mapping[str, CompiledRubric],
    settings: PlanSettings,
) -> PlannedPart:
    """Plan every record of a part under every rubric that applies to it."""
    rejected: list[Rejected] = []
    cases: list[Case] = []
    counts = dict.fromkeys(
        ("records", "conversations", "rejected_records", "shard_errors", "cases"), 0
    )
    for record in records:
        if isinstance(record, Rejected):
            about_record = record.record_index is not None
            counts["rejected_records" if about_record else "shard_errors"] += 1
            counts["records"] += about_record
            rejected.append(record)
            continue
        counts["records"] += 1
        counts["conversations"] += 1
        for rubric_id in record.rubrics or tuple(rubrics):
            counts["cases"] += 1
            planned = plan_case(record, rubrics[rubric_id], settings)
            if isinstance(planned, Case):
                cases.append(planned)
            else:
                rejected.append(planned)
    cases.sort(key=lambda c: (c.rubric_id, c.record_index))
    return PlannedPart(part, digest, tuple(cases), tuple(rejected), counts)


def plan_case(
    conversation: Conversation, compiled: CompiledRubric, settings: PlanSettings
) -> Case | Rejected:
    """One conversation under one rubric, or why its prompt cannot be made."""

    def rejected(code: str, message: str) -> Rejected:
        place = (conversation.source, conversation.record_index, conversation.id)
        return Rejected(*place, compiled.rubric.id, "plan", code, message)

    gold = {}
    for question in compiled.rubric.questions:
        name = conversation.gold.get(question.id)
        if name is None:
            continue
        index = question.find(name)
        if index is None:
            return rejected(
                "unknown_gold", f"gold of question {question.id} names none of its options"
            )
        gold[question.id] = question.options[index].name
    limit = prompt_limit(compiled, settings.max_model_len)
    try:
        prompt = compiled.prompt(
            conversation.messages, max_tokens=limit, on_too_long=settings.on_too_long
        )
    except PromptError as error:
        return rejected(error.code, str(error))
    return Case(
        source=conversation.source,
        record_index=conversation.record_index,
        conversation_id=conversation.id,
        conversation_group=conversation.group,
        rubric_id=compiled.rubric.id,
        gold=gold,
        prompt_ids=prompt.ids,
        conversation_sha256=prompt.conversation_ids_sha256,
        dropped_tokens=prompt.dropped_tokens,
        escaped_control_tokens=prompt.escaped_control_tokens,
    )


def prompt_limit(compiled: CompiledRubric, max_model_len: int) -> int:
    """Most tokens a prompt may have, answers of earlier stages included, so that every canvas
    fits behind it."""
    return max_model_len - max(canvas.width for canvas in compiled.canvases)


def case_reads(
    case: Case,
    index: int,
    canvases: Sequence[Canvas],
    prompt_ids: tuple[int, ...],
    settings: PlanSettings,
    vocab_size: int,
    cache_group: str,
) -> list[Read]:
    """The reads of one stage of a case: every canvas, every draw. `index` makes ids unique."""
    return [
        Read(
            read_id=f"{index}/{number}/{draw}",
            prompt_ids=prompt_ids,
            canvas_ids=canvas.seeded(settings.seed, case.conversation_sha256, draw, vocab_size),
            slots=tuple(slot.position for slot in canvas.slots),
            label_ids=canvas.label_ids,
            cache_group=cache_group,
        )
        for number, canvas in enumerate(canvases)
        for draw in range(settings.samples)
    ]


def job_settings(
    build: Build, rubrics: Iterable[Any], dialect: str, settings: PlanSettings
) -> dict[str, Any]:
    """Everything in a job and its build that can move a decision, JSON-serialisable.

    The build's name is left out: renaming a build changes nothing.
    """
    return {
        "build": build.model_dump(mode="json", exclude={"name"}),
        "rubrics": [rubric.model_dump(mode="json") for rubric in rubrics],
        "dialect": dialect,
        "samples": settings.samples,
        "seed": settings.seed,
        "on_too_long": settings.on_too_long,
    }
