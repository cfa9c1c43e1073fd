"""DuckDB views over an output folder, local or remote.

Views cover complete runs and comparisons only, so one that is going on, or failed, never mixes in.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from pipeline import storage
from pipeline.output.comparisons import comparison_ids
from pipeline.output.runs import Run, list_runs
from pipeline.output.tables import PARTITION_KEYS, TABLES, Table

_RUN_TABLES = ("decisions", "option_probabilities", "errors", "runs")
_LATEST_TABLES = ("decisions", "option_probabilities", "errors")


def connect(output: str) -> duckdb.DuckDBPyConnection:
    """A database in memory with a view for every table, and `latest_…` for the newest run."""
    database = duckdb.connect()
    runs, comparisons = list_runs(output), set(comparison_ids(output))
    for table in TABLES.values():
        if table.name in _RUN_TABLES:
            files = [f for run in runs for f in run.files(table.name)]
        else:
            found = storage.find(storage.join(output, table.name, "*", "*", "*", "*.parquet"))
            files = [file for file in found if _partition(file, "run_id") in comparisons]
        _create_view(database, table.name, table, files)
    for name in _LATEST_TABLES:
        _create_view(database, f"latest_{name}", TABLES[name], _latest_files(runs, name))
    return database


def _latest_files(runs: Sequence[Run], table: str) -> list[str]:
    return runs[-1].files(table) if runs else []


def _create_view(
    database: duckdb.DuckDBPyConnection, name: str, table: Table, files: Sequence[str]
) -> None:
    if not files or any(storage.is_remote(file) for file in files):
        database.register(name, _in_memory(table, files))
        return
    paths = ", ".join("'" + file.replace("'", "''") + "'" for file in files)
    types = ", ".join(
        f"{key}: {'DATE' if type_ == pa.date32() else 'VARCHAR'}" for key, type_ in PARTITION_KEYS
    )
    database.sql(
        f"CREATE VIEW {name} AS SELECT * FROM read_parquet([{paths}], "
        # Files of an earlier release may lack a column.
        f"union_by_name = true, hive_partitioning = true, hive_types = {{{types}}})"
    )


def _in_memory(table: Table, files: Sequence[str]) -> pa.Table:
    """The files' rows with their partition keys; DuckDB itself cannot read from a bucket."""
    schema = pa.schema([*table.schema, *(pa.field(k, t) for k, t in PARTITION_KEYS)])
    parts = [schema.empty_table()]
    for file in files:
        rows = pq.read_table(io.BytesIO(storage.read_bytes(file)))
        for key, type_ in PARTITION_KEYS:
            value: Any = pa.scalar(_partition(file, key)).cast(type_)
            rows = rows.append_column(key, pa.repeat(value, rows.num_rows))
        parts.append(rows)
    return pa.concat_tables(parts, promote_options="permissive").select(schema.names)


def _partition(file: str, key: str) -> str:
    """Value of a partition key in a path.

    >>> _partition("out/decisions/run_date=2026-01-02/build=a/run_id=r/p.parquet", "build")
    'a'
    """
    return next(p.partition("=")[2] for p in file.split("/") if p.startswith(f"{key}="))
