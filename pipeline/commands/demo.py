"""`onepass demo`: the main job on the conversations that ship, with the embedded model."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from pipeline.commands.ask import bar
from pipeline.commands.options import JsonOption, VerboseOption
from pipeline.commands.run import run_job, show_result
from pipeline.jobs.config import load_job

_CONVERSATIONS_SHOWN = 8
_BAR = 8
_WIDE = 120
"""Columns of a terminal that has room for bars."""

_SHOWN = """
SELECT conversation_id, question_id, decision, probability, correct
FROM latest_decisions
WHERE conversation_id IN (
    SELECT DISTINCT conversation_id FROM latest_decisions ORDER BY ALL LIMIT {limit}
)
ORDER BY ALL
"""
_ACCURACY = """
SELECT question_id, count(*) AS n, avg(correct::INT) AS accuracy
FROM latest_decisions WHERE correct IS NOT NULL GROUP BY 1 ORDER BY 1
"""


def demo(
    output: Annotated[str, typer.Option(help="Where the tables go.")] = "out/",
    verbose: VerboseOption = False,
    as_json: JsonOption = False,
) -> None:
    """Decide the conversations that ship with the embedded model, and show what came out."""
    from pipeline.output.querying import connect

    loaded = load_job("demo", {"output": output})
    progress = Console(stderr=True, highlight=False)
    run = run_job(loaded, console=progress, verbose=verbose)
    if as_json:
        typer.echo(json.dumps({"run_id": run.run_id, "row": run.manifest["row"]}, indent=1))
    else:
        console = Console(highlight=False)
        database = connect(output)
        shown = database.sql(_SHOWN.format(limit=_CONVERSATIONS_SHOWN))
        console.print(_decisions(shown, bars=console.width >= _WIDE))
        for question, count, accuracy in database.sql(_ACCURACY).fetchall():
            console.print(f"{question}: {accuracy:.1%} of {count} as the authors expect")
        show_result(run, console)
    if run.status != "complete":
        raise typer.Exit(1)


def _decisions(found: Any, *, bars: bool) -> Table:
    """A row per conversation, a column per question: the decision and its probability."""
    conversations: dict[str, dict[str, Text]] = {}
    questions: dict[str, None] = {}
    for conversation, question, decision, probability, correct in found.fetchall():
        cell = Text(f"{decision} ", style="red" if correct is False else "")
        cell.append(f"{probability:.2f} ", style="dim")
        if bars:
            cell.append(bar(probability, _BAR), style="red" if correct is False else "green")
        conversations.setdefault(conversation, {})[question] = cell
        questions[question] = None
    table = Table(title="What the embedded model decided", title_justify="left")
    table.add_column("conversation")
    for question in questions:
        table.add_column(question)
    for conversation, cells in conversations.items():
        table.add_row(Text(conversation), *(cells.get(q, Text("")) for q in questions))
    return table
