"""DDL against the Parquet files column by column, and loading a run, executed on DuckDB."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import sqlglot
from sqlglot import exp
from typer.testing import CliRunner

from dataflow.bigquery.__main__ import app, rows_of
from dataflow.bigquery.statements import (
    VIEWS,
    Place,
    bigquery_type,
    external_table,
    load_run,
    native_table,
)
from pipeline.output.runs import find_run, list_runs
from pipeline.output.tables import PARTITION_KEYS, TABLES, Table
from tests.dataflow.sample_output import History, write_history
from tests.dataflow.warehouse import Warehouse, to_duckdb

# What BigQuery reads from a Parquet file's physical and logical type, from its documentation.
PARQUET_TO_BIGQUERY = {
    "BYTE_ARRAY String": "STRING",
    "INT64 None": "INT64",
    "DOUBLE None": "FLOAT64",
    "BOOLEAN None": "BOOL",
    "INT64 Timestamp": "TIMESTAMP",
}
WRITTEN = ("decisions", "option_probabilities", "errors", "runs")


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> History:
    return write_history(str(tmp_path_factory.mktemp("history")))


def ddl_columns(statement: str) -> list[tuple[str, str, bool]]:
    """(name, type, required) in order, from the column list of a CREATE TABLE."""
    body = statement[statement.index("(\n") + 2 : statement.index("\n)")]
    found = re.findall(r"^  (\w+) (\w+)( NOT NULL)?", body, re.M)
    return [(name, kind, bool(required)) for name, kind, required in found]


def file_columns(path: Path) -> list[tuple[str, str, bool]]:
    schema = pq.ParquetFile(path).schema
    return [
        (
            column.name,
            PARQUET_TO_BIGQUERY[f"{column.physical_type} {column.logical_type.type.title()}"],
            column.max_definition_level == 0,
        )
        for column in (schema.column(index) for index in range(len(schema)))
    ]


@pytest.mark.parametrize("name", WRITTEN)
def test_ddl_has_the_columns_of_the_files(name: str, history: History) -> None:
    place = Place("p.d", "gs://b/out")
    paths = list(Path(history.output).glob(f"{name}/**/*.parquet"))
    assert paths
    partition = [(key, bigquery_type(kind), True) for key, kind in PARTITION_KEYS]
    for path in paths:
        columns = file_columns(path)
        assert ddl_columns(native_table(place, TABLES[name])) == partition + columns
        external = ddl_columns(external_table(place, TABLES[name]))
        assert external == [(column, kind, False) for column, kind, _ in columns]
        keys = [part.split("=")[0] for part in path.parts if "=" in part]
        assert keys == [key for key, _ in PARTITION_KEYS]


@pytest.mark.parametrize("table", TABLES.values(), ids=lambda table: table.name)
def test_columns_are_ones_bigquery_accepts(table: Table) -> None:
    columns = [column.name for column in table.columns]
    names = [*columns, *(name for name, _ in PARTITION_KEYS)]
    assert len({name.lower() for name in names}) == len(names)
    reserved = ("_table_", "_file_", "_partition", "_row_timestamp", "__root__", "_colidentifier",
                "_change_")  # fmt: skip
    assert not [name for name in names if name.lower().startswith(reserved) or len(name) > 300]


def test_a_type_bigquery_would_read_otherwise_is_refused() -> None:
    with pytest.raises(KeyError):
        bigquery_type(pa.timestamp("ns", tz="UTC"))  # BigQuery loads nanoseconds as INT64


def test_external_tables_follow_the_layout() -> None:
    statement = external_table(Place("p.d", "gs://b/out/"), TABLES["decisions"])
    assert "uris = ['gs://b/out/decisions/*']" in statement
    assert "hive_partition_uri_prefix = 'gs://b/out/decisions'" in statement
    assert "WITH PARTITION COLUMNS (run_date DATE, build STRING, run_id STRING)" in statement


@pytest.mark.parametrize("table", TABLES.values(), ids=lambda table: table.name)
def test_native_tables_parse(table: Table) -> None:
    parsed = sqlglot.parse_one(
        native_table(Place("p.d", "gs://b/out"), table),
        read="bigquery",
    )
    assert isinstance(parsed, exp.Create)
    columns = [column.name for column in parsed.find_all(exp.ColumnDef)]
    clustering = parsed.find(exp.ClusterProperty)
    assert clustering is not None
    assert {column.name for column in clustering.expressions} <= set(columns)
    assert 1 <= len(clustering.expressions) <= 4


class Loaded:
    """Tables to load into, beside the tables over the files, in one DuckDB."""

    def __init__(self, output: str) -> None:
        self.source = Warehouse(output)
        self.connection = self.source.connection
        self.connection.execute("CREATE SCHEMA loaded")
        for name in WRITTEN:
            self.connection.execute(
                f"CREATE TABLE loaded.{name} AS SELECT * FROM d.{name} WHERE false"
            )

    def load(self, statements: str) -> None:
        """Runs the script; an ASSERT that does not hold rolls back and raises its message."""
        for statement in statements.strip().removesuffix(";").split(";\n"):
            if match := re.match(r"ASSERT (.*) = (\d+)\s+AS '(.*)'$", statement, re.S):
                (count,) = self.connection.execute(to_duckdb(f"SELECT {match[1]}")).fetchone() or ()
                if count != int(match[2]):
                    self.connection.execute("ROLLBACK")
                    raise AssertionError(match[3])
            else:
                self.connection.execute(to_duckdb(statement))

    def count(self, name: str) -> int:
        (count,) = self.connection.execute(f"SELECT COUNT(*) FROM loaded.{name}").fetchone() or (0,)
        return int(count)


def statements_for(history: History, run_id: str) -> str:
    run = find_run(history.output, run_id)
    return load_run(Place("loaded", history.output), Place("d", history.output), rows_of(run))


def test_loading_a_run_twice_is_loading_it_once(history: History) -> None:
    loaded = Loaded(history.output)
    script = statements_for(history, "2026-11-17-base")
    loaded.load(script)
    first = {name: loaded.count(name) for name in WRITTEN}
    loaded.load(script)
    assert {name: loaded.count(name) for name in WRITTEN} == first
    row = find_run(history.output, "2026-11-17-base").row
    assert first == {
        "decisions": row["decisions"],
        "option_probabilities": row["options"],
        "errors": row["errors"],
        "runs": 1,
    }
    loaded.load(statements_for(history, "2026-11-17-single_pass"))
    assert loaded.count("runs") == 2


def test_files_beside_the_manifest_are_noticed(tmp_path: Path) -> None:
    history = write_history(str(tmp_path))
    run = find_run(history.output, "2026-11-17-base")
    extra = Path(run.files("decisions")[0])
    extra.with_name("part-99999.parquet").write_bytes(extra.read_bytes())
    loaded = Loaded(history.output)
    with pytest.raises(AssertionError, match="decisions: the files of run 2026-11-17-base hold"):
        loaded.load(statements_for(history, "2026-11-17-base"))
    assert loaded.count("decisions") == 0


def test_the_commands_print_every_statement(history: History) -> None:
    runner = CliRunner()
    place = ["--dataset", "p.d", "--output", history.output]
    for flags, verb in (([], "CREATE OR REPLACE EXTERNAL TABLE"), (["--loaded"], "CREATE TABLE")):
        text = runner.invoke(app, ["create", *place, *flags]).output
        expected = len(TABLES) if flags else len(WRITTEN)
        assert len(re.findall(f"^{verb}", text, re.M)) == expected
        assert ("-- diffs: no files yet" in text) == (not flags)
        assert len(re.findall("^CREATE OR REPLACE VIEW", text, re.M)) == len(VIEWS) + 1
        assert "${" not in text
    text = runner.invoke(app, ["load", *place, "--from", "p.files"]).output
    assert text.count("BEGIN TRANSACTION") == len(list_runs(history.output)) == 7
    assert "'failed'" not in text
    one = runner.invoke(app, ["load", *place, "--from", "p.files", "--run-id", "nope"])
    assert one.exit_code == 1
    assert "no complete run nope" in one.output


def test_a_failed_run_has_a_manifest_but_is_not_loaded(history: History) -> None:
    manifest = json.loads((Path(history.output) / "_runs/failed/manifest.json").read_text())
    assert manifest["status"] == "failed"
    assert "failed" not in {run.run_id for run in list_runs(history.output)}


def test_duckdb_reads_the_partition_keys_as_bigquery_does(history: History) -> None:
    rows = Warehouse(history.output).rows("runs")
    assert str(rows.run_date.dtype).startswith("datetime64")
