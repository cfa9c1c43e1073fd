"""`onepass diff`: what changed between two runs, and whether that is acceptable."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer
from rich.console import Console

from pipeline.commands.options import JsonOption, VerboseOption
from pipeline.commands.run import check_beam_flags
from pipeline.output.runs import Run, RunNotFoundError
from pipeline.terminal.quiet import log_level
from pipeline.yaml_files import ConfigError

if TYPE_CHECKING:
    from pipeline.diff.gate import Check, Gate
    from pipeline.diff.result import Comparison, Refusal
    from pipeline.diff.thresholds import Threshold


class Allow(StrEnum):
    """What may differ between the runs."""

    rubric = "rubric"
    dialect = "dialect"
    canvas = "canvas"
    prompt = "prompt"


def diff(
    context: typer.Context,
    runs: Annotated[
        list[str],
        typer.Argument(
            metavar="BASELINE CANDIDATE [RUN...]",
            help="Run ids, builds (their latest run) or folders of runs. More than two with "
            "--factors.",
            show_default=False,
        ),
    ],
    noise: Annotated[
        str | None,
        typer.Option(metavar="RUN", help="A repeat of the baseline: sets the noise floor."),
    ] = None,
    fp32: Annotated[
        str | None,
        typer.Option(metavar="RUN", help="The reads in float32: tells rounding from change."),
    ] = None,
    factors: Annotated[
        bool, typer.Option("--factors", help="Attribute flips to what differs between the runs.")
    ] = False,
    gate: Annotated[
        str | None,
        typer.Option(metavar="GATE", help="A gate's file, or the name of one that ships."),
    ] = None,
    allow: Annotated[
        list[Allow] | None, typer.Option(help="Compare although this differs.")
    ] = None,
    threshold: Annotated[
        list[str] | None,
        typer.Option(
            metavar="RUBRIC/QUESTION/OPTION=P",
            help="A probability that something is done at: counts the decisions that cross it.",
        ),
    ] = None,
    output: Annotated[str, typer.Option(help="Folder of the runs and of the result.")] = "out",
    junit_file: Annotated[
        Path | None, typer.Option("--junit", help="Write the gate's checks as JUnit XML.")
    ] = None,
    markdown_file: Annotated[
        Path | None, typer.Option("--markdown", help="Write verdict and checks as Markdown.")
    ] = None,
    verbose: VerboseOption = False,
    as_json: JsonOption = False,
) -> None:
    """Compare the decisions of two runs: verdict, flips, intervals, noise floor.

    Exit code 1: the gate is not met. Exit code 2: the runs cannot be compared. Further options
    are passed to Beam as they are, such as --runner=DataflowRunner.
    """
    # A BASELINE that is not there makes the first of Beam's flags look like one.
    flags = [*context.args, *(name for name in runs if name.startswith("--"))]
    runs = [name for name in runs if not name.startswith("--")]
    # scipy, statsmodels and Beam take seconds to load: not for `onepass --help`.
    from pipeline.diff.gate import judge, load_gate, met
    from pipeline.diff.gate_output import junit, markdown
    from pipeline.diff.references import RoleError
    from pipeline.diff.result import Refusal
    from pipeline.diff.thresholds import parse_thresholds

    try:
        chosen = _choose(runs, output, noise, fp32, factors)
        thresholds = parse_thresholds(threshold or [], chosen[0][:2])
        limits = load_gate(gate) if gate else None
        if junit_file and limits is None:
            raise ConfigError(["--junit reports a gate's checks; give --gate as well"])
        check_beam_flags(flags, "diff")
    except (RunNotFoundError, RoleError, ConfigError) as error:
        _refuse(str(error.args[0]).splitlines(), as_json)
    baseline, candidate = chosen[0][:2]
    if (baseline.output, baseline.run_id) == (candidate.output, candidate.run_id):
        _same_run(baseline, as_json)
        return
    with log_level(verbose):
        result = _compare(chosen, output, [a.value for a in allow or []], thresholds, flags)
    if isinstance(result, Refusal):
        _refuse(result.refused, as_json)
    checks = judge(limits, result) if limits else []
    if junit_file:
        junit_file.write_bytes(junit(result, checks))
    if markdown_file:
        markdown_file.write_text(markdown(result, checks), encoding="utf-8")
    _show(result, limits, checks, factors, output, as_json)
    if not met(checks):
        raise typer.Exit(1)


Chosen = tuple[list[Run], Run | None, Run | None]


def _choose(
    names: list[str], output: str, noise: str | None, fp32: str | None, factors: bool
) -> Chosen:
    from pipeline.diff.references import RoleError, check_fp32, check_noise, resolve

    if len(names) < 2:
        raise ConfigError(["give two runs: BASELINE CANDIDATE"])
    if len(names) > 2 and not factors:
        raise ConfigError([f"{len(names)} runs given; diff compares two, or more with --factors"])
    runs = [resolve(output, name) for name in names]
    repeat = resolve(output, noise) if noise else None
    exact = resolve(output, fp32) if fp32 else None
    if repeat:
        check_noise(runs[0], repeat)
    if exact:
        check_fp32(exact)
    given = [*runs[2:], *(run for run in (repeat, exact) if run)]
    for position, run in enumerate(given):
        if run in [*runs[:2], *given[:position]]:
            raise RoleError(f"run {run.run_id} is given twice")
    return runs, repeat, exact


def _compare(
    chosen: Chosen,
    output: str,
    allow: list[str],
    thresholds: tuple[Threshold, ...],
    flags: list[str],
) -> Comparison | Refusal:
    from apache_beam.options.pipeline_options import PipelineOptions

    from pipeline.diff.compare import compare
    from pipeline.diff.job import plan

    runs, noise, fp32 = chosen
    job, units = plan(
        runs, output=output, noise=noise, fp32=fp32, allow=allow, thresholds=thresholds
    )
    decisions = max(int(run.row["decisions"]) for run in runs)
    message = f"Comparing {len(job.sides)} runs, {decisions:,} decisions in {len(units):,} parts"
    with Console(stderr=True).status(message):
        return compare(job, units, PipelineOptions(flags))


def _show(
    result: Comparison,
    gate: Gate | None,
    checks: list[Check],
    factors: bool,
    output: str,
    as_json: bool,
) -> None:
    from pipeline.commands.diff_output import print_checks, print_comparison
    from pipeline.diff.gate import met

    if as_json:
        content = result.model_dump(exclude={"points"})
        if gate:
            content["gate"] = {
                "met": met(checks),
                "checks": [
                    {"name": c.name, "status": c.status, "detail": c.detail, "needed": c.needed}
                    for c in checks
                ],
            }
        typer.echo(json.dumps(content, indent=1))
        return
    console = Console(highlight=False)
    print_comparison(console, result, factors=factors)
    if gate:
        print_checks(console, checks)
    console.print(
        f"\nTables: diffs and diff_summary under {output}, run_id={result.id}. "
        f"Report: onepass report {result.id}",
        style="dim",
        soft_wrap=True,
        markup=False,
    )


def _same_run(run: Run, as_json: bool) -> None:
    decisions = int(run.row["decisions"])
    text = f"Baseline and candidate are the same run, {run.run_id}: none of {decisions:,} differs."
    if as_json:
        typer.echo(json.dumps({"verdict": "same", "verdict_reason": text, "flips": 0}))
    else:
        typer.echo(text)


def _refuse(problems: list[str], as_json: bool) -> NoReturn:
    if as_json:
        typer.echo(json.dumps({"refused": problems}, indent=1))
    for problem in problems:
        typer.echo(problem, err=True)
    raise typer.Exit(2)
