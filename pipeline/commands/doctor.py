"""`onepass doctor`: can this machine run the engine, and what to do if not."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from engine.doctor import Finding, examine
from pipeline.jobs.config import load_build

_STYLES = {"ok": "green", "warning": "yellow", "problem": "bold red"}


def doctor(
    build: Annotated[str, typer.Option(help="A build that ships, or the path of one.")] = (
        "single_pass"
    ),
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Check versions, libraries, CPU, threads, memory and checkpoint; say what to do.

    Exit code 1 when something keeps the build from running here.
    """
    findings = examine(load_build(build))
    failed = any(finding.status == "problem" for finding in findings)
    if as_json:
        found = [dataclasses.asdict(finding) for finding in findings]
        typer.echo(json.dumps({"ok": not failed, "findings": found}, indent=2))
    else:
        console = Console(highlight=False)
        for line in _lines(findings):
            console.print(line, soft_wrap=True)
    if failed:
        raise typer.Exit(1)


def _lines(findings: list[Finding]) -> Iterator[Text]:
    """One line per finding, and what to do under it."""
    for finding in findings:
        yield Text.assemble(
            (f"{finding.status:8} ", _STYLES[finding.status]), f"{finding.name:13} ", finding.found
        )
        if finding.remedy:
            yield Text(f"{'':8} -> {finding.remedy}", style="bold")
