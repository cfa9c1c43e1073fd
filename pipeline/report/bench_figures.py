"""The seed's figures 4, 5 and 6 for a benchmark's numbers, as SVG, the seed's own beside them."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from importlib.resources import files
from typing import Any

import yaml

from pipeline.bench.results import BenchResult
from pipeline.estimating.machines import load_machines

_COLOURS = ("#1f6f8b", "#c8553d", "#588157", "#8d6a9f", "#b08900", "#5f6b73")
_VOLUMES = (10_000, 30_000, 100_000, 300_000, 1_000_000, 3_000_000, 10_000_000)


def seed_results() -> dict[str, Any]:
    """`configs/bench/seed_results.yaml`."""
    text = files("configs").joinpath("bench", "seed_results.yaml").read_text(encoding="utf-8")
    found: dict[str, Any] = yaml.safe_load(text)
    return found


def latency_figure(result: BenchResult) -> str:
    """Figure 4: (a) change against the baseline, (b) latency of every request."""

    def draw(axes: Sequence[Any]) -> None:
        changes, latencies = axes
        rows = [
            (f"{c['set']}, {c['arm']}", c["change"], c["low"], c["high"])
            for c in result.summary["changes"]
            if c["pass"] == "all" and c["arm"] != "flag off"
        ]
        rows += [
            (f"the seed, {machine}", found["change"], found["low"], found["high"])
            for machine, found in seed_results()["latency"].items()
        ]
        _intervals(changes, rows)
        changes.set_title("(a) Change of latency, 95% interval", loc="left", fontsize=9)
        target = result.configuration["target_seconds"]
        names = list(result.configuration["sets"])
        arms = ("baseline", "flag on")
        for number, arm in enumerate(arms):
            values = [
                [s["seconds"] for s in result.samples if s["set"] == name and s["arm"] == arm]
                for name in names
            ]
            _boxes(latencies, values, number, len(arms), arm)
        latencies.set_xticks(range(len(names)), names, fontsize=8)
        latencies.axhline(target, linestyle="--", color="#444", linewidth=0.8)
        latencies.set_ylabel("seconds, whiskers at p5 and p95", fontsize=8)
        latencies.legend(fontsize=8, frameon=False)
        latencies.set_title("(b) Latency of every request", loc="left", fontsize=9)

    return _figure(2, draw)


def throughput_figure(result: BenchResult) -> str:
    """Figure 5: median latency against throughput, and the gain by concurrency."""

    def draw(axes: Sequence[Any]) -> None:
        curves, gains = axes
        names = list(dict.fromkeys(row["set"] for row in result.summary["rows"]))
        for number, name in enumerate(names):
            for arm, style in (("flag off", "--"), ("flag on", "-")):
                rows = [
                    row
                    for row in result.summary["rows"]
                    if row["set"] == name and row["arm"] == arm
                ]
                curves.plot(
                    [row["decisions_per_second"] for row in rows],
                    [row["median_latency"] for row in rows],
                    style,
                    marker="o",
                    markersize=3,
                    color=_COLOURS[number % len(_COLOURS)],
                    label=f"{name}, {arm}",
                )
            gain = [g for g in result.summary["gains"] if g["set"] == name]
            gains.plot(
                [g["concurrency"] for g in gain],
                [100 * g["throughput"] for g in gain],
                marker="o",
                markersize=3,
                color=_COLOURS[number % len(_COLOURS)],
                label=name,
            )
        for style, (machine, found) in zip(
            ("x", "+"), seed_results()["throughput_gain"].items(), strict=True
        ):
            low, high = (100 * bound for bound in found["5 to 20"])
            gains.fill_between([5, 20], low, high, alpha=0.15, label=f"the seed, {machine}")
            gains.plot([2], [100 * found["2"][0]], style, color="#444")
        curves.set_xlabel("decisions per second", fontsize=8)
        curves.set_ylabel("median latency, seconds", fontsize=8)
        curves.set_title("(a) Latency against throughput", loc="left", fontsize=9)
        gains.set_xlabel("requests in flight", fontsize=8)
        gains.set_ylabel("gain of throughput, %", fontsize=8)
        gains.set_title("(b) Gain by concurrency", loc="left", fontsize=9)
        for axis in axes:
            axis.legend(fontsize=7, frameon=False)

    return _figure(2, draw)


def cost_figure(result: BenchResult) -> str:
    """Figure 6: (a) one always-on replica by volume, (b) busy replicas and batch."""

    def draw(axes: Sequence[Any]) -> None:
        idle, busy = axes
        always_on = load_machines().always_on
        for number, (name, replica) in enumerate(always_on.replicas.items()):
            idle.plot(
                _VOLUMES,
                [always_on.dollars_per_1000(name, volume) for volume in _VOLUMES],
                color=_COLOURS[number],
                label=replica.label,
            )
        full = min(
            row["dollars_per_1000"] for row in result.summary["busy"] if row["load"] == "full"
        )
        idle.axhline(full, linestyle="--", color="#444", linewidth=0.8)
        idle.set_xscale("log")
        idle.set_yscale("log")
        idle.set_xlabel("decisions a month", fontsize=8)
        idle.set_ylabel("dollars per 1,000 decisions", fontsize=8)
        idle.legend(fontsize=7, frameon=False)
        idle.set_title("(a) One always-on replica; full load dashed", loc="left", fontsize=9)
        bars = [
            (f"{row['replica']}, {row['load']}", row["dollars_per_1000"])
            for row in result.summary["busy"]
        ]
        for row in result.summary["batch"]:
            bars.append((f"{row['machine']}, Dataflow", row["dollars_per_1000"]))
            bars.append((f"{row['machine']}, FlexRS", row["dollars_per_1000_flexrs"]))
        for row in result.summary.get("measured", ()):
            label = f"measured: {row['set']}, {row['arm']}, {row['concurrency']} in flight"
            bars.append((label, row["dollars_per_1000"]))
        busy.barh([label for label, _ in bars], [value for _, value in bars], color=_COLOURS[0])
        busy.invert_yaxis()
        busy.tick_params(axis="y", labelsize=6)
        busy.set_xlabel("dollars per 1,000 decisions", fontsize=8)
        busy.set_title("(b) Busy, and in batch", loc="left", fontsize=9)

    return _figure(2, draw)


FIGURES: dict[str, Callable[[BenchResult], str]] = {
    "latency": latency_figure,
    "throughput": throughput_figure,
    "cost": cost_figure,
}
"""The figure of a result, by benchmark; the others have tables only."""


def _intervals(axis: Any, rows: Sequence[tuple[str, float, float, float]]) -> None:
    for number, (label, change, low, high) in enumerate(rows):
        colour = "#444" if label.startswith("the seed") else _COLOURS[0]
        axis.plot([100 * low, 100 * high], [number, number], color=colour)
        axis.plot([100 * change], [number], "o", color=colour, markersize=4)
    axis.axvline(0, color="#999", linewidth=0.8)
    axis.set_yticks(range(len(rows)), [row[0] for row in rows], fontsize=7)
    axis.invert_yaxis()
    axis.set_xlabel("%", fontsize=8)


def _boxes(axis: Any, values: Sequence[list[float]], number: int, arms: int, label: str) -> None:
    width = 0.7 / arms
    drawn = axis.boxplot(
        values,
        positions=[place + (number - (arms - 1) / 2) * width for place in range(len(values))],
        widths=0.8 * width,
        whis=(5, 95),
        showfliers=False,
        patch_artist=True,
        manage_ticks=False,
    )
    for box in drawn["boxes"]:
        box.set(facecolor=_COLOURS[number], alpha=0.5)
    axis.plot([], [], color=_COLOURS[number], label=label)


def _figure(columns: int, draw: Callable[[Sequence[Any]], None]) -> str:
    """An SVG of axes side by side, without a date, so that equal results give equal files."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.2 * columns, 3.6), layout="constrained")
    draw([figure.add_subplot(1, columns, 1 + number) for number in range(columns)])
    for axis in figure.axes:
        axis.spines[["top", "right"]].set_visible(False)
        axis.tick_params(labelsize=7)
    stream = io.StringIO()
    figure.savefig(stream, format="svg", metadata={"Date": None})
    svg = stream.getvalue()
    return svg[svg.index("<svg") :]
