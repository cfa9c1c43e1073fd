"""Parts: the blocks of records that are read, written and resumed as one.

A part is a block of at most `records_per_part` consecutive lines or rows of one shard. Parts
depend on the input alone, so an interrupted run and its continuation agree about them.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from pipeline.input.conversations import Conversation, Rejected
from pipeline.input.records import BadRecord
from pipeline.input.shards import RawRecord, Shard, ShardProblem, row_bytes


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """Where a record stands; places in order decide which of several equal ids counts."""

    source: str
    record_index: int


@dataclass(frozen=True, slots=True)
class Part:
    """A block of a shard's records, and the unit of output and of resuming.

    Attributes:
        shard: where it comes from.
        index: its number in the shard, from 0.
        start: line or row of its first record; `offset` is that line's first byte.
        records: records in it; each comes out once, as Conversation or Rejected.
        problems: 1 when the shard itself breaks in this part, which is one more Rejected, with
            no record index.
        content_sha256: of its records.
        duplicates: record index -> place of the record that has the same id and comes first.
        whole: False when a limit cut it short.
    """

    shard: Shard
    index: int
    start: int
    offset: int
    records: int = 0
    problems: int = 0
    content_sha256: str = ""
    duplicates: tuple[tuple[int, Place], ...] = ()
    whole: bool = True

    @property
    def key(self) -> str:
        """Names the part within its run, e.g. `2026/a.jsonl#00003`."""
        return f"{self.shard.name}#{self.index:05d}"

    @property
    def file_stem(self) -> str:
        """Names the part's files: readable, safe on any file system, distinct for distinct keys."""
        readable = re.sub(r"[^A-Za-z0-9]+", "-", self.shard.name).strip("-")[-60:]
        distinct = hashlib.sha256(self.shard.name.encode()).hexdigest()[:12]
        return f"part-{readable}-{distinct}-{self.index:05d}"

    @property
    def digest(self) -> str:
        """SHA-256 of everything about the part that its rows can follow from."""
        facts = (self.key, self.content_sha256, self.records, self.problems, self.duplicates)
        return hashlib.sha256(repr(facts).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class PartRecords:
    """What a part holds: its records in order, then what is wrong with the shard, if anything."""

    part: Part
    records: tuple[Conversation | Rejected, ...]


class ContentHash:
    """SHA-256 over what a part's records say and where they are."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()

    def add(self, item: RawRecord | ShardProblem) -> None:
        if isinstance(item, ShardProblem):
            data = item.code.encode()
        elif isinstance(item.value, bytes):
            data = item.value
        elif isinstance(item.value, BadRecord):
            data = item.value.code.encode()
        else:
            data = row_bytes(item.value)
        index = "end" if isinstance(item, ShardProblem) else item.index
        self._hash.update(f"{index}:{len(data)}:".encode() + data)

    def hexdigest(self) -> str:
        return self._hash.hexdigest()


def first_records(parts: Iterable[Part], limit: int) -> Iterator[Part]:
    """The parts that hold the first `limit` records of the input, the last one cut to fit."""
    for part in sorted(parts, key=lambda part: (part.shard.name, part.index)):
        if not limit:
            return
        if part.records > limit:
            part = replace(part, records=limit, problems=0, whole=False)
        limit -= part.records
        yield part
