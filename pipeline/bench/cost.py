"""What decisions cost: one always-on replica, a busy one, and a batch that ends when it is done.

Prices and the seed's rates come from `configs/machines.yaml`; a throughput result adds a measured
rate for one machine.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from pipeline.bench.results import BenchResult, Recorder
from pipeline.estimating.machines import Busy, Machines

HOURS_TO_SECONDS = 3600
BATCH_READS = 16  # reads that share an engine step at full load
READ_TOKENS = 344  # computed a read, at which machines.yaml's rates were derived


def run(
    machines: Machines,
    volumes: Sequence[float],
    throughput: BenchResult | None = None,
    machine: str | None = None,
) -> BenchResult:
    """Cost tables; with `throughput`, also of `machine` (a replica) at its measured rates."""
    configuration = {
        "volumes": list(volumes),
        "sources": {name: s.model_dump(mode="json") for name, s in machines.sources.items()},
        "throughput": None if throughput is None else throughput.configuration,
        "machine": machine,
    }
    recorder = Recorder("cost", "full", configuration)
    summary: dict[str, Any] = {
        "always_on": _always_on(machines, volumes),
        "busy": _busy(machines),
        "break_even": _break_even(machines),
        "batch": _batch(machines),
    }
    if throughput is not None and machine is not None:
        summary["measured"] = measured(machines, throughput, machine)
    return recorder.finish(summary)


def _always_on(machines: Machines, volumes: Sequence[float]) -> list[dict[str, Any]]:
    return [
        {
            "replica": name,
            "label": replica.label,
            "dollars_per_month": replica.dollars_per_month,
            "dollars_per_1000": {
                str(int(volume)): machines.always_on.dollars_per_1000(name, volume)
                for volume in volumes
            },
        }
        for name, replica in machines.always_on.replicas.items()
    ]


def _busy(machines: Machines) -> list[dict[str, Any]]:
    return [
        {
            "replica": busy.replica,
            "load": busy.load,
            "dollars_per_1000": busy.dollars_per_1000,
            "decisions_per_second": machines.always_on.decisions_per_second(busy),
            "decisions_per_month": _capacity(machines, busy),
        }
        for busy in machines.always_on.busy
    ]


def _capacity(machines: Machines, busy: Busy) -> float:
    """Decisions a replica makes in a month at that load."""
    seconds = machines.always_on.hours_per_month * HOURS_TO_SECONDS
    return machines.always_on.decisions_per_second(busy) * seconds


def _break_even(machines: Machines) -> list[dict[str, Any]]:
    """From which monthly volume on the dearer of two machines is the cheaper one to run.

    Below it, replicas of the cheaper machine that carry the volume cost less. Each machine at the
    highest load it was measured at; None where the dearer one never wins, because it does not do
    more for its price.
    """
    best: dict[str, Busy] = {}
    for busy in machines.always_on.busy:
        known = best.get(busy.replica)
        if known is None or busy.dollars_per_1000 < known.dollars_per_1000:
            best[busy.replica] = busy
    prices = {name: machines.always_on.replicas[name].dollars_per_month for name in best}
    rows = []
    for cheap in sorted(best, key=prices.__getitem__):
        for dear in sorted(best, key=prices.__getitem__):
            if prices[dear] > prices[cheap]:
                rows.append(
                    {
                        "cheaper": cheap,
                        "dearer": dear,
                        "decisions_per_month": break_even(
                            prices[cheap],
                            _capacity(machines, best[cheap]),
                            prices[dear],
                            _capacity(machines, best[dear]),
                        ),
                    }
                )
    return rows


def break_even(
    cheap_price: float, cheap_capacity: float, dear_price: float, dear_capacity: float
) -> float | None:
    """Monthly volume above which replicas of the dearer machine cost less, or None if never.

    Whole replicas are paid for on both sides. Prices are a month's, capacities decisions a month.

    >>> break_even(100, 10, 250, 100)
    20
    >>> break_even(100, 10, 250, 20) is None
    True
    """
    if dear_price / dear_capacity >= cheap_price / cheap_capacity:
        return None
    replicas = 1
    while True:
        # The largest number of cheap replicas that is no dearer than `replicas` dear ones.
        volume = math.floor(replicas * dear_price / cheap_price) * cheap_capacity
        if volume < replicas * dear_capacity:
            return volume
        replicas += 1


def _batch(machines: Machines) -> list[dict[str, Any]]:
    """Dollars per 1,000 decisions of a Dataflow worker, which stops when the batch is done."""
    rows = []
    for name, rate in machines.throughput.machines.items():
        seconds = rate.seconds(1 / BATCH_READS, READ_TOKENS)
        rows.append(
            {
                "machine": name,
                "decisions_per_second": 1 / seconds,
                "dollars_per_hour": machines.dollars_per_hour(name),
                "dollars_per_1000": _per_1000(machines.dollars_per_hour(name), 1 / seconds),
                "dollars_per_1000_flexrs": _per_1000(
                    machines.dollars_per_hour(name, flexrs=True), 1 / seconds
                ),
                "hours_per_100000": seconds * 100_000 / HOURS_TO_SECONDS,
            }
        )
    return rows


def _per_1000(dollars_per_hour: float, decisions_per_second: float) -> float:
    return dollars_per_hour / HOURS_TO_SECONDS / decisions_per_second * 1000


def measured(machines: Machines, throughput: BenchResult, machine: str) -> list[dict[str, Any]]:
    """Dollars per 1,000 decisions at each measured concurrency, at that replica's price.

    Raises KeyError for a replica that machines.yaml does not price.
    """
    try:
        price = machines.always_on.replicas[machine].dollars_per_month
    except KeyError:
        known = ", ".join(machines.always_on.replicas)
        raise KeyError(
            f"replica {machine!r} has no price in machines.yaml; it has {known}"
        ) from None
    hourly = price / machines.always_on.hours_per_month
    return [
        {
            "set": row["set"],
            "arm": row["arm"],
            "concurrency": row["concurrency"],
            "decisions_per_second": row["decisions_per_second"],
            "dollars_per_1000": _per_1000(hourly, row["decisions_per_second"]),
        }
        for row in throughput.summary["rows"]
    ]
