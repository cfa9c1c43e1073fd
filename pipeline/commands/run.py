"""`onepass run`: decide a job's conversations."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from pipeline.commands.options import JobArgument, JsonOption, VerboseOption
from pipeline.jobs.config import LoadedJob, load_job
from pipeline.yaml_files import ConfigError

if TYPE_CHECKING:
    from pipeline.deciding.inference import EngineSource
    from pipeline.output.runs import Run

BEAM_FLAGS_PASS = {"allow_extra_args": True, "ignore_unknown_options": True}
"""Typer settings: what is no option of ours is one of Beam's."""


def run(
    context: typer.Context,
    job: JobArgument,
    build: Annotated[
        str | None, typer.Option(help="Build instead of the job's: name or path.")
    ] = None,
    input_: Annotated[
        list[str] | None, typer.Option("--input", help="Shards instead of the job's; repeatable.")
    ] = None,
    output: Annotated[str | None, typer.Option(help="Output folder instead of the job's.")] = None,
    limit: Annotated[
        int | None, typer.Option(min=1, help="Decide only the first N records.")
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Take over parts that earlier runs finished.")
    ] = False,
    verbose: VerboseOption = False,
    as_json: JsonOption = False,
) -> None:
    """Decide the conversations of a job and write its tables.

    Further options are passed to Beam as they are, such as
    --direct_running_mode=multi_processing --direct_num_workers=2.
    """
    overrides = {"build": build, "input": input_ or None, "output": output, "limit": limit}
    loaded = load_job(job, overrides)
    console = Console(stderr=True, highlight=False)
    result = run_job(
        loaded, console=console, resume=resume, verbose=verbose, beam_flags=context.args
    )
    if as_json:
        typer.echo(json.dumps(_as_json(result), indent=1))
    else:
        show_result(result, Console(highlight=False))
    if result.status != "complete":
        raise typer.Exit(1)


def run_job(
    loaded: LoadedJob,
    *,
    console: Console,
    resume: bool = False,
    verbose: bool = False,
    beam_flags: list[str] | None = None,
    source: EngineSource | None = None,
) -> Run:
    """Run a job while showing its progress on `console`.

    Raises `ConfigError` for what is found before anything starts, and `typer.Exit` (1) after
    telling why a run that had started could not go on.
    """
    flags = beam_flags or []
    check_beam_flags(flags, "run")
    from pipeline.terminal.quiet import log_level

    for note in loaded.notes:
        console.print(note, style="dim")
    with log_level(verbose):
        # Beam's inference module loads torch where there is one.
        from pipeline.jobs.running import execute, pipeline_options, prepare
        from pipeline.terminal.watching import watching

        prepared = prepare(loaded, resume=resume, source=source)
        if resume and not prepared.resumes:
            console.print("No earlier run of this job to resume; starting anew.", style="dim")
        run_id = prepared.start.key.run_id
        try:
            with watching(console, loaded.job.output, prepared.start.key):
                return execute(prepared, pipeline_options(loaded, flags))
        except KeyboardInterrupt:
            console.print(f"Stopped. Finished parts are kept: {_resume_hint(loaded)}")
            raise typer.Exit(1) from None
        except Exception as error:
            if verbose:
                console.print_exception()
            console.print(f"Run {run_id} stopped: {_cause(error)}", style="bold red", markup=False)
            console.print(f"Finished parts are kept: {_resume_hint(loaded)}")
            raise typer.Exit(1) from error


def show_result(run: Run, console: Console) -> None:
    """What became of a run: counts, engine figures, where the tables are, how to look at them."""
    row = run.manifest["row"]
    complete = run.status == "complete"
    console.print(
        f"Run [bold]{run.run_id}[/bold] {run.status} in {row['seconds']:.1f} s",
        style="green" if complete else "red",
    )
    for problem in run.manifest["problems"]:
        console.print(f"  {problem}", style="red", markup=False)
    resumed = f" ({row['resumed_parts']} taken over)" if row["resumed_parts"] else ""
    console.print(
        f"  {row['records']:,} records in {row['parts']:,} parts{resumed}, {row['cases']:,} cases: "
        f"{row['decided_cases']:,} decided, {row['errors']:,} errors"
    )
    console.print(f"  {row['decisions']:,} decisions, {row['options']:,} option probabilities")
    console.print(f"  {engine_figures(row)}")
    console.print(f"  tables in {run.output}", markup=False)
    console.print("Look at them with:", style="dim")
    place = "" if run.output.rstrip("/") == "out" else f" --output {run.output}"
    console.print(f"  onepass query{place}", markup=False)
    if row["errors"] and complete:
        sql = "SELECT code, message, count(*) FROM latest_errors GROUP BY ALL"
        console.print(f'  onepass query{place} "{sql}"', markup=False, soft_wrap=True)
    pattern = run.key.folder(run.output, "decisions") + "/*.parquet"
    console.print(f"  duckdb -c \"SELECT * FROM '{pattern}'\"", markup=False, soft_wrap=True)


def engine_figures(row: dict[str, Any]) -> str:
    """Reads, steps and speed of a row of `runs` in one line."""
    reads, seconds = row["reads"], row["engine_seconds"]
    if not reads:
        return "no reads"
    speed = f", {reads / seconds:,.1f} reads/s in the engine" if seconds else ""
    return (
        f"{reads:,} reads in {row['steps']:,} engine steps, "
        f"{row['single_pass'] / reads:.0%} in a single pass{speed}"
    )


def _as_json(run: Run) -> dict[str, Any]:
    keys = ("status", "problems", "row", "counts", "files")
    return {"run_id": run.run_id, **{key: run.manifest[key] for key in keys}}


def check_beam_flags(flags: list[str], command: str) -> None:
    """Beam drops flags it does not know without a word; a typing error must not go unnoticed."""
    if not flags:
        return
    from apache_beam.options.pipeline_options import PipelineOptions

    known = PipelineOptions([]).get_all_options()
    problems = [
        f"{flag}: neither an option of `onepass {command}` nor, as --name=value, one of Beam's"
        for flag in flags
        if not flag.startswith("--") or flag[2:].split("=", 1)[0] not in known
    ]
    if problems:
        raise ConfigError(problems)


def _resume_hint(loaded: LoadedJob) -> str:
    return f"run the same command again with --resume ({loaded.job.output})"


def _cause(error: BaseException) -> str:
    """The first line of an error, without the chain of frames Beam puts around it."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[-1] if lines else ''}"
