"""Benchmark results as tables for the terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from rich.table import Table

from pipeline.bench.results import BenchResult

Rows = Iterable[Iterable[Any]]

_PARTS = ("forward", "sampling", "scheduler", "python")


def tables(result: BenchResult) -> list[Table]:
    """The result's summary; one table per question it answers."""
    makers: dict[str, Callable[[dict[str, Any]], list[Table]]] = {
        "steps": _steps,
        "latency": _latency,
        "throughput": _throughput,
        "batches": _batches,
        "cost": _cost,
        "peers": _peers,
        "roofline": _roofline,
    }
    return makers[result.bench](result.summary)


def _table(title: str, columns: Iterable[str], rows: Rows) -> Table:
    table = Table(title=title, title_justify="left")
    for number, column in enumerate(columns):
        table.add_column(column, justify="left" if number == 0 else "right")
    for row in rows:
        table.add_row(*map(str, row))
    return table


def _percent(value: float) -> str:
    return f"{100 * value:+.1f}%"


def _milliseconds(seconds: float) -> str:
    return f"{1000 * seconds:,.1f}"


def _interval(change: dict[str, Any]) -> str:
    return f"{_percent(change['change'])} ({_percent(change['low'])} to {_percent(change['high'])})"


def _agreement(summary: dict[str, Any], against: str) -> Table:
    return _table(
        f"Decisions compared with {against}",
        ("", "slots", "same decision", "largest difference of a probability"),
        (
            (
                name,
                found["slots"],
                found["same_decision"],
                f"{found['largest_probability_difference']:.2g}",
            )
            for name, found in summary["agreement"].items()
        ),
    )


def _steps(summary: dict[str, Any]) -> list[Table]:
    return [
        _table(
            "Engine steps",
            ("reads", "mode", "number", "off", "on", "all counts agree"),
            (
                (r["set"], r["mode"], r["reads"], r["off"], r["on"], r["counts_agree"])
                for r in summary["steps"]
            ),
        ),
        _agreement(summary, "the flag off"),
    ]


def _latency(summary: dict[str, Any]) -> list[Table]:
    percentiles = _table(
        "Latency of one request at a time, ms",
        ("reads", "arm", "p50", "p95", "p99", "over target", "outside steps"),
        (
            (
                name,
                arm,
                *(_milliseconds(row[p]) for p in ("p50", "p95", "p99")),
                f"{row['over_target']} of {row['requests']}",
                f"{_milliseconds(row['seconds_outside_steps'])} "
                f"({100 * row['share_outside_steps']:.1f}%)",
            )
            for name, by_arm in summary["latency"].items()
            for arm, row in by_arm.items()
        ),
    )
    changes = _table(
        "Change against the baseline (95% interval)",
        ("reads", "arm", "pass", "change"),
        ((c["set"], c["arm"], c["pass"], _interval(c)) for c in summary["changes"]),
    )
    cpu_changes = _table(
        "Change of processor time against the baseline (95% interval)",
        ("reads", "arm", "change"),
        ((c["set"], c["arm"], _interval(c)) for c in summary["cpu_changes"]),
    )
    saved = _table(
        "What a removed step saves",
        ("reads", "prompt tokens computed", "removed steps", "ms per removed step"),
        (
            (
                name,
                f"{row['prompt_tokens_computed_per_request']:,.0f}",
                row["removed_steps"],
                _milliseconds(row["seconds_per_removed_step"]),
            )
            for name, row in summary["saved"].items()
        ),
    )
    speedup = summary["speedup"]
    saved.caption = (
        "A speedup is reported: in every pass it exceeds what the repeated baseline differs by."
        if speedup["reported"]
        else f"No speedup is reported: {speedup['reason']}."
    )
    return [percentiles, changes, cpu_changes, saved]


def _throughput(summary: dict[str, Any]) -> list[Table]:
    gains = {(g["set"], g["concurrency"]): g for g in summary["gains"]}
    return [
        _table(
            "Throughput",
            ("reads", "concurrency", "arm", "decisions/s", "median ms", "steps", "gain"),
            (
                (
                    r["set"],
                    r["concurrency"],
                    r["arm"],
                    f"{r['decisions_per_second']:.2f}",
                    _milliseconds(r["median_latency"]),
                    f"{r['steps']:.0f}",
                    _percent(gains[r["set"], r["concurrency"]]["throughput"])
                    if r["arm"] == "flag on"
                    else "",
                )
                for r in summary["rows"]
            ),
        ),
        _table(
            "Saturation",
            ("reads", "arm", "concurrency", "decisions/s"),
            (
                (s["set"], s["arm"], s["concurrency"], f"{s['decisions_per_second']:.2f}")
                for s in summary["saturation"]
            ),
        ),
    ]


def _batches(summary: dict[str, Any]) -> list[Table]:
    return [
        _table(
            "Batches, reads per second",
            ("batch", "stock", "onepass", "ratio", "lowest", "highest"),
            (
                (
                    b["batch"],
                    f"{b['stock_reads_per_second']:.2f}",
                    f"{b['onepass_reads_per_second']:.2f}",
                    f"{b['ratio']:.2f}",
                    f"{b['ratio_low']:.2f}",
                    f"{b['ratio_high']:.2f}",
                )
                for b in summary["batches"]
            ),
        ),
        _agreement(summary, "stock vLLM"),
    ]


