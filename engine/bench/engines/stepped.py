"""A build's vLLM engine, stepped by hand: so many reads in flight, the parts of a step timed."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from engine.builds import Build
from engine.checkpoints import resolve
from engine.environment import own_cores, prepare, settle_threads, threads_of
from engine.facts import fingerprint
from engine.machine import read_machine
from engine.reads import EngineCounters, Read, ReadResult
from engine.requests import read_result, sampling_params
from engine.vllm_engine import NOTE_KEY, engine_args


class SteppedEngine:
    """An in-process `LLMEngine`.

    Sending reads one by one as others finish, which `DecisionEngine` does not do, is how a server
    sees its load: `loop` measures latency and throughput at a concurrency.
    """

    def __init__(self, build: Build) -> None:
        checkpoint = resolve(build.model)
        prepare(build)
        from vllm import EngineArgs, LLMEngine

        threads = threads_of(build)
        own_cores(threads)
        self._arguments = engine_args(build, checkpoint)
        self._engine = LLMEngine.from_engine_args(EngineArgs(**self._arguments))
        settle_threads(threads)
        self._fingerprint = fingerprint(build, checkpoint, read_machine(), threads)
        self._number = 0
        self._counters = EngineCounters()
        self._parts: defaultdict[str, float] = defaultdict(float)
        self._time_parts()

    def read(self, reads: Sequence[Read]) -> list[ReadResult]:
        return self._results(reads, self._run(reads, len(reads))[0])

    def read_arriving(self, reads: Sequence[Read]) -> list[ReadResult]:
        """The first read starts alone; the others arrive during its first step."""
        return self._results(reads, self._run(reads, len(reads), first_alone=True)[0])

    def _results(self, reads: Sequence[Read], outputs: Sequence[Any]) -> list[ReadResult]:
        self._count(outputs)
        return [
            read_result(read, output, len(reads))
            for read, output in zip(reads, outputs, strict=True)
        ]

    def loop(
        self, reads: Sequence[Read], in_flight: int
    ) -> tuple[float, list[float], int, dict[str, float]]:
        """Fields of `engine.bench.arms.Loop`."""
        self._parts.clear()
        started = time.perf_counter()
        _, latencies, steps = self._run(reads, in_flight)
        return time.perf_counter() - started, latencies, steps, dict(self._parts)

    def _run(
        self, reads: Sequence[Read], in_flight: int, *, first_alone: bool = False
    ) -> tuple[list[Any], list[float], int]:
        """Outputs and latencies in the order of the reads, and the number of steps."""
        from vllm.inputs.engine import tokens_input

        outputs: list[Any] = [None] * len(reads)
        latencies = [0.0] * len(reads)
        sent: dict[str, tuple[int, float]] = {}
        waiting = iter(enumerate(reads))
        steps = done = 0
        while done < len(reads):
            room = 1 if first_alone and not steps else in_flight
            while len(sent) < room and (following := next(waiting, None)) is not None:
                place, read = following
                self._number += 1
                request_id = f"read-{self._number}"
                sent[request_id] = (place, time.perf_counter())
                self._engine.add_request(
                    request_id, tokens_input(list(read.prompt_ids)), sampling_params(read)
                )
            with self._timed("step"):
                finished = [output for output in self._engine.step() if output.finished]
            steps += 1
            for output in finished:
                place, since = sent.pop(output.request_id)
                latencies[place] = time.perf_counter() - since
                outputs[place] = output
                done += 1
        return outputs, latencies, steps

    def counters(self) -> EngineCounters:
        return self._counters

    def _count(self, outputs: Sequence[Any]) -> None:
        """Take the scheduler's totals, as of the last answer, from its note."""
        notes = [output.kv_transfer_params[NOTE_KEY]["totals"] for output in outputs]
        totals = max(notes, key=lambda note: int(note["steps"]))
        self._counters = EngineCounters(reads=self._number, **totals)

    def forget(self) -> None:
        self._engine.reset_prefix_cache()

    def configuration(self) -> dict[str, Any]:
        return self._arguments

    def fingerprint(self) -> dict[str, Any]:
        return self._fingerprint

    @contextmanager
    def _timed(self, part: str) -> Iterator[None]:
        started = time.perf_counter()
        try:
            yield
        finally:
            self._parts[part] += time.perf_counter() - started

    def _time_parts(self) -> None:
        """Wrap what a step consists of."""
        core = self._engine.engine_core.engine_core
        runner = core.model_executor.driver_worker.worker.model_runner
        self._wrap(core.scheduler, "schedule", "schedule")
        self._wrap(core.scheduler, "update_from_output", "schedule")
        self._wrap(runner, "execute_model", "execute")
        self._wrap(runner, "sample_tokens", "sample")
        self._wrap(runner.model, "compute_logits", "logits")
        forward_started = 0.0

        def before(module: Any, arguments: Any) -> None:
            nonlocal forward_started
            forward_started = time.perf_counter()

        def after(module: Any, arguments: Any, output: Any) -> None:
            self._parts["forward"] += time.perf_counter() - forward_started

        runner.model.register_forward_pre_hook(before)
        runner.model.register_forward_hook(after)

    def _wrap(self, owner: Any, method: str, part: str) -> None:
        inner: Callable[..., Any] = getattr(owner, method)

        def timed(*arguments: Any, **options: Any) -> Any:
            with self._timed(part):
                return inner(*arguments, **options)

        setattr(owner, method, timed)
