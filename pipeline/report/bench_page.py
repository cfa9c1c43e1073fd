"""A self-contained HTML page of benchmark results: figures, tables, conditions."""

from __future__ import annotations

from collections.abc import Sequence
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
<title>onepass: benchmarks</title>
<style>
:root { color-scheme: light; }
body { font: 15px/1.5 system-ui, sans-serif; color: #1c2529; max-width: 1100px;
  margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.2rem; margin-top: 2.5rem; }
table { border-collapse: collapse; margin: 1rem 0; font-size: 0.85rem; }
caption { text-align: left; font-weight: 600; padding: 0.3rem 0; }
th, td { padding: 0.2rem 0.7rem; border-bottom: 1px solid #d8dee1; text-align: right; }
th:first-child, td:first-child { text-align: left; }
figure { margin: 1rem 0; overflow-x: auto; } svg { max-width: 100%; height: auto; }
.conditions { color: #4b575d; font-size: 0.85rem; }
.quick { background: #fff3cd; padding: 0.5rem 0.8rem; }
</style></head><body>
<h1>Benchmarks</h1>
<p class="conditions">Beside the seed's numbers: {{ seed }}</p>
{% for section in sections %}
<section><h2>{{ section.title }}</h2>
{% if section.quick %}<p class="quick">A quick run: it proves that the benchmark works; its times
mean nothing.</p>{% endif %}
<p class="conditions">{{ section.conditions }}</p>
{% if section.figure %}<figure>{{ section.figure | safe }}</figure>{% endif %}
{% for table in section.tables %}
<table><caption>{{ table.title }}</caption>
<thead><tr>{% for cell in table.columns %}<th scope="col">{{ cell }}</th>{% endfor %}</tr></thead>
<tbody>{% for row in table.rows %}<tr>{% for cell in row %}<td>{{ cell }}</td>{% endfor %}</tr>
{% endfor %}</tbody></table>
{% if table.note %}<p class="conditions">{{ table.note }}</p>{% endif %}
{% endfor %}</section>
{% endfor %}
</body></html>
"""


def bench_page(results: Sequence[BenchResult]) -> str:
    """The page, in the order of the results."""
    template = Environment(autoescape=True).from_string(_PAGE)
    return template.render(
        seed=seed_results()["source"], sections=[_section(result) for result in results]
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
