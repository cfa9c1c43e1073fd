"""What goes into the engine and what comes out: plain data, token ids only.

>>> read = Read("r1", (2, 105, 7), canvas_ids=(9, 40, 106, 0), slots=(1,), label_ids=(40, 41))
>>> read.width
4
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Read:
    """One request to the engine: a prompt and the canvas to denoise behind it.

    Attributes:
        read_id: names the read in results and errors; unique within one call.
        prompt_ids: token ids of the whole prompt, at least one.
        canvas_ids: the seeded canvas, template ids with noise in the open slots; its length
            is the width the engine denoises.
        slots: canvas positions to report, ascending.
        label_ids: distinct token ids whose logprobs are reported at every slot, ascending.
        constrained: normalise over `label_ids` (True) or over the whole vocabulary (False).
        cache_group: prompts take cached prefixes from reads of their own group only. What a cached
            prefix was computed with can move the last bits, so reads that must not depend on what
            ran before them get a group of their own.
    """

    read_id: str
    prompt_ids: tuple[int, ...]
    canvas_ids: tuple[int, ...]
    slots: tuple[int, ...]
    label_ids: tuple[int, ...]
    constrained: bool = True
    cache_group: str = "shared"

    @property
    def width(self) -> int:
        """Canvas length in tokens."""
        return len(self.canvas_ids)


@dataclass(frozen=True, slots=True)
class ReadResult:
    """What one read found.

    Attributes:
        read_id: the read's own.
        logprobs: slot position -> label id -> natural log probability at temperature 1; every
            slot and every label id of the read is present. Empty when `error` is set.
        single_pass: prompt and canvas ran in one engine step.
        two_step_reason: why not, from `TWO_STEP_REASONS`; None when `single_pass`.
        cached_prompt_tokens: prompt tokens taken from the prefix cache.
        batch_reads: how many reads the engine call that answered it held.
        error: why the engine refused this read; other reads of the call are unharmed.
    """

    read_id: str
    logprobs: Mapping[int, Mapping[int, float]]
    single_pass: bool = False
    two_step_reason: str | None = None
    cached_prompt_tokens: int = 0
    batch_reads: int = 1
    error: str | None = None


TWO_STEP_REASONS = (
    "flag_off",  # single_pass_reads is off in this build
    "not_eligible",  # more than one step, not read-only, or prompt logprobs
    "token_budget",  # final chunk + width exceeds what the step had left
    "model_length",  # prompt + width exceeds max_model_len
)


@dataclass(frozen=True, slots=True)
class EngineCounters:
    """Exact counts since the engine started (or a difference of two snapshots).

    Units: engine steps, reads, tokens; `logits_columns` sums, over all steps, the number of
    vocabulary columns of the unembedding product times its rows. `engine_seconds` is wall time
    inside engine steps, `wall_seconds` wall time inside `DecisionEngine.read`.
    """

    steps: int = 0
    reads: int = 0
    failed_reads: int = 0
    single_pass_reads: int = 0
    two_step_flag_off: int = 0
    two_step_not_eligible: int = 0
    two_step_token_budget: int = 0
    two_step_model_length: int = 0
    prompt_tokens: int = 0
    prompt_tokens_computed: int = 0
    prompt_tokens_cached: int = 0
    canvas_tokens: int = 0
    logits_columns: int = 0
    engine_seconds: float = 0.0
    wall_seconds: float = 0.0

    def __sub__(self, other: EngineCounters) -> EngineCounters:
        names = self.__dataclass_fields__
        return EngineCounters(**{n: getattr(self, n) - getattr(other, n) for n in names})

    def __add__(self, other: EngineCounters) -> EngineCounters:
        names = self.__dataclass_fields__
        return EngineCounters(**{n: getattr(self, n) + getattr(other, n) for n in names})


class EngineDeadError(RuntimeError):
    """The engine cannot answer any more reads; whoever owns it must start a new one."""
