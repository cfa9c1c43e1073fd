"""A self-contained HTML page of benchmark results: figures, tables, conditions."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files
from typing import Any

from jinja2 import Environment
from rich.table import Table

from pipeline.bench.results import BenchResult
from pipeline.bench.tables import tables
from pipeline.report.bench_figures import FIGURES, seed_results

_TITLES = {
    "steps": "Engine steps",
    "latency": "Latency at concurrency 1",
    "throughput": "Throughput under concurrency",
    "batches": "Bulk batches",
    "cost": "Serving cost",
    "peers": "Peers",
    "roofline": "Distance from the floor",
}

_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>onepass: benchmarks</title>
<style>{{ style | safe }}
figure.seed { margin: 1rem 0; padding: 0.5rem; background: #fff; overflow-x: auto; }
figure.seed svg { max-width: 100%; height: auto; }
caption { text-align: left; font-weight: 650; padding: 1.25rem 0 0.25rem; }
.scroll { overflow-x: auto; }
</style></head><body>
<header><h1>Benchmarks</h1>
<p class="kicker">Beside the seed's numbers: {{ seed }}</p></header>
<main>
{% for section in sections %}
<section><h2>{{ section.title }}</h2>
{% if section.quick %}<p class="notice">A quick run: it proves that the benchmark works; its times
mean nothing.</p>{% endif %}
<p>{{ section.conditions }}</p>
{% if section.figure %}<figure class="seed">{{ section.figure | safe }}</figure>{% endif %}
{% for table in section.tables %}
<div class="scroll"><table><caption>{{ table.title }}</caption>
<thead><tr>{% for cell in table.columns %}
<th scope="col"{% if not loop.first %} class="n"{% endif %}>{{ cell }}</th>{% endfor %}</tr></thead>
<tbody>{% for row in table.rows %}<tr>{% for cell in row %}
<td{% if not loop.first %} class="n"{% endif %}>{{ cell }}</td>{% endfor %}</tr>
{% endfor %}</tbody></table></div>
{% if table.note %}<p>{{ table.note }}</p>{% endif %}
{% endfor %}</section>
{% endfor %}
</main></body></html>
"""


def bench_page(results: Sequence[BenchResult]) -> str:
    """The page, in the order of the results."""
    template = Environment(autoescape=True).from_string(_PAGE)
    return template.render(
        seed=seed_results()["source"],
        style=files("pipeline.report").joinpath("style.css").read_text(encoding="utf-8"),
        sections=[_section(result) for result in results],
    )


def _section(result: BenchResult) -> dict[str, Any]:
    figure = FIGURES.get(result.bench)
    return {
        "title": _TITLES[result.bench],
        "quick": result.size == "quick",
        "conditions": _conditions(result),
        "figure": figure(result) if figure else None,
        "tables": [_plain(table) for table in tables(result)],
    }


def _conditions(result: BenchResult) -> str:
    where, what = result.environment, result.configuration
    model = f"{what['model']}, {what['dtype']}, " if "model" in what else ""
    return (
        f"{result.date:%Y-%m-%d %H:%M} UTC; {model}{where['cpu_model']}, {where['cpus']} cores, "
        f"load average {where['load_average_at_start']:.1f} before and "
        f"{where['load_average_at_end']:.1f} after; vLLM {where['versions']['vllm']}, "
        f"torch {where['versions']['torch']}"
    )


def _plain(table: Table) -> dict[str, Any]:
    """A terminal table's cells."""
    columns = [list(column.cells) for column in table.columns]
    return {
        "title": table.title,
        "columns": [column.header for column in table.columns],
        "rows": list(zip(*columns, strict=True)),
        "note": table.caption,
    }
