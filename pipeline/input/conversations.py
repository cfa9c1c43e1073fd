"""Conversations, and what is said about records that are not one.

>>> Conversation("c1", (Message("user", "My head hurts."),), source="a.jsonl", record_index=0).id
'c1'
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Message:
    """One turn: who speaks (`user`, `assistant`, `system`, ...) and what is said."""

    role: str
    content: str


@dataclass(frozen=True, slots=True)
class Conversation:
    """One valid record of a shard.

    Attributes:
        id: unique within a run; `<source>#<record_index>` where the record states none.
        messages: at least one, not all blank; any text but NUL and lone surrogates.
        group: shared by conversations that are not independent of each other, where stated.
        metadata: the record's own, untouched.
        gold: question id -> name of the expected option, where the record states it.
        rubrics: ids of the rubrics that apply; None means all of the job's.
        source: shard, relative to the input.
        record_index: line (JSONL) or row (Parquet) of the shard, from 0.
    """

    id: str
    messages: tuple[Message, ...]
    group: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    gold: Mapping[str, str] = field(default_factory=dict)
    rubrics: tuple[str, ...] | None = None
    source: str = ""
    record_index: int = 0


@dataclass(frozen=True, slots=True)
class Rejected:
    """One row of the `errors` table.

    `message` says what is wrong and what to do; it never holds text of the conversation.
    `record_index` is None when the shard itself is bad; `stage` is `read`, `parse`, `plan` or
    `decide`.
    """

    source: str
    record_index: int | None
    conversation_id: str | None
    rubric_id: str | None
    stage: str
    code: str
    message: str
