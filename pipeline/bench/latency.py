"""Latency of one request at a time: baseline, the baseline again, the flag off, the flag on.

Every pass starts its engines anew, the next one first: where a process happens to lie in memory
makes it some percent faster or slower as long as it lives. In a pass each request is answered by
all arms before the next one, so that whatever else the machine does touches all arms alike. The
orders of the arms are balanced within a set: who is asked first, or after whom, makes some percent,
too. Prefix caches are emptied before each request: it pays for its whole prompt in every pass.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import permutations
from typing import Any

from engine.bench.arms import Arm
from pipeline.bench.arms import (
    BASELINE,
    FLAG_OFF,
    FLAG_ON,
    LATENCY_ARMS,
    REPEAT,
    Bench,
    configuration_of,
    start,
)
from pipeline.bench.comparison import paired_change, percentiles, verdict
from pipeline.bench.results import BenchResult, Recorder
from pipeline.bench.workload import Request, description

_ORDER_SEED = 42
KV_CACHE_GIB = 0.5  # one request at a time needs little, and several engines share the memory

Progress = Callable[[int, int], None]


def run(
    bench: Bench,
    sets: Mapping[str, list[Request]],
    passes: int,
    target_seconds: float,
    progress: Progress,
    *,
    with_flag_off: bool = True,
) -> BenchResult:
    """Measure every request of every set `passes` times on every arm.

    Each arm holds the whole model; `with_flag_off` False saves one where memory is short.
    """
    configuration = bench.configuration(
        sets=description(sets), passes=passes, concurrency=1, target_seconds=target_seconds
    )
    recorder = Recorder("latency", bench.size, configuration)
    requests = [request for found in sets.values() for request in found]
    builds = {n: b for n, b in LATENCY_ARMS.items() if with_flag_off or n != FLAG_OFF}
    specs = [bench.spec(name, b, kv_cache_gib=KV_CACHE_GIB) for name, b in builds.items()]
    arms_configuration: dict[str, Any] = {}
    rng = random.Random(_ORDER_SEED)
    orders = {name: balanced_orders(list(builds), rng) for name in sets}
    for number in range(passes):
        first = number % len(specs)
        with ExitStack() as stack:
            arms = start(stack, bench.size, specs[first:] + specs[:first])
            for arm in arms:
                _answer(arm, requests[0])  # an engine's first read is not its latency
            by_name = {arm.spec.name: arm for arm in arms}
            for place, request in enumerate(requests):
                for name in next(orders[request.set_name]):
                    recorder.samples.append(_answer(by_name[name], request) | {"pass": number})
                progress(number * len(requests) + place + 1, passes * len(requests))
            arms_configuration = configuration_of(arms)
    summary = summarise(recorder.samples, list(sets), passes, target_seconds)
    return recorder.finish(summary, arms=arms_configuration)


def balanced_orders(names: Sequence[str], rng: random.Random) -> Iterator[tuple[str, ...]]:
    """Every order of `names` once in a random sequence, then all of them again, without end."""
    orders = list(permutations(names))
    while True:
        rng.shuffle(orders)
        yield from orders


def _answer(arm: Arm, request: Request) -> dict[str, Any]:
    """One request, its reads one after the other."""
    arm.forget()
    calls = [arm.read([read]) for read in request.reads]
    return {
        "set": request.set_name,
        "request": request.name,
        "arm": arm.spec.name,
        "seconds": sum(call.seconds for call in calls),
        "cpu_seconds": sum(call.cpu_seconds for call in calls),
        "engine_seconds": sum(call.counters.engine_seconds for call in calls),
        "steps": sum(call.counters.steps for call in calls),
        "prompt_tokens": request.prompt_tokens,
        "prompt_tokens_computed": sum(call.counters.prompt_tokens_computed for call in calls),
    }


def summarise(
    samples: list[dict[str, Any]], sets: list[str], passes: int, target_seconds: float
) -> dict[str, Any]:
    """Percentiles, requests over target, time outside steps, paired changes, the verdict."""
    arms = [arm for arm in LATENCY_ARMS if any(s["arm"] == arm for s in samples)]
    compared = [arm for arm in arms if arm != BASELINE]
    seconds: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    outside: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for name in [*sets, "all"]:
        for sample in _part(samples, name, "all"):
            seconds[name][sample["arm"]].append(sample["seconds"])
            outside[name][sample["arm"]].append(sample["seconds"] - sample["engine_seconds"])
    latency = {
        name: {
            arm: percentiles(by_arm[arm])
            | {
                "requests": len(by_arm[arm]),
                "over_target": sum(value > target_seconds for value in by_arm[arm]),
                "seconds_outside_steps": sum(outside[name][arm]) / len(by_arm[arm]),
                "share_outside_steps": sum(outside[name][arm]) / sum(by_arm[arm]),
            }
            for arm in arms
        }
        for name, by_arm in seconds.items()
    }
    changes = [
        {"set": name, "pass": number, "arm": arm}
        | paired_change(_part(samples, name, number), arm, BASELINE)
        for name in [*sets, "all"]
        for number in [*range(passes), "all"]
        for arm in compared
    ]
    cpu_changes = [
        {"set": name, "pass": "all", "arm": arm}
        | paired_change(_part(samples, name, "all"), arm, BASELINE, "cpu_seconds")
        for name in [*sets, "all"]
        for arm in compared
    ]
    by_pass = {
        (change["arm"], change["pass"]): float(change["change"])
        for change in changes
        if change["set"] == "all"
    }
    decided = verdict([(by_pass[FLAG_ON, n], by_pass[REPEAT, n]) for n in range(passes)])
    return {
        "latency": latency,
        "changes": changes,
        "cpu_changes": cpu_changes,
        "saved": _saved(samples, sets),
        "speedup": decided,
    }


def _part(samples: list[dict[str, Any]], name: str, number: int | str) -> list[dict[str, Any]]:
    return [
        sample
        for sample in samples
        if name in (sample["set"], "all") and number in (sample["pass"], "all")
    ]


def _saved(samples: list[dict[str, Any]], sets: list[str]) -> dict[str, dict[str, float]]:
    """Seconds saved per removed step and mean prompt, by set: about constant while prompts grow."""
    found = {}
    for name in sets:
        chosen = {
            arm: [s for s in samples if s["set"] == name and s["arm"] == arm]
            for arm in (BASELINE, FLAG_ON)
        }
        steps = {arm: sum(s["steps"] for s in chosen[arm]) for arm in chosen}
        seconds = {arm: sum(s["seconds"] for s in chosen[arm]) for arm in chosen}
        removed = steps[BASELINE] - steps[FLAG_ON]
        computed = sum(s["prompt_tokens_computed"] for s in chosen[FLAG_ON])
        found[name] = {
            "removed_steps": removed,
            "seconds_per_removed_step": (seconds[BASELINE] - seconds[FLAG_ON]) / max(removed, 1),
            "prompt_tokens_computed_per_request": computed / len(chosen[FLAG_ON]),
        }
    return found
