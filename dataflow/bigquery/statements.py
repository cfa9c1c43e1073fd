"""BigQuery statements, derived from `pipeline.output.tables`: tables over the files, tables
loaded from them, views on either.

Both kinds of table have the same names and columns, so every view and every question works on a
dataset of either kind. Tables over files show what is in the bucket now, also while a run writes;
loaded tables are snapshots of complete runs, partitioned and clustered. Views read complete runs
only, on both kinds: those with a row in `runs`.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files
from string import Template

import pyarrow as pa

from pipeline.estimating.machines import Machines
from pipeline.output.tables import OPTION_PROBABILITIES, PARTITION_KEYS, TABLES, Column, Table

_TYPES = {
    pa.string(): "STRING",
    pa.int64(): "INT64",
    pa.float64(): "FLOAT64",
    pa.bool_(): "BOOL",
    pa.date32(): "DATE",
    pa.timestamp("us", tz="UTC"): "TIMESTAMP",
}
_PARTITION_NAMES = [name for name, _ in PARTITION_KEYS]
_CLUSTER_KEYS = ("build", "run_id", "rubric_id", "question_id")  # BigQuery takes four at most
_DATE_REQUIRED = (OPTION_PROBABILITIES,)  # the largest; no view reads it
VIEWS = (
    "latest_runs",
    "latest_decisions",
    "build_pairs",
    "paired_decisions",
    "flips",
    "agreement_by_week",
    "answer_mix",
    "answer_drift",
    "calibration",
    "error_rates",
    "throughput",
)
"""In the order in which they build on each other."""


@dataclass(frozen=True)
class Place:
    """Where the tables are: `dataset` as `project.dataset`, `output` as the run's gs:// folder."""

    dataset: str
    output: str

    def name(self, table: str) -> str:
        return f"`{self.dataset}.{table}`"


def bigquery_type(kind: pa.DataType) -> str:
    """The column type a Parquet column of this type becomes; raises KeyError for others."""
    return _TYPES[kind]


def external_table(place: Place, table: Table) -> str:
    """A table over the files as they are."""
    columns = ",\n".join(f"  {c.name} {bigquery_type(c.type)}" for c in table.columns)
    prefix = f"{place.output.rstrip('/')}/{table.name}"
    return f"""\
CREATE OR REPLACE EXTERNAL TABLE {place.name(table.name)} (
{columns}
)
WITH PARTITION COLUMNS ({_partition_columns()})
OPTIONS (
  format = 'PARQUET',
  uris = ['{prefix}/*'],
  hive_partition_uri_prefix = '{prefix}',
  require_hive_partition_filter = {"true" if table in _DATE_REQUIRED else "false"},
  description = {_text(table.description)}
);
"""


def native_table(place: Place, table: Table) -> str:
    """A table that runs are loaded into: partitioned by date, clustered by build and question."""
    names = {*_PARTITION_NAMES, *(c.name for c in table.columns)}
    clustering = ", ".join(key for key in _CLUSTER_KEYS if key in names)
    partition = [Column(name, kind, "from the file's path", False) for name, kind in PARTITION_KEYS]
    columns = ",\n".join(_native_column(c) for c in (*partition, *table.columns))
    return f"""\
CREATE TABLE IF NOT EXISTS {place.name(table.name)} (
{columns}
)
PARTITION BY run_date
CLUSTER BY {clustering}
OPTIONS (description = {_text(table.description)});
"""


def load_run(place: Place, source: Place, run: RunRows) -> str:
    """Copy one complete run from the tables over files (`source`) into the loaded ones (`place`).

    One transaction: what an earlier load of the run left goes, its rows come, and their number
    must be the one the run's manifest states; otherwise nothing changes. Loading twice is loading
    once.
    """
    where = (
        f"run_date = DATE '{run.run_date}' AND build = {_text(run.build)} "
        f"AND run_id = {_text(run.run_id)}"
    )
    steps = []
    for name, rows in run.rows.items():
        columns = ", ".join([*_PARTITION_NAMES, *(c.name for c in TABLES[name].columns)])
        steps.append(f"""\
DELETE FROM {place.name(name)} WHERE {where};
INSERT INTO {place.name(name)} ({columns})
SELECT {columns} FROM {source.name(name)} WHERE {where};
ASSERT (SELECT COUNT(*) FROM {place.name(name)} WHERE {where}) = {rows}
  AS {_text(f"{name}: the files of run {run.run_id} hold other rows than its manifest states")};
""")
    return "BEGIN TRANSACTION;\n" + "".join(steps) + "COMMIT TRANSACTION;\n"


@dataclass(frozen=True)
class RunRows:
    """A complete run and how many rows its manifest states per table."""

    run_date: str
    build: str
    run_id: str
    rows: dict[str, int]


def view(place: Place, name: str) -> str:
    """One view of `VIEWS`."""
    return f"CREATE OR REPLACE VIEW {place.name(name)} AS\n{view_query(place, name)};\n"


def view_query(place: Place, name: str) -> str:
    """The SELECT of a view."""
    text = files(__package__).joinpath("views", f"{name}.sql").read_text(encoding="utf-8")
    return Template(text).substitute(d=place.dataset).strip()


def machine_prices(place: Place, machines: Machines) -> str:
    """The view `machine_prices`: Dataflow's dollars per hour and machine type."""
    return (
        f"CREATE OR REPLACE VIEW {place.name('machine_prices')} AS\n"
        f"{machine_prices_query(machines)};\n"
    )


def machine_prices_query(machines: Machines) -> str:
    """The SELECT of `machine_prices`, one row per machine of machines.yaml."""
    return "\nUNION ALL ".join(
        f"SELECT {_text(name)} AS machine_type, "
        f"{machines.dollars_per_hour(name):.6f} AS dollars_per_hour"
        for name in sorted(machines.machines)
    )


def _native_column(column: Column) -> str:
    null = "" if column.nullable else " NOT NULL"
    options = f" OPTIONS (description = {_text(column.description)})" if column.description else ""
    return f"  {column.name} {bigquery_type(column.type)}{null}{options}"


def _partition_columns() -> str:
    return ", ".join(f"{name} {bigquery_type(kind)}" for name, kind in PARTITION_KEYS)


def _text(value: str) -> str:
    """A BigQuery string literal."""
    escaped = value.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n")
    return f"'{escaped}'"