def _dollars(value: float) -> str:
    return f"${value:,.2f}" if value >= 1 else f"${value:.3f}"


def _cost(summary: dict[str, Any]) -> list[Table]:
    volumes = list(summary["always_on"][0]["dollars_per_1000"])
    found = [
        _table(
            "One always-on replica, dollars per 1,000 decisions",
            ("replica", "a month", *(f"{int(v):,} a month" for v in volumes)),
            (
                (
                    row["label"],
                    _dollars(row["dollars_per_month"]),
                    *(_dollars(row["dollars_per_1000"][v]) for v in volumes),
                )
                for row in summary["always_on"]
            ),
        ),
        _table(
            "A busy replica",
            ("replica", "load", "per 1,000", "decisions/s", "decisions a month"),
            (
                (
                    row["replica"],
                    row["load"],
                    _dollars(row["dollars_per_1000"]),
                    f"{row['decisions_per_second']:.2f}",
                    f"{row['decisions_per_month']:,.0f}",
                )
                for row in summary["busy"]
            ),
        ),
        _table(
            "From which volume the dearer machine is cheaper to run",
            ("cheaper", "dearer", "decisions a month"),
            (
                (
                    row["cheaper"],
                    row["dearer"],
                    "never"
                    if row["decisions_per_month"] is None
                    else f"{row['decisions_per_month']:,.0f}",
                )
                for row in summary["break_even"]
            ),
        ),
        _table(
            "Batch on Dataflow: paid while it runs",
            ("machine", "an hour", "decisions/s", "per 1,000", "with FlexRS", "hours for 100,000"),
            (
                (
                    row["machine"],
                    _dollars(row["dollars_per_hour"]),
                    f"{row['decisions_per_second']:.2f}",
                    _dollars(row["dollars_per_1000"]),
                    _dollars(row["dollars_per_1000_flexrs"]),
                    f"{row['hours_per_100000']:.1f}",
                )
                for row in summary["batch"]
            ),
        ),
    ]
    if "measured" in summary:
        found.append(
            _table(
                "At the measured rates",
                ("reads", "arm", "concurrency", "decisions/s", "per 1,000"),
                (
                    (
                        row["set"],
                        row["arm"],
                        row["concurrency"],
                        f"{row['decisions_per_second']:.2f}",
                        _dollars(row["dollars_per_1000"]),
                    )
                    for row in summary["measured"]
                ),
            )
        )
    return found


def _peers(summary: dict[str, Any]) -> list[Table]:
    return [
        _table(
            "Peers",
            ("peer", "decisions/s", "onepass is faster by", "memory GiB", "start s"),
            (
                (
                    row["peer"],
                    f"{row['decisions_per_second']:.2f}",
                    ""
                    if row["onepass_is_faster_by"] is None
                    else f"{row['onepass_is_faster_by']:.2f} x",
                    f"{row['memory_gib']:.2f}",
                    f"{row['start_seconds']:.1f}",
                )
                for row in summary["peers"]
            ),
        ),
        _agreement(summary, "this project's engine"),
    ]


def _roofline(summary: dict[str, Any]) -> list[Table]:
    machine = summary["machine"]
    floors = _table(
        "A read against its floor, ms",
        ("prompt", "in flight", "bound by", "floor", "measured", "over floor", *_PARTS),
        (
            (
                row["prompt"],
                row["in_flight"],
                row["bound_by"],
                _milliseconds(row["floor_seconds"]),
                _milliseconds(row["seconds"]),
                f"{row['over_floor']:.1f} x",
                *(_milliseconds(row[p]) for p in _PARTS),
            )
            for row in summary["reads"]
        ),
    )
    floors.caption = (
        f"{machine['threads']} threads, {machine['dtype']}: "
        f"{machine['bytes_per_second'] / 1e9:.1f} GB/s, "
        f"{machine['flops_per_second'] / 1e9:.0f} GFLOP/s"
    )
    above = _table(
        "What lies above the floor, ms a read",
        ("prompt", "in flight", "first", "second", "third"),
        (
            (
                row["prompt"],
                row["in_flight"],
                *(
                    f"{name} {_milliseconds(seconds)}"
                    for name, seconds in list(row["above_floor"].items())[:3]
                ),
            )
            for row in summary["reads"]
        ),
    )
    predictions = _table(
        "The released model: floor, ms (whole socket to share of a socket), and what was measured",
        ("what", "machine", "floor", "measured", "over floor"),
        (
            (
                row["what"],
                row["machine"],
                _range(row["floor_seconds"], _milliseconds),
                ""
                if row["measured_seconds"] is None
                else _range(row["measured_seconds"], _milliseconds),
                "" if row["over_floor"] is None else _range(row["over_floor"], "{:.1f} x".format),
            )
            for row in summary["predictions"]
        ),
    )
    return [floors, above, predictions]


def _range(bounds: list[float] | None, shown: Callable[[float], str]) -> str:
    if bounds is None:
        return ""
    low, high = (shown(value) for value in bounds)
    return low if low == high else f"{low} to {high}"
