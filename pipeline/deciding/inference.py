"""The one seam between Beam and the engine: a model handler whose elements are planned parts.

A part, not a conversation, is the element: it is decided in batches of fixed size that depend on
its content alone, and its rows are written as soon as they are there, in the same fused stage.
Beam's own batching would make batches, and with them roundings, depend on bundles.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from apache_beam.metrics import Metrics
from apache_beam.ml.inference.base import ModelHandler

from engine.builds import Build
from engine.protocol import Engine
from engine.reads import EngineCounters, Read, ReadResult
from pipeline.deciding.answering import CountedEngine, DecidedPart, Decider
from pipeline.deciding.planning import PlannedPart
from pipeline.deciding.spec import DecideSpec, compiled_rubrics

CALLS_PER_BATCH = 8
"""Reads handed to the engine at once, in multiples of the sequences it runs side by side: enough
that a call's last, emptier steps cost little."""

METRICS_NAMESPACE = "onepass"
_BYTES_PER_TOKEN = 8


def start_engine(build: Build) -> Engine:
    """The real engine."""
    from engine.engine import DecisionEngine

    return DecisionEngine(build)


def utc_now() -> datetime:
    """Now, in UTC."""
    return datetime.now(UTC)


class SharedEngine:
    """An engine as RunInference holds it: methods only, all of them safe to call from anywhere.

    When processes of one machine share a model, this object lives in one of them and the others
    call it through a proxy, which passes on method calls and nothing else. The engine starts at the
    first call: a run that takes over all of its parts, and a worker that gets none, load no model.
    """

    def __init__(self, start: Callable[[], Engine]) -> None:
        self._start = start
        self._engine: Engine | None = None
        self._lock = threading.Lock()

    def read_counted(self, reads: Sequence[Read]) -> tuple[list[ReadResult], EngineCounters]:
        """Results and exactly what these reads cost, whoever else is waiting."""
        with self._lock:
            engine = self._started()
            before = engine.counters()
            results = engine.read(reads)
            return results, engine.counters() - before

    def fingerprint(self) -> dict[str, Any]:
        with self._lock:
            return self._started().fingerprint()

    def close(self) -> None:
        with self._lock:
            if self._engine is not None:
                self._finish()

    def _started(self) -> Engine:
        if self._engine is None:
            self._engine = self._start()
            # RunInference drops a model without a word, and a process may end first; a child
            # process of the engine must end with either.
            self._finish = weakref.finalize(self, self._engine.close)
        return self._engine


@dataclass(frozen=True)
class EngineSource:
    """How workers get an engine, and what time it is: the real ones unless a test says so.

    Both functions travel to worker processes by name.
    """

    start: Callable[[Build], Engine] = start_engine
    clock: Callable[[], datetime] = utc_now


class DecisionModelHandler(ModelHandler[PlannedPart, DecidedPart, CountedEngine]):  # type: ignore[misc]
    """Decides parts. One engine per process, or per machine with `share_model_across_processes`.

    A read the engine refuses becomes an error row; a dead engine raises, so that the runner
    retries the bundle on a worker with a living one.
    """

    def __init__(self, spec: DecideSpec, source: EngineSource) -> None:
        super().__init__(
            min_batch_size=1,
            max_batch_size=1,
            large_model=spec.build.share_model_across_processes,
        )
        self._spec = spec
        self._source = source

    def load_model(self) -> CountedEngine:
        start, build = self._source.start, self._spec.build
        return SharedEngine(lambda: start(build))

    def run_inference(
        self,
        batch: Sequence[PlannedPart],
        model: CountedEngine,
        inference_args: dict[str, Any] | None = None,
    ) -> Iterator[DecidedPart]:
        spec = self._spec
        decider = Decider(
            rubrics=compiled_rubrics(spec),
            settings=spec.settings,
            vocab_size=spec.vocab_size,
            reads_per_call=spec.build.max_num_seqs * CALLS_PER_BATCH,
            clock=self._source.clock,
        )
        for part in batch:
            decided = decider.decide(part, model)
            _count(decided)
            yield decided

    def get_num_bytes(self, batch: Sequence[PlannedPart]) -> int:
        return sum(len(case.prompt_ids) for part in batch for case in part.cases) * _BYTES_PER_TOKEN

    def get_metrics_namespace(self) -> str:
        return METRICS_NAMESPACE


def _count(decided: DecidedPart) -> None:
    """What a job's monitoring page shows."""
    for name, value in decided.engine.items():
        if name.endswith("_seconds"):
            Metrics.counter(METRICS_NAMESPACE, name.replace("seconds", "milliseconds")).inc(
                round(value * 1000)
            )
        else:
            Metrics.counter(METRICS_NAMESPACE, name).inc(int(value))
    for name, count in decided.counts.items():
        Metrics.counter(METRICS_NAMESPACE, name).inc(count)
