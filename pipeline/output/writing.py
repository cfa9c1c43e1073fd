"""Rows to Parquet, one file per table and part, then the part's marker.

A part's files depend on its rows alone: sorted by the table's keys, one row group, no metadata
that varies. A retry or a resumed run overwrites a part with the same content.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline import storage
from pipeline.output.runs import RunKey
from pipeline.output.tables import TABLES, Table

PART_TABLES = ("decisions", "option_probabilities", "errors")
"""Tables every part writes, even when it has no rows for one: a missing file is a lost file."""

Row = Mapping[str, Any]


@dataclass(frozen=True)
class TableFile:
    """One written file; `path` is relative to the output folder."""

    table: str
    path: str
    rows: int
    bytes: int
    sha256: str


@dataclass(frozen=True)
class PartMarker:
    """Proof that a part's tables are whole.

    Attributes:
        part: name of the part, also of its files.
        digest: of everything its rows follow from; equal digests mean equal rows.
        files: one per table of `PART_TABLES`.
        counts: records, conversations, cases, decided_cases, ... of the part.
        engine: counters of the reads spent on it, by name of `EngineCounters`.
        engine_fingerprint: what the engine said about itself; empty when it was not asked.
        copied_from: run id the part was taken over from.
    """

    part: str
    digest: str
    files: tuple[TableFile, ...]
    counts: Mapping[str, int]
    engine: Mapping[str, float]
    engine_fingerprint: Mapping[str, Any] = field(default_factory=dict)
    copied_from: str | None = None


def encode(table: Table, rows: Sequence[Row]) -> bytes:
    """Rows as one Parquet file, zstd, sorted by the table's keys.

    Raises `ValueError` when a row lacks a column, has one too many, misses a required
    value, or has a fraction in a column of integers.
    """
    names = [c.name for c in table.columns]
    expected = set(names)
    for row in rows:
        if row.keys() != expected:
            odd = sorted(row.keys() ^ expected)
            raise ValueError(f"table {table.name}: a row lacks or adds the columns {odd}")
    keys = [k for k in table.keys if k in expected]  # partition keys are in the path only
    ordered = sorted(rows, key=lambda row: tuple(_nulls_first(row[k]) for k in keys))
    arrow = pa.Table.from_pylist([dict(row) for row in ordered], schema=table.schema)
    for column in table.columns:
        if column.type == pa.int64() and any(isinstance(row[column.name], float) for row in rows):
            # Arrow would cut 1.5 to 1 without a word.
            raise ValueError(f"table {table.name}: column {column.name} holds a fraction")
        if not column.nullable and arrow.column(column.name).null_count:
            raise ValueError(f"table {table.name}: column {column.name} misses a value")
    return parquet(arrow)


def parquet(rows: pa.Table) -> bytes:
    """A Parquet file of these rows: zstd, one row group, no metadata that varies."""
    sink = io.BytesIO()
    pq.write_table(
        rows, sink, compression="zstd", row_group_size=max(1, rows.num_rows), store_schema=False
    )
    return sink.getvalue()


def write_table(output: str, key: RunKey, table: str, part: str, rows: Sequence[Row]) -> TableFile:
    """Write one part of one table and describe the file."""
    data = encode(TABLES[table], rows)
    path = key.table_path(output, table, part)
    storage.write_atomic(path, data)
    return describe(output, table, path, len(rows), data)


def describe(output: str, table: str, path: str, rows: int, data: bytes) -> TableFile:
    """The `TableFile` of a file with this content."""
    relative = path.removeprefix(output.rstrip("/") + "/")
    return TableFile(table, relative, rows, len(data), hashlib.sha256(data).hexdigest())


def write_marker(output: str, key: RunKey, marker: PartMarker) -> None:
    """Declare a part whole; call it after all of its tables are written."""
    path = key.record_path(output, "parts", f"{marker.part}.json")
    storage.write_atomic(path, to_json(asdict(marker)))


def read_marker(output: str, key: RunKey, part: str) -> PartMarker | None:
    """The marker of a part, or None when the part is not whole."""
    try:
        data = json.loads(storage.read_bytes(key.record_path(output, "parts", f"{part}.json")))
    except FileNotFoundError:
        return None
    files = tuple(TableFile(**f) for f in data.pop("files"))
    return PartMarker(files=files, **data)


def to_json(value: Any) -> bytes:
    """JSON with sorted keys: the same value always has the same bytes."""
    return json.dumps(value, sort_keys=True, indent=1, ensure_ascii=False).encode()


def _nulls_first(value: Any) -> tuple[bool, Any]:
    return (value is not None, value if value is not None else 0)
