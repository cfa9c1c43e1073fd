"""Adds up what an engine did, from its results and from the counts of its scheduler."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from engine.reads import EngineCounters, Read, ReadResult

_SCHEDULER_COUNTS = ("steps", "prompt_tokens_computed", "canvas_tokens", "logits_columns")


class Tally:
    """Counts since the engine was warm.

    The scheduler's totals run from its own start; the difference between two readings is what one
    call did. Read and written by different threads: each `counters()` is one whole snapshot.
    """

    def __init__(self) -> None:
        self._counters = EngineCounters()
        self._scheduler: Mapping[str, int] = dict.fromkeys(_SCHEDULER_COUNTS, 0)

    def counters(self) -> EngineCounters:
        return self._counters

    def start_over(self) -> None:
        """Forget what was counted so far, such as the warm-up."""
        self._counters = EngineCounters()

    def add(
        self,
        reads: Sequence[Read],
        results: Sequence[ReadResult],
        scheduler_totals: Mapping[str, int] | None,
        engine_seconds: float,
        wall_seconds: float,
    ) -> None:
        """Count one call; `scheduler_totals` is None when no read reached the scheduler."""
        answered = [
            (read, result)
            for read, result in zip(reads, results, strict=True)
            if result.error is None
        ]
        reasons = Counter(result.two_step_reason for _, result in answered)
        before = self._scheduler
        self._scheduler = scheduler_totals or before
        self._counters += EngineCounters(
            reads=len(reads),
            failed_reads=len(reads) - len(answered),
            single_pass_reads=reasons[None],
            two_step_flag_off=reasons["flag_off"],
            two_step_not_eligible=reasons["not_eligible"],
            two_step_token_budget=reasons["token_budget"],
            two_step_model_length=reasons["model_length"],
            prompt_tokens=sum(len(read.prompt_ids) for read, _ in answered),
            prompt_tokens_cached=sum(result.cached_prompt_tokens for _, result in answered),
            engine_seconds=engine_seconds,
            wall_seconds=wall_seconds,
            **{name: self._scheduler[name] - before[name] for name in _SCHEDULER_COUNTS},
        )
