"""Arms of a comparison, each in a process of its own that stays warm and is asked in turn.

Two vLLM engines cannot share a process, and measuring one after the other would compare two
moments of the machine. So every arm has its process, and only one of them works at a time.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from multiprocessing.connection import Connection
from typing import Any, Literal

from engine.bench import worker
from engine.builds import Build
from engine.reads import EngineCounters, Read, ReadResult

Kind = Literal["onepass", "stepped", "stock", "reference"]
"""`onepass`: `DecisionEngine`; `stepped`: its vLLM engine alone, stepped and timed by hand;
`stock`: `vllm.LLM.generate` without this project's scheduler and model state; `reference`:
Transformers."""


class ArmError(RuntimeError):
    """An arm's process failed; the message names the arm and holds the worker's own."""


@dataclass(frozen=True)
class ArmSpec:
    """An arm: what to start. `name` is unique in a comparison."""

    name: str
    kind: Kind
    build: Build


@dataclass(frozen=True)
class Facts:
    """What an arm said when it was ready.

    Attributes:
        start_seconds: from the start of its process to the first read it could take.
        resident_gib: memory of its process then.
        configuration: what it was started with, JSON-serialisable.
        fingerprint: of its engine; empty where there is none.
    """

    start_seconds: float
    resident_gib: float
    configuration: dict[str, Any]
    fingerprint: dict[str, Any]


@dataclass(frozen=True)
class Timed:
    """One call.

    Attributes:
        results: in the order of the reads.
        seconds: wall time of the call inside the arm's process.
        cpu_seconds: processor time of all its threads, which other work on the machine moves less.
        counters: what the call cost; all zero where the engine does not count.
        forwards: forward passes of the model, counted by a hook; None without
            `count_forwards`.
    """

    results: list[ReadResult]
    seconds: float
    cpu_seconds: float
    counters: EngineCounters
    forwards: int | None


@dataclass(frozen=True)
class Loop:
    """A run of `Arm.loop`.

    Attributes:
        seconds: wall time of the whole run.
        latencies: seconds of each read from hand-over to answer, in order of the reads.
        steps: engine steps.
        parts: seconds by part of the work: `step` and, within it, `schedule`, `forward`, `logits`,
            `sample` (with `logits`) and `execute` (with `forward`).
    """

    seconds: float
    latencies: list[float]
    steps: int
    parts: dict[str, float]


class Arm:
    """A process with an engine, starting when made; a context manager that ends it.

    Several may start at once; `facts` waits until this one is ready.
    """

    def __init__(self, spec: ArmSpec, *, count_forwards: bool = False) -> None:
        self.spec = spec
        context = multiprocessing.get_context("spawn")
        self._connection: Connection
        self._connection, theirs = context.Pipe()
        self._process = context.Process(
            target=worker.serve, args=(theirs, spec.kind, spec.build, count_forwards), daemon=True
        )
        self._process.start()
        theirs.close()

    @cached_property
    def facts(self) -> Facts:
        """What it said when it was ready; raises `ArmError` when it did not get there."""
        return Facts(*self._answer())

    def read(self, reads: Sequence[Read]) -> Timed:
        """Answer reads handed over together."""
        return Timed(*self._ask("read", list(reads)))

    def arriving(self, reads: Sequence[Read]) -> Timed:
        """Answer reads of which all but the first arrive during its first step; `stepped` only."""
        return Timed(*self._ask("arriving", list(reads)))

    def loop(self, reads: Sequence[Read], in_flight: int) -> Loop:
        """Answer reads with `in_flight` of them handed over at any time; `stepped` arms only."""
        return Loop(*self._ask("loop", list(reads), in_flight))

    def forget(self) -> None:
        """Empty the prefix cache."""
        self._ask("forget")

    def peak_gib(self) -> float:
        """The most memory the process has held."""
        return float(self._ask("peak_gib"))

    def close(self) -> None:
        if self._process.is_alive():
            with suppress(OSError):
                self._connection.send(None)
            self._process.join(timeout=30)
            if self._process.is_alive():
                self._process.kill()
                self._process.join()
        self._connection.close()

    def __enter__(self) -> Arm:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _ask(self, operation: str, *arguments: object) -> Any:
        _ = self.facts  # answers come in order: the first one says that it is ready
        self._connection.send((operation, arguments))
        return self._answer()

    def _answer(self) -> Any:
        try:
            ok, answer = self._connection.recv()
        except EOFError:
            self._process.join()
            raise ArmError(
                f"arm {self.spec.name}: its process ended with code {self._process.exitcode}"
            ) from None
        if not ok:
            raise ArmError(f"arm {self.spec.name}: {answer}")
        return answer
