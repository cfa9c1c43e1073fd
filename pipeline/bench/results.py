"""What a benchmark leaves behind: one JSON file with everything needed to judge its numbers."""

from __future__ import annotations

import os
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from engine.facts import package_version, vllm_version
from engine.machine import read_machine

Size = Literal["quick", "full"]
Bench = Literal["steps", "latency", "throughput", "batches", "cost", "peers", "roofline"]


class BenchResult(BaseModel):
    """One run of one benchmark.

    Attributes:
        bench: which one.
        date: when it began, UTC.
        size: `quick` results prove that it runs; their times mean nothing.
        environment: machine, versions, load.
        configuration: arms, reads, repetitions.
        samples: every measurement, unsummarised.
        summary: what the tables and figures show.
    """

    model_config = ConfigDict(extra="forbid")

    bench: Bench
    date: datetime
    size: Size
    environment: dict[str, Any]
    configuration: dict[str, Any]
    samples: list[dict[str, Any]]
    summary: dict[str, Any]

    def write(self, path: Path) -> Path:
        """Write as JSON; the file is there whole or not at all."""
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(".part")
        part.write_text(self.model_dump_json(indent=1) + "\n", encoding="utf-8")
        return part.replace(path)

    def default_path(self, folder: Path) -> Path:
        """`folder`/BENCH-MODEL-TIME.json."""
        model = Path(str(self.configuration.get("model", "prices"))).name
        return folder / f"{self.bench}-{model}-{self.date:%Y%m%dT%H%M%SZ}.json"


def read_result(path: Path) -> BenchResult:
    """A result file; raises `pydantic.ValidationError` when it is none."""
    return BenchResult.model_validate_json(path.read_text(encoding="utf-8"))


class Recorder:
    """Notes when and where a benchmark began, and makes the result at its end."""

    def __init__(self, bench: Bench, size: Size, configuration: dict[str, Any]) -> None:
        self._bench, self._size, self._configuration = bench, size, configuration
        self._date = datetime.now(UTC)
        self._environment = environment()
        self.samples: list[dict[str, Any]] = []

    def finish(self, summary: dict[str, Any], **configuration: Any) -> BenchResult:
        """The result; `configuration` is what became known only while measuring."""
        load = {"load_average_at_end": os.getloadavg()[0]}
        return BenchResult(
            bench=self._bench,
            date=self._date,
            size=self._size,
            environment=self._environment | load,
            configuration=self._configuration | configuration,
            samples=self.samples,
            summary=summary,
        )


def environment() -> dict[str, Any]:
    """Facts about this machine and what is installed on it."""
    machine = read_machine()
    packages = ("onepass", "torch", "transformers", "apache-beam", "numpy")
    return {
        "cpu_model": machine.cpu_model,
        "cpu_features": list(machine.cpu_features),
        "cpus": machine.cpus,
        "memory_gib": round(machine.memory_gib, 1),
        "load_average_at_start": os.getloadavg()[0],
        "versions": {name: package_version(name) for name in packages} | {"vllm": vllm_version()},
        "python": ".".join(map(str, sys.version_info[:3])),
    }
