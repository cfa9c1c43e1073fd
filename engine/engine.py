"""The engine: structured reads of DiffusionGemma on vLLM's CPU backend."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from engine.builds import Build
from engine.canary import canary_problem, canary_reads, warm_up_reads
from engine.checkpoints import Checkpoint, resolve
from engine.engine_thread import EngineThread
from engine.environment import prepare, threads_of
from engine.facts import fingerprint
from engine.machine import read_machine
from engine.ordering import engine_order
from engine.preflight import unfit
from engine.reads import EngineCounters, EngineDeadError, Read, ReadResult
from engine.requests import IncompleteAnswerError, label_logprobs
from engine.tally import Tally
from engine.validation import Limits, problem
from engine.vllm_engine import Answer, VllmEngine

logger = logging.getLogger(__name__)


class EngineStartError(RuntimeError):
    """The engine cannot serve this build on this machine; the message says what to change."""


class DecisionEngine:
    """One vLLM engine for one build, warm and checked when the constructor returns.

    Callable from any number of threads: one thread of its own does all the work, call after call.
    Raises `EngineStartError`, `CheckpointError` or `StagingError` when it cannot start.
    """

    def __init__(self, build: Build) -> None:
        self.build = build
        checkpoint = resolve(build.model)
        machine = read_machine()
        threads = threads_of(build)
        reason = unfit(build, checkpoint, machine)
        if reason is not None:
            raise EngineStartError(f"build {build.name}: {reason}")
        self.limits = Limits.of(build, checkpoint.vocab_size)
        self._tally = Tally()
        self._dead: EngineDeadError | None = None
        self._vllm: VllmEngine | None = None
        prepare(build)
        self._thread = EngineThread(f"onepass-engine-{build.name}")
        try:
            self._thread.call(lambda: self._start(checkpoint, threads))
        except Exception as error:
            self.close()
            raise EngineStartError(
                f"build {build.name}: the engine did not start: {type(error).__name__}: {error}"
            ) from error
        self._fingerprint = fingerprint(build, checkpoint, machine, threads)

    def read(self, reads: Sequence[Read]) -> list[ReadResult]:
        reads = list(reads)
        return self._thread.call(lambda: self._read(reads))

    def counters(self) -> EngineCounters:
        return self._tally.counters()

    def fingerprint(self) -> dict[str, Any]:
        return dict(self._fingerprint)

    def reset_prefix_cache(self) -> None:
        """Forget the keys and values of earlier prompts: the next one is computed whole."""
        self._thread.call(self._forget)

    def close(self) -> None:
        """Free the model; calls of `read`, also one in progress, raise `EngineDeadError`.

        Repeatable.
        """
        if (vllm := self._vllm) is not None:
            vllm.stop()
        with suppress(EngineDeadError):  # closed before
            self._thread.call(self._shut_down)
        self._thread.stop()

    # The rest runs on the engine's thread.

    def _start(self, checkpoint: Checkpoint, threads: int) -> None:
        started = time.perf_counter()
        self._vllm = VllmEngine(self.build, checkpoint, threads)
        built = time.perf_counter()
        for batch in warm_up_reads(self.build, self.limits):
            self._read(batch)
        wrong = canary_problem(self._read(canary_reads(self.limits)))
        if wrong is not None:
            raise IncompleteAnswerError(wrong)
        self._tally.start_over()
        logger.info(
            "engine %s: built in %.1f s, warm in %.1f s",
            self.build.name,
            built - started,
            time.perf_counter() - built,
        )

    def _forget(self) -> None:
        if self._vllm is not None:
            self._vllm.reset_prefix_cache()

    def _shut_down(self) -> None:
        if self._vllm is not None:
            self._vllm.shutdown()
        self._vllm = None

    def _read(self, reads: list[Read]) -> list[ReadResult]:
        vllm = self._vllm
        if vllm is None or self._dead is not None:
            raise self._dead or EngineDeadError("the engine was closed")
        started, stepped = time.perf_counter(), vllm.engine_seconds
        answers = [
            Answer(error=refusal) if (refusal := problem(read, self.limits)) else None
            for read in reads
        ]
        order = engine_order(reads, joined_label_sets=self.build.joined_label_sets)
        accepted = [place for place in order if answers[place] is None]
        try:
            found = vllm.run([reads[place] for place in accepted])
        except EngineDeadError as error:
            self._dead = error
            raise
        for place, answer in zip(accepted, found, strict=True):
            answers[place] = answer
        results = [
            _result(read, answer, len(reads))
            for read, answer in zip(reads, answers, strict=True)
            if answer is not None
        ]
        self._tally.add(
            reads,
            results,
            vllm.scheduler_totals,
            vllm.engine_seconds - stepped,
            time.perf_counter() - started,
        )
        return results


def _result(read: Read, answer: Answer, batch_reads: int) -> ReadResult:
    if answer.error is not None:
        return ReadResult(read.read_id, {}, batch_reads=batch_reads, error=answer.error)
    try:
        logprobs = label_logprobs(read, answer.logprobs)
    except IncompleteAnswerError as error:
        return ReadResult(read.read_id, {}, batch_reads=batch_reads, error=str(error))
    return ReadResult(
        read.read_id,
        logprobs,
        single_pass=answer.single_pass,
        two_step_reason=answer.two_step_reason,
        cached_prompt_tokens=answer.cached_prompt_tokens,
        batch_reads=batch_reads,
    )
