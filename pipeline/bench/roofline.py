"""How far a read is from the floor, where the time goes, and the floor on other machines."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict
from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict

from engine.bench.arms import Loop
from engine.bench.machine_rates import measure_rates
from engine.bench.read_sets import fixed_length_reads
from engine.bench.roofline import BYTES, Rates, ReadShape, Shape
from engine.environment import threads_of
from pipeline.bench.arms import Bench, configuration_of, start
from pipeline.bench.results import BenchResult, Recorder

PEAKS = Path(str(files("configs").joinpath("bench", "roofline.yaml")))
FULL_BATCH = 16
_WIDTH, _LABELS = 32, 5


class Peak(BaseModel):
    """A machine's peaks; bandwidth from its share of a socket to the whole socket."""

    model_config = ConfigDict(extra="forbid")

    gigabytes_per_second: tuple[float, float]
    teraflops: float
    source: str

    def rates(self) -> tuple[Rates, Rates]:
        """Slowest and fastest."""
        low, high = (
            Rates(gigabytes * 1e9, self.teraflops * 1e12) for gigabytes in self.gigabytes_per_second
        )
        return low, high


class Measurement(BaseModel):
    """Something the seed measured, in seconds (a range)."""

    model_config = ConfigDict(extra="forbid")

    what: str
    machine: str
    prompt: int
    canvas: int
    single_pass: bool
    seconds: tuple[float, float]


class PeaksFile(BaseModel):
    """`configs/bench/roofline.yaml`."""

    model_config = ConfigDict(extra="forbid")

    model: dict[str, Any]
    machines: dict[str, Peak]
    seed: list[Measurement]

    def shape(self) -> Shape:
        model = dict(self.model)
        periods = model.pop("layer_periods")
        return Shape.of_config(model | {"layer_types": model.pop("layer_pattern") * periods})


def load_peaks() -> PeaksFile:
    return PeaksFile.model_validate(yaml.safe_load(PEAKS.read_text(encoding="utf-8")))


def run(bench: Bench, prompt_lengths: Sequence[int], reads_per_length: int) -> BenchResult:
    """Measure the machine and reads of these lengths, alone and in full batches."""
    build = bench.build("single_pass")
    threads = threads_of(build)
    rates = measure_rates(threads, build.dtype)
    recorder = Recorder(
        "roofline",
        bench.size,
        bench.configuration(prompt_lengths=list(prompt_lengths), reads=reads_per_length),
    )
    shape = Shape.of_config(bench.checkpoint.config)
    rows: list[dict[str, Any]] = []
    with ExitStack() as stack:
        (arm,) = start(stack, bench.size, [bench.spec("flag on", "single_pass", "stepped")])
        for tokens in prompt_lengths:
            reads = fixed_length_reads(
                max(reads_per_length, FULL_BATCH),
                tokens,
                vocab_size=bench.checkpoint.vocab_size,
                width=_WIDTH,
                options=_LABELS,
            )
            arm.read(reads[:1])
            for in_flight in (1, FULL_BATCH):
                arm.forget()
                chosen = reads[:reads_per_length] if in_flight == 1 else reads
                loop = arm.loop(chosen, in_flight)
                recorder.samples.append(
                    {"prompt": tokens, "in_flight": in_flight, "reads": len(chosen)} | asdict(loop)
                )
                read = ReadShape(tokens, _WIDTH, _LABELS)
                work = shape.step([read] * in_flight, BYTES[build.dtype])
                floor = work.seconds(rates) / in_flight
                rows.append(
                    {
                        "prompt": tokens,
                        "in_flight": in_flight,
                        "step_gigabytes": work.bytes / 1e9,
                        "step_gigaflops": work.flops / 1e9,
                        "bound_by": "memory"
                        if work.bytes / rates.bytes_per_second > work.flops / rates.flops_per_second
                        else "arithmetic",
                        "floor_seconds": floor,
                    }
                    | _split(loop, len(chosen), floor)
                )
        configuration = configuration_of([arm])
    summary = {
        "machine": asdict(rates) | {"threads": threads, "dtype": build.dtype},
        "reads": rows,
        "predictions": predictions(),
    }
    return recorder.finish(summary, arms=configuration)


def _split(loop: Loop, reads: int, floor: float) -> dict[str, Any]:
    """Seconds a read by part, and each part's share of what lies above the floor."""
    forward, sampling, scheduler = (
        loop.parts[p] / reads for p in ("forward", "sample", "schedule")
    )
    total = loop.seconds / reads
    above = {
        "forward above floor": forward - floor,
        "sampling": sampling,
        "scheduler": scheduler,
        "batch preparation": loop.parts["execute"] / reads - forward,
        "other Python": total - loop.parts["execute"] / reads - sampling - scheduler,
    }
    return {
        "seconds": total,
        "over_floor": total / floor,
        "forward": forward,
        "sampling": sampling,
        "scheduler": scheduler,
        "python": total - forward - sampling - scheduler,
        "above_floor": dict(sorted(above.items(), key=lambda item: -item[1])),
    }


def predictions() -> list[dict[str, Any]]:
    """The floor of what the seed measured, on the machines it used and on those it did not."""
    peaks = load_peaks()
    shape = peaks.shape()
    rows = []
    for measured in peaks.seed:
        read = ReadShape(measured.prompt, measured.canvas, _LABELS)
        for name, machine in peaks.machines.items():
            slow, fast = (
                shape.read_floor(read, rates, "bfloat16", single_pass=measured.single_pass)
                for rates in machine.rates()
            )
            here = name == measured.machine
            rows.append(
                {
                    "what": measured.what,
                    "machine": name,
                    "floor_seconds": [fast, slow],
                    "measured_seconds": list(measured.seconds) if here else None,
                    "over_floor": [measured.seconds[0] / slow, measured.seconds[1] / fast]
                    if here
                    else None,
                }
            )
    return rows
