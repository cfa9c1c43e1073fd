"""ReadConversations: shards -> Conversation | Rejected, in parts that can be resumed.

Shards are read twice. The first pass divides them into parts and collects ids, so that duplicates
are known; the second gives the records of the parts that are to be computed. Text of conversations
is never shuffled in between, and a part that is skipped costs one scan.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any, NamedTuple

import apache_beam as beam
from apache_beam.metrics import Metrics

from pipeline.conversations import Conversation, Rejected
from pipeline.parts import ContentHash, Part, Place, first_records
from pipeline.records import parse_record
from pipeline.shards import RawRecord, Shard, ShardProblem, match_shards, read_records

RECORDS_PER_PART = 1000


class InputChangedError(RuntimeError):
    """A shard changed while the run was reading it."""


class Records(NamedTuple):
    """What ReadConversations gives.

    Attributes:
        parts: every Part of the input, skipped or not.
        conversations: (part key, Conversation).
        rejected: (part key, Rejected), stages `read` and `parse`.
    """

    parts: Any
    conversations: Any
    rejected: Any


class ReadConversations(beam.PTransform):  # type: ignore[misc]
    """Root transform: the shards that `patterns` match -> Records.

    Args:
        patterns: files or globs, local or `gs://`.
        records_per_part: lines or rows per part.
        limit: read only the first records of the input, by shard name and place.
        rubric_ids: when given, the only ids a record's `rubrics` may name.
        skip: parts for which this is true are not read; runs on the workers.

    Raises InputError at once, before anything starts, when a pattern matches no shard.
    """

    def __init__(
        self,
        patterns: Sequence[str],
        *,
        records_per_part: int = RECORDS_PER_PART,
        limit: int | None = None,
        rubric_ids: Iterable[str] | None = None,
        skip: Callable[[Part], bool] | None = None,
    ) -> None:
        super().__init__()
        match_shards(patterns)
        self._patterns = tuple(patterns)
        self._records_per_part = records_per_part
        self._limit = limit
        self._rubric_ids = None if rubric_ids is None else frozenset(rubric_ids)
        self._skip = skip

    def expand(self, pbegin: Any) -> Records:
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
            {"part": divided.parts | beam.Map(lambda part: (part.key, part)), "twice": duplicates}
            | "ByPart" >> beam.CoGroupByKey()
            | "Mark" >> beam.MapTuple(_with_duplicates)
        )
        if (limit := self._limit) is not None:
            parts = (
                parts
                | beam.Map(lambda part: (None, part))
                | "Gather" >> beam.GroupByKey()
                | "Limit" >> beam.FlatMapTuple(lambda _, found: first_records(found, limit))
            )
        wanted = (
            parts if (skip := self._skip) is None else parts | beam.Filter(lambda p: not skip(p))
        )
        records = (
            wanted
            | beam.Map(lambda part: (part.key if part.shard.seekable else part.shard.name, part))
            | "SpreadParts" >> beam.GroupByKey()
            | "Read"
            >> beam.ParDo(_ReadParts(self._rubric_ids)).with_outputs(
                "rejected", main="conversations"
            )
        )
        return Records(parts, records.conversations, records.rejected)


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
    """(key, parts of one shard) -> (part key, Conversation), and Rejected on output `rejected`."""

    def __init__(self, rubric_ids: frozenset[str] | None) -> None:
        self._rubric_ids = rubric_ids

    def process(self, group: tuple[str, Iterable[Part]]) -> Iterator[Any]:
        parts = sorted(group[1], key=lambda part: part.index)
        first = parts[0]
        entry = (first.start, first.offset) if first.shard.seekable else (0, 0)
        with closing(read_records(first.shard, *entry)) as items:
            for part in parts:
                yield from self._read(part, items)

    def _read(self, part: Part, items: Iterable[RawRecord | ShardProblem]) -> Iterator[Any]:
        content = ContentHash()
        duplicates = dict(part.duplicates)
        missing = part.records + part.problems
        for item in items if missing else ():
            if isinstance(item, ShardProblem):
                content.add(item)
                found: Conversation | Rejected = Rejected(
                    part.shard.name, item.record_index, None, None, "read", item.code, item.message
                )
            elif item.index < part.start:
                continue
            else:
                content.add(item)
                found = parse_record(item.value, part.shard.name, item.index, self._rubric_ids)
                if isinstance(found, Conversation) and item.index in duplicates:
                    found = _duplicate(found, duplicates[item.index])
            yield _counted(part.key, found)
            missing -= 1
            if not missing:
                break
        if missing or (part.whole and content.hexdigest() != part.content_sha256):
            raise InputChangedError(
                f"{part.shard.path} changed while it was read; run again when it is complete"
            )


def _duplicate(conversation: Conversation, first: Place) -> Rejected:
    return Rejected(
        conversation.source,
        conversation.record_index,
        conversation.id,
        None,
        "parse",
        "duplicate_id",
        f"record {first.record_index} of {first.source} has this id already; make ids unique",
    )


def _counted(key: str, found: Conversation | Rejected) -> Any:
    if isinstance(found, Conversation):
        Metrics.counter("onepass", "conversations").inc()
        return key, found
    Metrics.counter("onepass", f"rejected_{found.code}").inc()
    return beam.pvalue.TaggedOutput("rejected", (key, found))
