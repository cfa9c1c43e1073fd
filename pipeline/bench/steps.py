"""Engine steps for the same reads with single_pass_reads off and on.

Counted three times over: by the scheduler, by whoever steps the engine, and by a hook on the
model's forward pass. The seed's numbers for its 231 items: 462 to 231 one at a time, 174 to 116
four at a time.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

from engine.bench.arms import Arm, Timed
from engine.reads import EngineCounters, Read, ReadResult
from pipeline.bench.arms import Bench, configuration_of, start
from pipeline.bench.comparison import agreement
from pipeline.bench.results import BenchResult, Recorder
from pipeline.bench.workload import Request, all_reads, description

ARMS = {"off": "flag_off", "on": "single_pass"}
TOGETHER = 4

MODES = {
    "one at a time": "each read alone",
    "four at a time": "four reads handed over together",
    "four arriving": "of four reads the first starts alone and the others arrive during its first "
    "step, as they reach a server over four connections",
}
SEED = {"one at a time": {"off": 462, "on": 231}, "four arriving": {"off": 174, "on": 116}}
"""What the seed counted for its 231 items; its four at a time were sent to a server."""


def run(bench: Bench, sets: Mapping[str, list[Request]]) -> BenchResult:
    """Count the steps of every set in every mode, off and on."""
    recorder = Recorder("steps", bench.size, bench.configuration(sets=description(sets)))
    results: dict[str, dict[str, list[ReadResult]]] = {}
    with ExitStack() as stack:
        specs = [bench.spec(name, shipped, "stepped") for name, shipped in ARMS.items()]
        arms = start(stack, bench.size, specs, count_forwards=True)
        for name, requests in sets.items():
            reads = all_reads(requests)
            for arm in arms:
                for mode in MODES:
                    arm.forget()
                    timed = _ask(arm, reads, mode)
                    recorder.samples.append(_sample(name, mode, arm, reads, timed))
                    if mode == "one at a time":
                        results.setdefault(name, {})[arm.spec.name] = timed.results
        configuration = configuration_of(arms)
    summary = {
        "steps": _table(recorder.samples),
        "agreement": {
            name: agreement(found["off"], found["on"]) for name, found in results.items()
        },
        "seed": SEED,
    }
    return recorder.finish(summary, arms=configuration, modes=MODES)


def _ask(arm: Arm, reads: list[Read], mode: str) -> Timed:
    """Answer all reads in the manner of `mode`; what it cost in all."""
    size = 1 if mode == "one at a time" else TOGETHER
    results: list[ReadResult] = []
    seconds, cpu_seconds, counters, forwards = 0.0, 0.0, EngineCounters(), 0
    for begin in range(0, len(reads), size):
        group = reads[begin : begin + size]
        timed = arm.arriving(group) if mode == "four arriving" else arm.read(group)
        results += timed.results
        seconds += timed.seconds
        cpu_seconds += timed.cpu_seconds
        counters += timed.counters
        forwards += timed.forwards or 0
    return Timed(results, seconds, cpu_seconds, counters, forwards)


def _sample(name: str, mode: str, arm: Arm, reads: list[Read], timed: Timed) -> dict[str, Any]:
    return {
        "set": name,
        "mode": mode,
        "arm": arm.spec.name,
        "reads": len(reads),
        "steps": timed.counters.steps,
        "forward_passes": timed.forwards,
        "prompt_tokens_computed": timed.counters.prompt_tokens_computed,
        "canvas_tokens": timed.counters.canvas_tokens,
        "logits_columns": timed.counters.logits_columns,
        "seconds": timed.seconds,
    }


def _table(samples: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One row per set and mode: reads, steps off and on, and whether all counts agree."""
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    for sample in samples:
        row = rows.setdefault(
            (sample["set"], sample["mode"]),
            {"set": sample["set"], "mode": sample["mode"], "reads": sample["reads"]},
        )
        row[sample["arm"]] = sample["steps"]
        row["counts_agree"] = (
            row.get("counts_agree", True) and sample["steps"] == sample["forward_passes"]
        )
    return list(rows.values())
