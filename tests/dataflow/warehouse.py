"""BigQuery's SQL on DuckDB: tables over an output folder, views and queries translated."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import sqlglot

from dataflow.bigquery.statements import VIEWS, Place, machine_prices_query, view_query
from pipeline.estimating.machines import load_machines
from pipeline.output.tables import PARTITION_KEYS, TABLES

PLACE = Place("d", "unused")
_TYPES = {"run_date": "DATE", "build": "VARCHAR", "run_id": "VARCHAR"}


class Warehouse:
    """A DuckDB connection holding the tables of `output` and all views, as schema `d`."""

    def __init__(self, output: str) -> None:
        self.connection = duckdb.connect()
        self.connection.execute("SET TimeZone = 'UTC'")
        self.connection.execute("CREATE SCHEMA d")
        for name in TABLES:
            if list(Path(output).glob(f"{name}/**/*.parquet")):
                self.connection.execute(f"CREATE VIEW d.{name} AS {_over_files(output, name)}")
        self._view("machine_prices", machine_prices_query(load_machines()))
        for name in VIEWS:
            self._view(name, view_query(PLACE, name))

    def _view(self, name: str, query: str) -> None:
        self.connection.execute(f"CREATE VIEW d.{name} AS {to_duckdb(query)}")

    def ask(self, query: str) -> pd.DataFrame:
        """A BigQuery SELECT's answer."""
        return self.connection.execute(to_duckdb(query.replace("${d}", "d"))).df()

    def rows(self, name: str) -> pd.DataFrame:
        return self.ask(f"SELECT * FROM `d.{name}`")


def to_duckdb(query: str) -> str:
    """Translated; raises when the translator does not know something."""
    (translated,) = sqlglot.transpile(
        query, read="bigquery", write="duckdb", unsupported_level=sqlglot.ErrorLevel.RAISE
    )
    return translated


def _over_files(output: str, name: str) -> str:
    types: dict[str, Any] = {key: _TYPES[key] for key, _ in PARTITION_KEYS}
    return (
        f"SELECT * FROM read_parquet('{output}/{name}/**/*.parquet', "
        f"hive_partitioning = true, hive_types = {types})"
    )
