"""Conversations of which some run lacks a decision in a part: spilled, and joined again by id.

When runs were cut into different parts, a conversation lies in differently named parts. Such rows
are written to temporary Parquet files, one row group per bucket of conversations, and only the
addresses of the row groups are shuffled: a bucket's rows then meet in one place, on any runner,
without the shuffle carrying a row.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from pipeline import storage
from pipeline.diff.join import KEYS, Block, Rows
from pipeline.diff.units import Source
from pipeline.statistics.bootstrap import cluster_hash

BUCKET_DECISIONS = 20_000
"""Decisions of one run that a bucket holds on average when every row is left over."""


def bucket_count(decisions: int) -> int:
    """Buckets for runs of at most this many decisions."""
    return max(1, -(-decisions // BUCKET_DECISIONS))


def split(block: Block) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """(rows,) conversations of which every run has every decision, and the rest.

    A conversation stays whole: cut in two, it would count as two clusters.
    """
    lacking = np.zeros(len(block), np.bool_)
    for side in range(len(block.sides)):
        lacking |= ~block.has(side)
    conversation, names = block.codes("conversation_id")
    rest = np.bincount(conversation, weights=lacking, minlength=len(names))[conversation] > 0
    return ~rest, rest


def spill(
    block: Block, rows: NDArray[np.bool_], folder: str, unit: str, buckets: int
) -> Iterator[tuple[int, Source]]:
    """Write the block's `rows` under `folder`; yields (bucket, where it lies) per row group.

    A row is spilled with what every run holds for it, or not at all.
    """
    for side, held in enumerate(block.sides):
        places = block.places[side][rows & block.has(side)]
        if not len(places):
            continue
        decisions = held.decisions.take(pa.array(np.sort(places)))
        bucket_of = _buckets(decisions.column("conversation_id"), buckets)
        options = _options_of(held, decisions)
        option_buckets = _buckets(options.column("conversation_id"), buckets)
        source = Source(
            side,
            storage.join(folder, f"{unit}-{side}-decisions.parquet"),
            storage.join(folder, f"{unit}-{side}-options.parquet"),
        )
        present = [int(b) for b in np.unique(bucket_of)]
        _write_groups(source.decisions, decisions, bucket_of, present)
        _write_groups(source.options, options, option_buckets, present)
        for number, bucket in enumerate(present):
            yield bucket, replace(source, row_group=number)


def _options_of(held: Rows, decisions: pa.Table) -> pa.Table:
    keys = list(KEYS)
    return held.options.join(decisions.select(keys), keys=keys, join_type="left semi")


def _buckets(conversation_ids: pa.ChunkedArray, buckets: int) -> NDArray[np.int64]:
    encoded = conversation_ids.combine_chunks().dictionary_encode()
    by_code = np.array(
        [cluster_hash(name) % buckets for name in encoded.dictionary.to_pylist()], np.int64
    )
    return np.asarray(by_code[encoded.indices.to_numpy()], np.int64)


def _write_groups(
    path: str, table: pa.Table, bucket_of: NDArray[np.int64], buckets: list[int]
) -> None:
    sink = io.BytesIO()
    with pq.ParquetWriter(sink, table.schema, compression="zstd") as writer:
        for bucket in buckets:
            # Skipped questions have no options; their row group is written all the same.
            writer.write_table(table.filter(pa.array(bucket_of == bucket)))
    storage.write_atomic(path, sink.getvalue())
