"""`onepass query`: SQL over the tables of an output folder."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from pipeline.commands.options import JsonOption

if TYPE_CHECKING:
    import duckdb

_WIDE = 400

LATEST = """
SELECT rubric_id, question_id, decision, count(*) AS conversations,
       round(avg(probability), 3) AS mean_probability, round(min(margin), 3) AS least_margin
FROM latest_decisions
GROUP BY ALL ORDER BY ALL
"""
"""What is shown without SQL."""


def query(
    sql: Annotated[
        str | None, typer.Argument(help="SQL; without it, what the latest run decided.")
    ] = None,
    output: Annotated[str, typer.Option(help="Output folder of the runs.")] = "out/",
    as_json: JsonOption = False,
) -> None:
    """Ask the tables in SQL (DuckDB).

    Views: decisions, option_probabilities, errors, runs, diffs, diff_summary over all complete
    runs, and latest_decisions, latest_option_probabilities, latest_errors over the newest of them.
    Each has run_date, build and run_id.
    """
    import duckdb

    from pipeline.output.querying import connect
    from pipeline.output.runs import RunNotFoundError

    database = connect(output)
    anything = "SELECT 1 FROM runs UNION ALL SELECT 1 FROM diff_summary LIMIT 1"
    if not database.sql(anything).fetchall():
        raise RunNotFoundError(
            f"{output}: holds no complete run; name the folder of one with --output, or finish one "
            "that was interrupted with `onepass run … --resume`"
        )
    try:
        found = database.sql(sql or LATEST)
    except duckdb.Error as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(2) from None
    if found is None:
        return
    if as_json:
        names = found.columns
        for row in found.fetchall():
            typer.echo(json.dumps(dict(zip(names, row, strict=True)), default=str))
    else:
        # What is not read on a terminal need not be cut to one.
        Console(highlight=False, width=None if sys.stdout.isatty() else _WIDE).print(_table(found))


def _table(found: duckdb.DuckDBPyRelation) -> Table:
    table = Table()
    numeric = [str(t) in ("BIGINT", "INTEGER", "DOUBLE", "HUGEINT") for t in found.types]
    for name, right in zip(found.columns, numeric, strict=True):
        table.add_column(name, justify="right" if right else "left")
    for row in found.fetchall():
        table.add_row(*(_cell(value) for value in row))
    return table


def _cell(value: Any) -> Text:
    if value is None:
        return Text("")
    return Text(f"{value:.4g}" if isinstance(value, float) else str(value))
