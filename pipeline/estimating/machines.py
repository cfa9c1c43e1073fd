"""Machines and what they cost: `configs/machines.yaml`, and the arithmetic on it.

Nothing here knows a price of its own; every number comes from the file, which says where it is
from. Money is in US dollars, memory in GB as the price list counts it, time as named.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import date
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Self

import yaml
from pydantic import BaseModel, ConfigDict, Field, model_validator


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Source(_Strict):
    """Where a number is from, and when it was stated."""

    what: str
    stated: date


class Replica(_Strict):
    """One always-on deployment."""

    dollars_per_month: float = Field(gt=0)
    label: str


class Busy(_Strict):
    """What a replica's decisions cost while it is busy."""

    replica: str
    load: str
    dollars_per_1000: float = Field(gt=0)


class AlwaysOn(_Strict):
    """Replicas that run around the clock, and what they cost."""

    source: str
    hours_per_month: float
    replicas: dict[str, Replica]
    busy: tuple[Busy, ...]

    def dollars_per_1000(self, replica: str, decisions_per_month: float) -> float:
        """The monthly price spread over the month's decisions."""
        return self.replicas[replica].dollars_per_month / decisions_per_month * 1000

    def decisions_per_second(self, busy: Busy) -> float:
        """The throughput that a busy replica's price per decision implies."""
        hourly = self.replicas[busy.replica].dollars_per_month / self.hours_per_month
        return hourly / busy.dollars_per_1000 * 1000 / 3600


class DiskPrices(_Strict):
    """Dollars per GB and hour."""

    standard: float
    ssd: float


class DataflowPrices(_Strict):
    """What Dataflow bills for a batch worker, and how long one takes before its first read."""

    source: str
    region: str
    dollars_per_vcpu_hour: float
    dollars_per_gb_hour: float
    dollars_per_disk_gb_hour: DiskPrices
    dollars_per_shuffle_gb: float
    flexrs_discount: float = Field(ge=0, lt=1)
    startup_minutes: float = Field(ge=0)


class Family(_Strict):
    """What holds for every machine of a series; `disk_type` null leaves it to Dataflow."""

    amx: bool
    disk_type: str | None
    disk_size_gb: int


class Shape(_Strict):
    """One machine type."""

    family: str
    vcpus: int
    memory_gb: float
    source: str


class Rate(_Strict):
    """Engine seconds = step_seconds x steps + token_seconds x tokens computed."""

    step_seconds: float = Field(gt=0)
    token_seconds: float = Field(ge=0)

    def seconds(self, steps: float, tokens: float) -> float:
        return self.step_seconds * steps + self.token_seconds * tokens


class Throughput(_Strict):
    """How fast machines work through reads of `model`."""

    source: str
    model: str
    machines: dict[str, Rate]


class Machines(_Strict):
    """The whole file."""

    sources: dict[str, Source]
    always_on: AlwaysOn
    dataflow: DataflowPrices
    machines: dict[str, Shape]
    families: dict[str, Family]
    throughput: Throughput

    @model_validator(mode="after")
    def _names_resolve(self) -> Self:
        always_on, throughput = self.always_on, self.throughput
        cited = [always_on.source, self.dataflow.source, throughput.source]
        cited += [shape.source for shape in self.machines.values()]
        problems = [
            *_unknown("replica", (busy.replica for busy in always_on.busy), always_on.replicas),
            *_unknown("family", (shape.family for shape in self.machines.values()), self.families),
            *_unknown("machine", throughput.machines, self.machines),
            *_unknown("source", cited, self.sources),
        ]
        if problems:
            raise ValueError("; ".join(problems))
        return self

    def family(self, machine_type: str) -> Family:
        return self.families[self.shape(machine_type).family]

    def shape(self, machine_type: str) -> Shape:
        try:
            return self.machines[machine_type]
        except KeyError:
            raise KeyError(
                f"machine type {machine_type!r} is not in machines.yaml; it has "
                f"{', '.join(sorted(self.machines))}"
            ) from None

    def dollars_per_hour(self, machine_type: str, *, flexrs: bool = False) -> float:
        """One Dataflow batch worker for an hour: vCPUs, memory and disk."""
        shape, family, prices = self.shape(machine_type), self.family(machine_type), self.dataflow
        compute = (
            shape.vcpus * prices.dollars_per_vcpu_hour
            + shape.memory_gb * prices.dollars_per_gb_hour
        )
        if flexrs:
            compute *= 1 - prices.flexrs_discount
        # A disk whose type Dataflow chooses is counted at the dearer price.
        standard = family.disk_type == "pd-standard"
        disk = prices.dollars_per_disk_gb_hour
        per_gb = disk.standard if standard else disk.ssd
        return compute + family.disk_size_gb * per_gb


def _unknown(what: str, names: Iterable[str], known: Mapping[str, object]) -> list[str]:
    return [f"{what} {name!r} is not defined" for name in sorted(set(names) - set(known))]


@cache
def load_machines(path: Path | None = None) -> Machines:
    """`path`, or the file that ships; raises `pydantic.ValidationError` with every problem."""
    source = path or files("configs").joinpath("machines.yaml")
    text = source.read_text(encoding="utf-8")
    return Machines.model_validate(yaml.safe_load(text))
