"""Shards -> parts -> the conversations in them.

Shards are read twice. The first pass (`FindParts`) divides them into parts and collects ids, so
that duplicates are known; the second (`ReadParts`) gives the records of the parts that are to be
computed. Text of conversations is never shuffled in between, and a part that an earlier run
finished costs one scan.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any

import apache_beam as beam
from apache_beam.metrics import Metrics

from pipeline.input.conversations import Conversation, Rejected
from pipeline.input.parts import ContentHash, Part, PartRecords, Place, first_records
from pipeline.input.records import parse_record
from pipeline.input.shards import RawRecord, Shard, ShardProblem, match_shards, read_records

RECORDS_PER_PART = 1000
PARTS_PER_PASS = 8
"""Parts of a compressed shard that are read, and with it decided, one after the other."""


class InputChangedError(RuntimeError):
    """A shard changed while the run was reading it."""


class FindParts(beam.PTransform):  # type: ignore[misc]
    """Root transform: the shards that `patterns` match -> every Part of them.

    Args:
        patterns: files or globs, local or `gs://`.
        records_per_part: lines or rows per part.
        limit: only the first records of the input, by shard name and place.
        rubric_ids: when given, the only ids a record's `rubrics` may name.

    Raises InputError at once, before anything starts, when a pattern matches no shard.
    """

    def __init__(
        self,
        patterns: Sequence[str],
        *,
        records_per_part: int = RECORDS_PER_PART,
        limit: int | None = None,
        rubric_ids: Iterable[str] | None = None,
    ) -> None:
        super().__init__()
        match_shards(patterns)
        self._patterns = tuple(patterns)
        self._records_per_part = records_per_part
        self._limit = limit
        self._rubric_ids = None if rubric_ids is None else frozenset(rubric_ids)

    def expand(self, pbegin: Any) -> Any:
        divided = (
            pbegin
            | "Patterns" >> beam.Create([self._patterns])
            | "Match" >> beam.FlatMap(match_shards)
            | "SpreadShards" >> beam.Reshuffle()
            | "Divide"
            >> beam.ParDo(
                _DivideShard(self._records_per_part, self._limit, self._rubric_ids)
            ).with_outputs("ids", main="parts")
        )
        duplicates = (
            divided.ids
            | "ById" >> beam.GroupByKey()
            | "Duplicates" >> beam.FlatMapTuple(_find_duplicates)
        )
        parts = (
            {
                "part": divided.parts | "KeyParts" >> beam.Map(lambda part: (part.key, part)),
                "twice": duplicates,
            }
            | "ByPart" >> beam.CoGroupByKey()
            | "Mark" >> beam.MapTuple(_with_duplicates)
        )
        if (limit := self._limit) is None:
            return parts
        return (
            parts
            | "Together" >> beam.Map(lambda part: (None, part))
            | "Gather" >> beam.GroupByKey()
            | "Limit" >> beam.FlatMapTuple(lambda _, found: first_records(found, limit))
        )


class ReadParts(beam.PTransform):  # type: ignore[misc]
    """Parts -> PartRecords."""

    def __init__(self, rubric_ids: Iterable[str] | None = None) -> None:
        super().__init__()
        self._rubric_ids = None if rubric_ids is None else frozenset(rubric_ids)

    def expand(self, parts: Any) -> Any:
        return (
            parts
            | "KeyPasses" >> beam.Map(lambda part: (_pass(part), part))
            | "SpreadParts" >> beam.GroupByKey()
            | "Read" >> beam.ParDo(_ReadParts(self._rubric_ids))
        )


def _pass(part: Part) -> str:
    """Names the pass over a shard that reads the part: its own, or one it shares with neighbours
    where a pass has to unpack everything before them."""
    if not part.shard.compressed:
        return part.key
    return f"{part.shard.name}#{part.index // PARTS_PER_PASS}"


class _DivideShard(beam.DoFn):  # type: ignore[misc]
    """Shard -> its Parts, and (id, (part key, Place)) of every valid record on output `ids`."""

    def __init__(
        self, records_per_part: int, limit: int | None, rubric_ids: frozenset[str] | None
    ) -> None:
        self._records_per_part = records_per_part
        self._limit = limit
        self._rubric_ids = rubric_ids

    def process(self, shard: Shard) -> Iterator[Any]:
        part: Part | None = None
        content = ContentHash()
        for records, item in enumerate(read_records(shard)):
            if isinstance(item, ShardProblem):
                part = replace(part or Part(shard, 0, 0, 0), problems=1)
                content.add(item)
                break
            if records == self._limit:
                break
            index = item.index // self._records_per_part
            if part is None or part.index != index:
                if part is not None:
                    yield replace(part, content_sha256=content.hexdigest())
                part = Part(shard, index, item.index, item.offset)
                content = ContentHash()
            part = replace(part, records=part.records + 1)
            content.add(item)
            found = parse_record(item.value, shard.name, item.index, self._rubric_ids)
            if isinstance(found, Conversation):
                place = (part.key, Place(shard.name, item.index))
                yield beam.pvalue.TaggedOutput("ids", (found.id, place))
        if part is not None:
            yield replace(part, content_sha256=content.hexdigest())


def _find_duplicates(
    _: str, places: Iterable[tuple[str, Place]]
) -> Iterator[tuple[str, tuple[int, Place]]]:
    """The places of one id -> (part key, (record index, first place)) for all but the first."""
    first = min(place for _, place in places)
    for key, place in places:
        if place != first:
            yield key, (place.record_index, first)


def _with_duplicates(_: str, found: dict[str, Iterable[Any]]) -> Part:
    part: Part
    (part,) = found["part"]
    return replace(part, duplicates=tuple(sorted(found["twice"])))


class _ReadParts(beam.DoFn):  # type: ignore[misc]
    """(key, parts of one shard) -> the PartRecords of each, in one pass over the shard."""

    def __init__(self, rubric_ids: frozenset[str] | None) -> None:
        self._rubric_ids = rubric_ids

    def process(self, group: tuple[str, Iterable[Part]]) -> Iterator[PartRecords]:
        parts = sorted(group[1], key=lambda part: part.index)
        first = parts[0]
        with closing(read_records(first.shard, first.start, first.offset)) as items:
            for part in parts:
                yield PartRecords(part, tuple(self._read(part, items)))

    def _read(
        self, part: Part, items: Iterable[RawRecord | ShardProblem]
    ) -> Iterator[Conversation | Rejected]:
        content = ContentHash()
        duplicates = dict(part.duplicates)
        missing = part.records + part.problems
        for item in items:
            if isinstance(item, RawRecord) and item.index < part.start:
                continue
            content.add(item)
            found = parse_item(item, part.shard, self._rubric_ids)
            if isinstance(found, Conversation) and found.record_index in duplicates:
                found = duplicate(found, duplicates[found.record_index])
            outcome = found.code if isinstance(found, Rejected) else "conversations"
            Metrics.counter("onepass.read", outcome).inc()
            yield found
            missing -= 1
            if not missing:
                break
        if missing or (part.whole and content.hexdigest() != part.content_sha256):
            raise InputChangedError(
                f"{part.shard.path} changed while it was read; run again when it is complete"
            )


def parse_item(
    item: RawRecord | ShardProblem, shard: Shard, rubric_ids: frozenset[str] | None
) -> Conversation | Rejected:
    """What a shard gave -> a Conversation, or its errors row."""
    if isinstance(item, ShardProblem):
        return Rejected(shard.name, None, None, None, "read", item.code, item.message)
    return parse_record(item.value, shard.name, item.index, rubric_ids)


def duplicate(conversation: Conversation, first: Place) -> Rejected:
    """The errors row of a conversation whose id the record at `first` has already."""
    return Rejected(
        conversation.source,
        conversation.record_index,
        conversation.id,
        None,
        "parse",
        "duplicate_id",
        f"record {first.record_index} of {first.source} has this id already; make ids unique",
    )
