"""`onepass report`: a comparison as one HTML file."""

from __future__ import annotations

from typing import Annotated

import typer

from pipeline import storage
from pipeline.yaml_files import ConfigError


def report(
    comparison: Annotated[
        str, typer.Argument(help="Id of a comparison that `onepass diff` made, or its beginning.")
    ] = "latest",
    gate: Annotated[
        str | None,
        typer.Option(metavar="GATE", help="Show this gate's checks: its file, or its name."),
    ] = None,
    output: Annotated[str, typer.Option(help="Folder of the comparisons.")] = "out",
    file: Annotated[
        str | None,
        typer.Option(help="The file to write.", show_default="OUTPUT/reports/ID.html"),
    ] = None,
) -> None:
    """Write a comparison as one HTML file that needs no network."""
    from pipeline.diff.result import list_comparisons, load_comparison
    from pipeline.gate import judge, load_gate
    from pipeline.report.build import render

    identity = _find(output, comparison, list_comparisons(output))
    found = load_comparison(output, identity)
    checks = judge(load_gate(gate), found) if gate else []
    path = file or storage.join(output, "reports", f"{identity}.html")
    storage.write_atomic(path, render(found, checks).encode())
    typer.echo(path)


def _find(output: str, name: str, known: list[str]) -> str:
    """`known` is oldest first."""
    if name == "latest" and known:
        return known[-1]
    found = [k for k in known if k == name] or [k for k in known if k.startswith(name)]
    if len(found) == 1:
        return found[0]
    problem = f"{len(found)} comparisons start with" if found else "no comparison"
    listed = ", ".join(sorted(known)) or "none; make one with `onepass diff`"
    raise ConfigError([f"{output}: {problem} {name!r}; there are: {listed}"])
