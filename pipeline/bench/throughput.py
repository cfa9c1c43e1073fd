"""Decisions per second and median latency as the number of requests in flight grows.

A caller per place in flight sends its next read as soon as it has an answer, so the engine sees
the load a server sees. The second read of a conditional request is one of the fixed reads and does
not wait for the first.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

from pipeline.bench.arms import Bench, configuration_of, start
from pipeline.bench.results import BenchResult, Recorder
from pipeline.bench.workload import Request, all_reads, description

ARMS = {"flag off": "flag_off", "flag on": "single_pass"}
SATURATED = 0.03
"""Saturation: the smallest concurrency within this share of the highest throughput."""

Progress = Callable[[int, int], None]


def run(
    bench: Bench,
    sets: Mapping[str, list[Request]],
    concurrencies: Sequence[int],
    passes: int,
    progress: Progress,
) -> BenchResult:
    """Measure every set at every concurrency, the arms in turn, `passes` times."""
    configuration = bench.configuration(
        sets=description(sets), passes=passes, concurrencies=list(concurrencies)
    )
    recorder = Recorder("throughput", bench.size, configuration)
    rounds = [
        (number, name, level)
        for number in range(passes)
        for name in sets
        for level in concurrencies
    ]
    with ExitStack() as stack:
        arms = start(
            stack, bench.size, [bench.spec(n, build, "stepped") for n, build in ARMS.items()]
        )
        for arm in arms:
            arm.read(all_reads(next(iter(sets.values()))[:1]))
        for place, (number, name, level) in enumerate(rounds):
            reads = all_reads(sets[name])
            for arm in arms if (place + number) % 2 == 0 else arms[::-1]:
                arm.forget()
                loop = arm.loop(reads, level)
                recorder.samples.append(
                    {
                        "set": name,
                        "concurrency": level,
                        "arm": arm.spec.name,
                        "pass": number,
                        "seconds": loop.seconds,
                        "reads": len(reads),
                        "decisions": sum(request.decisions for request in sets[name]),
                        "steps": loop.steps,
                        "latencies": loop.latencies,
                    }
                )
            progress(place + 1, len(rounds))
        arms_configuration = configuration_of(arms)
    return recorder.finish(summarise(recorder.samples), arms=arms_configuration)


def summarise(samples: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Rows by set, concurrency and arm; the gain by concurrency; where each arm saturates."""
    groups: dict[tuple[str, int, str], list[Mapping[str, Any]]] = defaultdict(list)
    for sample in samples:
        groups[sample["set"], sample["concurrency"], sample["arm"]].append(sample)
    rows = []
    for (name, level, arm), found in groups.items():
        seconds = sum(sample["seconds"] for sample in found)
        latencies = sorted(value for sample in found for value in sample["latencies"])
        rows.append(
            {
                "set": name,
                "concurrency": level,
                "arm": arm,
                "decisions_per_second": sum(s["decisions"] for s in found) / seconds,
                "reads_per_second": sum(s["reads"] for s in found) / seconds,
                "median_latency": latencies[len(latencies) // 2],
                "steps": sum(s["steps"] for s in found) / len(found),
            }
        )
    return {
        "rows": rows,
        "gains": _gains(rows),
        "saturation": _saturation(rows),
    }


def _gains(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Change of throughput and of median latency, flag on against off."""
    by_key = {(r["set"], r["concurrency"], r["arm"]): r for r in rows}
    found = []
    for (name, level, arm), row in by_key.items():
        if arm == "flag on":
            other = by_key[name, level, "flag off"]
            found.append(
                {
                    "set": name,
                    "concurrency": level,
                    "throughput": row["decisions_per_second"] / other["decisions_per_second"] - 1,
                    "median_latency": row["median_latency"] / other["median_latency"] - 1,
                }
            )
    return found


def _saturation(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    curves: dict[tuple[str, str], dict[int, float]] = defaultdict(dict)
    for row in rows:
        curves[row["set"], row["arm"]][row["concurrency"]] = row["decisions_per_second"]
    return [
        {
            "set": name,
            "arm": arm,
            "concurrency": min(
                level
                for level, rate in curve.items()
                if rate >= (1 - SATURATED) * max(curve.values())
            ),
            "decisions_per_second": max(curve.values()),
        }
        for (name, arm), curve in curves.items()
    ]
