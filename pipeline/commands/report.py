"""`onepass report`: results as one self-contained HTML file."""

from __future__ import annotations

from pathlib import Path
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
    bench: Annotated[
        list[Path] | None,
        typer.Option(help="Benchmark results instead, in the order to show them; repeatable."),
    ] = None,
    output: Annotated[str, typer.Option(help="Folder of the runs and comparisons.")] = "out",
    file: Annotated[
        str | None,
        typer.Option(help="The file to write.", show_default="OUTPUT/reports/NAME.html"),
    ] = None,
) -> None:
    """Draw a comparison, or with --bench benchmark results beside the seed's."""
    if bench:
        name, text = "bench", _bench(bench)
    else:
        name, text = _comparison(output, comparison, gate)
    path = file or storage.join(output, "reports", f"{name}.html")
    storage.write_atomic(path, text.encode())
    typer.echo(f"Wrote {path}")


def _comparison(output: str, name: str, gate: str | None) -> tuple[str, str]:
    from pipeline.diff.gate import judge, load_gate
    from pipeline.diff.result import load_comparison
    from pipeline.output.comparisons import list_comparisons
    from pipeline.report.build import render

    identity = _find(output, name, list_comparisons(output))
    found = load_comparison(output, identity)
    return identity, render(found, judge(load_gate(gate), found) if gate else [])


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


def _bench(paths: list[Path]) -> str:
    from pydantic import ValidationError

    from pipeline.bench.results import read_result
    from pipeline.report.bench_page import bench_page

    results = []
    for path in paths:
        try:
            results.append(read_result(path))
        except (OSError, ValidationError) as error:
            raise typer.BadParameter(
                f"{path} is no benchmark result ({type(error).__name__}); "
                "make one with onepass bench",
                param_hint="--bench",
            ) from None
    return bench_page(results)
