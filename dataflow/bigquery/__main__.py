"""Prints the statements that create and load the tables: `python -m dataflow.bigquery --help`."""

from __future__ import annotations

from typing import Annotated

import typer

from dataflow.bigquery.statements import (
    VIEWS,
    Place,
    RunRows,
    external_table,
    load_run,
    machine_prices,
    native_table,
    view,
)
from pipeline import storage
from pipeline.estimating.machines import load_machines
from pipeline.output.runs import Run, list_runs
from pipeline.output.tables import DECISIONS, ERRORS, OPTION_PROBABILITIES, RUNS, TABLES

app = typer.Typer(help="BigQuery statements for the tables of an output folder; prints SQL.")

Dataset = Annotated[str, typer.Option(help="PROJECT.DATASET")]
Output = Annotated[str, typer.Option(help="the job's output, gs://BUCKET/FOLDER")]

_LOADED = (DECISIONS, OPTION_PROBABILITIES, ERRORS, RUNS)


@app.command()
def create(
    dataset: Dataset,
    output: Output,
    loaded: Annotated[
        bool, typer.Option("--loaded", help="empty tables to load runs into, not tables over files")
    ] = False,
) -> None:
    """Tables and views."""
    place = Place(dataset, output)
    for table in TABLES.values():
        if loaded:
            typer.echo(native_table(place, table))
        elif storage.find(storage.join(output, table.name, "*", "*", "*", "*.parquet")):
            typer.echo(external_table(place, table))
        else:
            # BigQuery refuses a table over files when there are none.
            typer.echo(f"-- {table.name}: no files yet\n")
    typer.echo(machine_prices(place, load_machines()))
    for name in VIEWS:
        typer.echo(view(place, name))


@app.command()
def load(
    dataset: Dataset,
    output: Output,
    source: Annotated[str, typer.Option("--from", help="PROJECT.DATASET of the tables over files")],
    run_id: Annotated[str | None, typer.Option(help="this run only")] = None,
) -> None:
    """Complete runs, from the tables over files into loaded ones."""
    runs = [run for run in list_runs(output) if run_id in (None, run.run_id)]
    if not runs:
        typer.echo(f"{output}: no complete run{f' {run_id}' if run_id else ''}", err=True)
        raise typer.Exit(1)
    for run in runs:
        typer.echo(load_run(Place(dataset, output), Place(source, output), rows_of(run)))


def rows_of(run: Run) -> RunRows:
    """How many rows the run's manifest states for every table that runs write."""
    rows = {table.name: 0 for table in _LOADED}
    for file in run.manifest["files"]:
        rows[file["table"]] += file["rows"]
    return RunRows(run.run_date, run.build, run.run_id, rows)


if __name__ == "__main__":
    app()
