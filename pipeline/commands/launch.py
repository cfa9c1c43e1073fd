"""`onepass launch`: a job on Dataflow, through its Flex Template."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from pipeline.commands.options import BuildOption, JobArgument, LimitOption, MachinesOption
from pipeline.jobs.config import LoadedJob, load_job

if TYPE_CHECKING:
    from pipeline.cloud.launching import LaunchRequest
    from pipeline.estimating.machines import Machines


def launch(
    job: JobArgument,
    template: Annotated[str, typer.Option(help="The Flex Template's file, gs://….json.")],
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Show what would be sent, and its price; send nothing."),
    ] = False,
    request_file: Annotated[
        Path | None,
        typer.Option(help="Upload the job and write the request there, for a schedule to send."),
    ] = None,
    parameter: Annotated[
        list[str] | None,
        typer.Option(help="A parameter of the template, NAME=VALUE, such as resume=true."),
    ] = None,
    build: BuildOption = None,
    limit: LimitOption = None,
    machines: MachinesOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Start a job on Dataflow. The job's `options` name project, machine and image."""
    from pipeline.cloud.launching import LaunchError, launch_request, submit, upload
    from pipeline.cloud.workers import worker_options
    from pipeline.estimating.machines import load_machines

    loaded = load_job(job, {"build": build, "limit": limit})
    prices = load_machines(machines)
    options = worker_options(loaded, prices)
    request = launch_request(loaded, options, template, _parameters(parameter or []))
    console = Console(highlight=False, soft_wrap=True)
    if dry_run:
        _show_request(loaded, request, prices, options, console, as_json)
        return
    try:
        if request_file is not None:
            upload(request)
        else:
            started = submit(request, no_auth=bool(options.get("no_auth")))
    except LaunchError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from None
    if request_file is not None:
        request_file.write_text(json.dumps({"url": request.url, "body": request.body}, indent=1))
        typer.echo(f"uploaded {len(request.uploads)} files, wrote {request_file}")
        return
    if as_json:
        typer.echo(json.dumps(started))
        return
    place = f"{options['region']}/{started['id']}?project={options['project']}"
    console.print(f"started {started['name']}, job {started['id']}")
    console.print(f"https://console.cloud.google.com/dataflow/jobs/{place}")


def _parameters(given: list[str]) -> dict[str, str]:
    from pipeline.cloud.launching import PARAMETERS

    found = {}
    for text in given:
        name, equals, value = text.partition("=")
        if name not in PARAMETERS or not equals:
            raise typer.BadParameter(
                f"{text}: expected NAME=VALUE with one of {', '.join(PARAMETERS)}",
                param_hint="--parameter",
            )
        found[name] = value
    return found


def _show_request(
    loaded: LoadedJob,
    request: LaunchRequest,
    machines: Machines,
    options: dict[str, Any],
    console: Console,
    as_json: bool,
) -> None:
    uploads = {path: content.decode() for path, content in request.uploads.items()}
    if as_json:
        sent = {"url": request.url, "body": request.body, "uploads": uploads, "options": options}
        typer.echo(json.dumps(sent, indent=1))
        return
    for path, text in uploads.items():
        console.print(f"would upload {path}", style="bold")
        console.print(text, markup=False)
    console.print(f"would post to {request.url}", style="bold")
    console.print(json.dumps(request.body, indent=1), markup=False)
    console.print("workers would run with", style="bold")
    console.print(json.dumps(options, indent=1), markup=False)
    _show_price(loaded, machines, console)


def _show_price(loaded: LoadedJob, machines: Machines, console: Console) -> None:
    from pipeline.commands.plan import show_estimates, show_plan
    from pipeline.estimating.plan import plan_job

    try:
        plan = plan_job(loaded)
    except Exception as error:
        # A dry run must also work where the bucket cannot be read; it then has no price to show.
        console.print(f"no estimate: {type(error).__name__}: {error}", style="yellow", markup=False)
        return
    show_plan(plan, console)
    show_estimates(plan, machines, console)
