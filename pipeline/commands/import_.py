"""`onepass import`: data sets as shards, rubrics and a job."""

from __future__ import annotations

import json
from dataclasses import asdict, fields
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from pipeline.importers.folder import Imported, write_folder
from pipeline.importers.jevbench import import_items
from pipeline.importers.jevbench_240 import DEFAULT_PATH, import_cases
from pipeline.importers.jevbench_metrics import Metrics, load_items, measure
from pipeline.output.runs import find_run

app = typer.Typer(
    help="Turn a data set into conversation shards, rubrics and a job.", no_args_is_help=True
)

BuildOption = Annotated[str, typer.Option(help="Build the job names.")]


@app.command("jevbench-240")
def jevbench_240(
    path: Annotated[Path, typer.Argument(help="File or folder of the cases.")] = DEFAULT_PATH,
    output: Annotated[Path, typer.Option(help="Folder to write.")] = Path("out/jevbench-240"),
    build: BuildOption = "single_pass",
) -> None:
    """Synthetic cases of eight domains, 8 to 12 questions each, without gold labels."""
    _write(import_cases(path), output, build)


@app.command("jevbench")
def jevbench(
    paths: Annotated[list[Path], typer.Argument(help="The benchmark's files, or their folder.")],
    output: Annotated[Path, typer.Option(help="Folder to write.")] = Path("out/jevbench"),
    build: BuildOption = "single_pass",
) -> None:
    """JevBench's public items: one question each, with the expected answer."""
    _write(import_items(paths), output, build)


@app.command("jevbench-metrics")
def jevbench_metrics(
    folder: Annotated[Path, typer.Argument(help="Folder that `import jevbench` wrote.")],
    run: Annotated[str, typer.Argument(help="Run id, build, or latest.")] = "latest",
    output: Annotated[str, typer.Option(help="Output folder of the run.")] = "out/",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """The benchmark's metrics of a run, per family."""
    found = measure(load_items(folder, find_run(output, run)))
    if as_json:
        typer.echo(json.dumps([asdict(metrics) for metrics in found], indent=1))
        return
    table = Table("metric", *(metrics.family for metrics in found))
    for field in fields(Metrics)[1:]:
        table.add_row(field.name, *(_shown(getattr(metrics, field.name)) for metrics in found))
    Console().print(table)


def _shown(value: float | None) -> str:
    if value is None:
        return "-"
    return str(value) if isinstance(value, int) else f"{value:.3f}"


def _write(imported: Imported, output: Path, build: str) -> None:
    job = write_folder(imported, output, build)
    for note in imported.notes:
        typer.echo(f"Note: {note}", err=True)
    typer.echo(
        f"{imported.conversations} conversations in {len(imported.shards)} shards, "
        f"{len(imported.rubrics)} rubrics, {imported.questions:,} questions to decide."
    )
    typer.echo(f"Next: onepass run {job}")
