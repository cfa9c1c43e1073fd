"""An engine without a model, for tests of everything around the engine.

Log probabilities come from a hash of prompt, canvas, slot and label: the same read always gets the
same answer, whoever shares its batch, and every label is present. `tests/engine/contract.py` holds
it to the contract of the real engine.
"""

from __future__ import annotations

import hashlib
import math
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from engine.builds import Build
from engine.reads import EngineCounters, EngineDeadError, Read, ReadResult
from engine.validation import Limits, problem


class FakeEngine:
    """Answers reads from hashes.

    A read takes one step with `single_pass_reads`, else two, as if each ran alone; a prompt seen
    before counts as cached, all but its last token.
    """

    def __init__(self, build: Build, vocab_size: int = 262_144) -> None:
        self.build = build
        self.limits = Limits.of(build, vocab_size)
        self._lock = threading.Lock()
        self._counters = EngineCounters()
        self._prompts: set[tuple[str, tuple[int, ...]]] = set()
        self._dead: str | None = None

    def read(self, reads: Sequence[Read]) -> list[ReadResult]:
        with self._lock:
            if self._dead is not None:
                raise EngineDeadError(self._dead)
            started = time.perf_counter()
            results = [self._answer(read, len(reads)) for read in reads]
            seconds = time.perf_counter() - started
            self._counters += EngineCounters(engine_seconds=seconds, wall_seconds=seconds)
            return results

    def counters(self) -> EngineCounters:
        return self._counters

    def fingerprint(self) -> dict[str, Any]:
        return {
            "engine": "fake",
            "build": self.build.model_dump(mode="json"),
            "vllm_version": None,
            "torch_version": None,
            "model_sha256": None,
            "tokenizer_sha256": None,
            "cpu_model": None,
            "cpu_features": [],
            "threads": 1,
        }

    def close(self) -> None:
        self._dead = "the engine was closed"

    def kill(self) -> None:
        """Die as a crashed engine would: every later `read` raises `EngineDeadError`."""
        self._dead = "the fake engine was killed"

    def _answer(self, read: Read, batch_reads: int) -> ReadResult:
        refusal = problem(read, self.limits)
        if refusal is not None:
            self._counters += EngineCounters(reads=1, failed_reads=1)
            return ReadResult(read.read_id, {}, batch_reads=batch_reads, error=refusal)
        cached = 0
        prompt = (read.cache_group, read.prompt_ids)
        if self.build.enable_prefix_caching and prompt in self._prompts:
            cached = len(read.prompt_ids) - 1
        self._prompts.add(prompt)
        single_pass = self.build.single_pass_reads
        counted = EngineCounters(
            steps=1 if single_pass else 2,
            reads=1,
            prompt_tokens=len(read.prompt_ids),
            prompt_tokens_computed=len(read.prompt_ids) - cached,
            prompt_tokens_cached=cached,
            canvas_tokens=read.width,
            logits_columns=read.width
            * (len(read.label_ids) if read.constrained else self.limits.vocab_size),
        )
        if single_pass:
            counted = replace(counted, single_pass_reads=1)
        else:
            counted = replace(counted, two_step_flag_off=1)
        self._counters += counted
        return ReadResult(
            read.read_id,
            {slot: self._logprobs(read, slot) for slot in read.slots},
            single_pass=single_pass,
            two_step_reason=None if single_pass else "flag_off",
            cached_prompt_tokens=cached,
            batch_reads=batch_reads,
        )

    def _logprobs(self, read: Read, slot: int) -> dict[int, float]:
        content = hashlib.sha256(repr((read.prompt_ids, read.canvas_ids, slot)).encode()).digest()
        scores = {
            label: int.from_bytes(hashlib.sha256(content + b"%d" % label).digest()[:4], "big")
            / 2**32
            * 8.0
            for label in read.label_ids
        }
        total = math.log(sum(math.exp(s) for s in scores.values()))
        if not read.constrained:
            # Unconstrained, the labels leave some probability to the rest of the vocabulary.
            total += math.log(2.0)
        return {label: s - total for label, s in scores.items()}
