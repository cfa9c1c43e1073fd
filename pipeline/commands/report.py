"""`onepass report`: results as one self-contained HTML file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def report(
    bench: Annotated[
        list[Path], typer.Option(help="Benchmark results, in the order to show them; repeatable.")
    ],
    output: Annotated[Path, typer.Option(help="HTML file to write.")] = Path("out/bench.html"),
) -> None:
    """Draw benchmark results beside the seed's."""
    from pydantic import ValidationError

    from pipeline.bench.results import read_result
    from pipeline.report.bench_page import bench_page

    results = []
    for path in bench:
        try:
            results.append(read_result(path))
        except (OSError, ValidationError) as error:
            raise typer.BadParameter(
                f"{path} is no benchmark result ({type(error).__name__}); "
                "make one with onepass bench",
                param_hint="--bench",
            ) from None
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(bench_page(results), encoding="utf-8")
    typer.echo(f"Wrote {output}")
