"""The process behind an arm: starts one engine and answers what it is asked over a pipe."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from engine.builds import Build
from engine.reads import EngineCounters, Read, ReadResult

if TYPE_CHECKING:
    from engine.bench.engines.stepped import SteppedEngine

_KIB_PER_GIB = 2**20


class Measured(Protocol):
    """What a worker needs of its engine."""

    def read(self, reads: Sequence[Read]) -> list[ReadResult]: ...

    def counters(self) -> EngineCounters: ...

    def forget(self) -> None: ...

    def configuration(self) -> dict[str, Any]: ...

    def fingerprint(self) -> dict[str, Any]: ...


def serve(connection: Connection, kind: str, build: Build, count_forwards: bool) -> None:
    """Start the engine, say so, then answer until told to stop (None) or the pipe closes.

    Answers are (True, value) or (False, message).
    """
    started = time.perf_counter()
    try:
        worker = Worker(start(kind, build), count_forwards)
        facts = (
            time.perf_counter() - started,
            resident_gib(),
            worker.engine.configuration(),
            worker.engine.fingerprint(),
        )
        connection.send((True, facts))
        while (request := connection.recv()) is not None:
            operation, arguments = request
            connection.send((True, getattr(worker, operation)(*arguments)))
    except EOFError:
        return  # whoever asked is gone
    except Exception as error:
        connection.send((False, f"{type(error).__name__}: {error}"))


def start(kind: str, build: Build) -> Measured:
    """The engine of that kind (see `engine.bench.arms.Kind`); imports only what it needs."""
    if kind == "onepass":
        from engine.bench.engines.onepass import OnepassEngine

        return OnepassEngine(build)
    if kind == "stepped":
        from engine.bench.engines.stepped import SteppedEngine

        return SteppedEngine(build)
    if kind == "stock":
        from engine.bench.engines.stock import StockEngine

        return StockEngine(build)
    from engine.bench.engines.reference import ReferenceEngine

    return ReferenceEngine(build)


class Worker:
    """The operations of an arm, by name."""

    def __init__(self, engine: Measured, count_forwards: bool) -> None:
        self.engine = engine
        self._forwards = ForwardCount() if count_forwards else None

    def read(self, reads: list[Read]) -> tuple[Any, ...]:
        """Fields of `engine.bench.arms.Timed`."""
        return self._timed(self.engine.read, reads)

    def arriving(self, reads: list[Read]) -> tuple[Any, ...]:
        return self._timed(self._stepped().read_arriving, reads)

    def loop(self, reads: list[Read], in_flight: int) -> tuple[Any, ...]:
        """Fields of `engine.bench.arms.Loop`."""
        return self._stepped().loop(reads, in_flight)

    def forget(self) -> None:
        self.engine.forget()

    def peak_gib(self) -> float:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / _KIB_PER_GIB

    def _timed(
        self, ask: Callable[[list[Read]], list[ReadResult]], reads: list[Read]
    ) -> tuple[Any, ...]:
        counted = self.engine.counters()
        passes = self._forwards.total if self._forwards else 0
        started, computing = time.perf_counter(), time.process_time()
        results = ask(reads)
        seconds, cpu_seconds = time.perf_counter() - started, time.process_time() - computing
        forwards = self._forwards.total - passes if self._forwards else None
        return results, seconds, cpu_seconds, self.engine.counters() - counted, forwards

    def _stepped(self) -> SteppedEngine:
        from engine.bench.engines.stepped import SteppedEngine

        if not isinstance(self.engine, SteppedEngine):
            raise TypeError(f"{type(self.engine).__name__} cannot be stepped; use a stepped arm")
        return self.engine


class ForwardCount:
    """Counts forward passes of the whole model in this process, by a hook on every module.

    Independent of what any scheduler says it scheduled.
    """

    def __init__(self) -> None:
        import torch

        self.total = 0
        torch.nn.modules.module.register_module_forward_hook(self._seen)

    def _seen(self, module: Any, arguments: Any, output: Any) -> None:
        if any(
            base.__name__ == "DiffusionGemmaForConditionalGeneration"
            for base in type(module).__mro__
        ):
            self.total += 1


def resident_gib() -> float:
    """Memory of this process now."""
    status = Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
    (line,) = (line for line in status.splitlines() if line.startswith("VmRSS:"))
    return int(line.split()[1]) / _KIB_PER_GIB
