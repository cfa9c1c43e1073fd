"""`onepass plan`: what a job would do, take and cost, before anything is spent."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from pipeline.commands.options import BuildOption, JobArgument, LimitOption, MachinesOption
from pipeline.jobs.config import load_job

if TYPE_CHECKING:
    from pipeline.estimating.machines import Machines
    from pipeline.estimating.plan import Plan

_BAR = 40


def plan(
    job: JobArgument,
    build: BuildOption = None,
    limit: LimitOption = None,
    machines: MachinesOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Count a job through: reads, engine steps, hours and dollars. No model is loaded."""
    from pipeline.estimating.machines import load_machines
    from pipeline.estimating.plan import plan_job
    from pipeline.input.shards import InputError
    from pipeline.yaml_files import ConfigError

    loaded = load_job(job, {"build": build, "limit": limit})
    try:
        found = plan_job(loaded)
    except InputError as error:
        raise ConfigError(str(error).splitlines()) from None
    prices = load_machines(machines)
    if as_json:
        typer.echo(json.dumps(as_data(found, prices), indent=1))
    else:
        show_plan(found, Console(highlight=False))
        show_estimates(found, prices, Console(highlight=False))


def as_data(plan: Plan, machines: Machines) -> dict[str, Any]:
    """The plan and its estimates as plain data."""
    from pipeline.estimating.estimates import ASSUMPTIONS, estimates, monthly_choices

    # Not `asdict`: it takes counters apart.
    plain = {k: v for k, v in vars(plan).items() if isinstance(v, str | int)}
    return {
        **plain,
        "rejected": dict(plan.rejected),
        "widths": dict(plan.widths),
        "label_sets": len(plan.label_sets),
        "steps": vars(plan.steps),
        "steps_with_the_flag_the_other_way": vars(plan.other),
        "prompt_tokens": plan.percentiles(),
        "prompt_histogram": [
            {"from": low, "below": high, "cases": count} for low, high, count in plan.histogram()
        ],
        "estimates": [asdict(e) for e in estimates(plan.steps, plan.parts, machines)],
        "nightly_or_always_on": [
            asdict(c) for c in monthly_choices(plan.steps, plan.parts, machines)
        ],
        "assumptions": list(ASSUMPTIONS),
        "throughput": machines.throughput.model,
    }


def show_plan(plan: Plan, console: Console) -> None:
    """What there is and what the engine would do."""
    steps = plan.steps
    console.print(f"job {plan.job}, build {plan.build}, model {plan.model}", style="bold")
    console.print(
        f"{plan.conversations} conversations in {plan.parts} parts of {plan.shards} shards; "
        f"{plan.cases} cases, {plan.questions} questions, {steps.reads} reads"
    )
    if plan.rejected:
        causes = ", ".join(f"{count} {code}" for code, count in plan.rejected.most_common())
        console.print(f"rejected: {causes}", style="yellow")
    if plan.error_rate > plan.max_error_rate:
        console.print(
            f"the run would fail: {plan.error_rate:.2%} are rejected, above max_error_rate "
            f"{plan.max_error_rate:.2%}; mend the input or raise max_error_rate",
            style="red",
        )
    if plan.dropped_tokens:
        console.print(f"{plan.dropped_tokens} conversation tokens would be cut", style="yellow")
    if plan.escaped_control_tokens:
        console.print(f"{plan.escaped_control_tokens} look-alikes of control tokens in the text")
    if plan.conditional_questions:
        console.print(
            f"{plan.conditional_questions} questions depend on answers (ask_if): counts are upper "
            "bounds"
        )
    _show_prompts(plan, console)
    widths = ", ".join(f"{count} of width {width}" for width, count in sorted(plan.widths.items()))
    console.print(f"canvases: {widths or 'none'}; {len(plan.label_sets)} label sets")
    if steps.reads:
        _show_steps(plan, console)


def _show_prompts(plan: Plan, console: Console) -> None:
    lengths = ", ".join(f"{name} {value}" for name, value in plan.percentiles().items())
    console.print(f"prompt tokens: {lengths or 'none'}")
    bars = plan.histogram()
    highest = max((count for _, _, count in bars), default=1)
    for low, high, count in bars:
        bar = "█" * -(-count * _BAR // highest)
        console.print(f"  {low:>6} to {high - 1:<6} {bar} {count}")


def _show_steps(plan: Plan, console: Console) -> None:
    steps, other = plan.steps, plan.other
    console.print(
        f"prefix sharing: {steps.cached_tokens / steps.prompt_tokens:.0%} of prompt tokens come "
        "from the cache"
    )
    console.print(f"one engine step: {steps.single_pass / steps.reads:.1%} of reads")
    for reason, count in steps.two_step.most_common():
        console.print(f"  two steps because of {reason}: {count}")
    state = "off" if plan.single_pass_reads else "on"
    console.print(
        f"engine steps: {steps.steps} ({other.steps} with single_pass_reads {state}), "
        f"{steps.computed_tokens + steps.canvas_tokens} tokens computed"
    )


def show_estimates(plan: Plan, machines: Machines, console: Console) -> None:
    """Hours and dollars per machine type and number of workers."""
    from pipeline.estimating.estimates import (
        ASSUMPTIONS,
        NIGHTS_PER_MONTH,
        estimates,
        monthly_choices,
    )

    table = Table(title=f"one run on Dataflow ({machines.throughput.model})", title_justify="left")
    for name in ("machine", "workers", "hours", "dollars", "with FlexRS"):
        table.add_column(name, justify="left" if name == "machine" else "right")
    for estimate in estimates(plan.steps, plan.parts, machines):
        table.add_row(
            estimate.machine_type,
            str(estimate.workers),
            f"{estimate.hours:.2f}",
            f"{estimate.dollars:.2f}",
            f"{estimate.flexrs_dollars:.2f}",
        )
    console.print(table)
    for choice in monthly_choices(plan.steps, plan.parts, machines):
        console.print(
            f"{choice.machine_type}: every night {choice.nightly_dollars:.2f} a month "
            f"({NIGHTS_PER_MONTH} runs), {choice.replicas} always on "
            f"{choice.always_on_dollars:.2f} a month, that is "
            f"{choice.always_on_dollars_per_1000:.2f} per 1,000 reads, busy "
            f"{choice.share_of_capacity:.1%} of the time"
        )
    prices, sources = machines.dataflow, machines.sources
    console.print(
        f"US dollars; Dataflow prices of {prices.region} as of {sources[prices.source].stated}, "
        f"speeds from {sources[machines.throughput.source].what}.",
        style="dim",
    )
    for assumption in ASSUMPTIONS:
        console.print(f"assumed: {assumption}", style="dim")
    console.print(f"assumed: a worker starts in {prices.startup_minutes:g} minutes", style="dim")
