"""From engine steps to hours and dollars, per machine type and number of workers."""

from __future__ import annotations

import math
from dataclasses import dataclass

from pipeline.estimating.machines import Machines
from pipeline.estimating.steps import StepCount

WORKERS = (1, 2, 4, 8)
NIGHTS_PER_MONTH = 30

ASSUMPTIONS = (
    "engine time = seconds per step x steps + seconds per token x tokens computed, for the model "
    "and machines named in machines.yaml",
    "every worker pays its start-up once; parts are spread evenly, and a part runs on one worker",
    "reading, writing and shuffling take no time of their own; shuffled bytes are not billed here",
    "the prefix cache holds what neighbouring reads share; nothing is evicted between them",
)


@dataclass(frozen=True, slots=True)
class Estimate:
    """One run on `workers` machines of a type: wall-clock hours, and dollars with and without
    FlexRS (cheaper, starts within six hours)."""

    machine_type: str
    workers: int
    hours: float
    dollars: float
    flexrs_dollars: float


@dataclass(frozen=True, slots=True)
class MonthlyChoice:
    """A run every night against as many always-on replicas as the reads keep busy; they are busy
    for `share_of_capacity` of the time, counted in replicas."""

    machine_type: str
    reads_per_month: float
    nightly_dollars: float
    replicas: int
    always_on_dollars: float
    always_on_dollars_per_1000: float
    share_of_capacity: float


def engine_hours(steps: StepCount, machine_type: str, machines: Machines) -> float:
    """Hours inside engine steps on one machine whose speed is known."""
    rate = machines.throughput.machines[machine_type]
    return rate.seconds(steps.steps, steps.computed_tokens + steps.canvas_tokens) / 3600


def estimates(steps: StepCount, parts: int, machines: Machines) -> list[Estimate]:
    """Every machine whose speed is known, with every number of workers that has work to do."""
    startup = machines.dataflow.startup_minutes / 60
    found = []
    for machine_type in machines.throughput.machines:
        alone = engine_hours(steps, machine_type, machines)
        for workers in WORKERS:
            if workers > max(1, parts):
                break
            longest = -(-parts // workers) / parts if parts else 0.0  # share of the busiest worker
            hours = startup + alone * longest
            hourly, flexrs = (
                machines.dollars_per_hour(machine_type, flexrs=cheap) for cheap in (False, True)
            )
            found.append(
                Estimate(machine_type, workers, hours, hours * workers * hourly,
                         hours * workers * flexrs)
            )  # fmt: skip
    return found


def monthly_choices(steps: StepCount, parts: int, machines: Machines) -> list[MonthlyChoice]:
    """A nightly run on one worker against the always-on price, where both are known."""
    found = []
    reads = steps.reads * NIGHTS_PER_MONTH
    for estimate in estimates(steps, parts, machines):
        replica = machines.always_on.replicas.get(estimate.machine_type)
        if replica is None or estimate.workers != 1 or not reads:
            continue
        hours = engine_hours(steps, estimate.machine_type, machines)
        busy = hours * NIGHTS_PER_MONTH / machines.always_on.hours_per_month
        replicas = max(1, math.ceil(busy))
        per_1000 = machines.always_on.dollars_per_1000(estimate.machine_type, reads)
        found.append(
            MonthlyChoice(
                estimate.machine_type,
                reads,
                estimate.dollars * NIGHTS_PER_MONTH,
                replicas,
                replica.dollars_per_month * replicas,
                per_1000 * replicas,
                busy / replicas,
            )
        )
    return found
