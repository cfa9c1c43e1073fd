"""The builds a benchmark compares, made from the ones that ship."""

from __future__ import annotations

from contextlib import AbstractContextManager, ExitStack, nullcontext
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

from engine.bench.arms import Arm, ArmSpec, Kind
from engine.bench.fragments import held_fragments
from engine.bench.models import bench_model
from engine.builds import Build, load_build
from engine.checkpoints import Checkpoint, resolve
from pipeline.bench.results import Size

BUILDS = Path(str(files("configs").joinpath("builds")))

BASELINE, REPEAT, FLAG_OFF, FLAG_ON = "baseline", "baseline again", "flag off", "flag on"
LATENCY_ARMS = {
    BASELINE: "baseline",
    REPEAT: "baseline",
    FLAG_OFF: "flag_off",
    FLAG_ON: "single_pass",
}
"""Shipped build by arm, each in an engine of its own."""

DType = Literal["float32", "bfloat16"]


class Bench:
    """What all benchmarks need to know: the model, the precision, the threads, the size.

    Attributes:
        model: as the user named it.
        path: what builds get as their model.
    """

    def __init__(self, model: str, dtype: DType, size: Size, *, threads: int | None = None) -> None:
        self.model = model
        self.size: Size = size
        self.path = bench_model(model)
        self.checkpoint: Checkpoint = resolve(self.path)
        self._overrides: dict[str, Any] = {
            "model": self.path,
            "dtype": dtype,
            "threads": threads,
        }

    @property
    def quick(self) -> bool:
        """Whether only a proof that it runs is wanted."""
        return self.size == "quick"

    def build(self, shipped: str, **changes: Any) -> Build:
        """A shipped build on this benchmark's model."""
        build = load_build(BUILDS / f"{shipped}.yaml")
        return build.model_copy(update=self._overrides | changes)

    def spec(self, name: str, shipped: str, kind: Kind = "onepass", **changes: Any) -> ArmSpec:
        return ArmSpec(name, kind, self.build(shipped, **changes))

    def configuration(self, **more: Any) -> dict[str, Any]:
        """For the result: the model's size, what overrides the shipped builds, and `more`."""
        return {
            "model": self.model,
            "model_sha256": self.checkpoint.model_sha256(),
            "model_gb": round(self.checkpoint.size_bytes / 1e9, 3),
            "dtype": self._overrides["dtype"],
            "threads": self._overrides["threads"],
            **more,
        }


def same_memory(size: Size) -> AbstractContextManager[object]:
    """Within it engines start on the same kind of memory; a quick proof does without."""
    return nullcontext() if size == "quick" else held_fragments()


def start(
    stack: ExitStack, size: Size, specs: list[ArmSpec], *, count_forwards: bool = False
) -> list[Arm]:
    """Running arms, closed with `stack`.

    Unless only a quick proof is wanted: one after another, on the same kind of memory.
    """
    stack.enter_context(same_memory(size))
    arms = []
    for spec in specs:
        arms.append(stack.enter_context(Arm(spec, count_forwards=count_forwards)))
        if size == "full":
            _ = arms[-1].facts
    return arms


def configuration_of(arms: list[Arm]) -> dict[str, Any]:
    """What each arm runs, for the result."""
    return {
        arm.spec.name: {
            "kind": arm.spec.kind,
            "configuration": shareable(arm.facts.configuration),
            "start_seconds": arm.facts.start_seconds,
        }
        for arm in arms
    }


def shareable(configuration: dict[str, Any]) -> dict[str, Any]:
    """Of the model's folder its name only: results are shared."""
    if "model" not in configuration:
        return configuration
    return configuration | {"model": Path(configuration["model"]).name}
