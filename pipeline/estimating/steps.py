"""How an engine would work through reads, step by step, without an engine.

The schedule is vLLM's: a step goes on with the requests that run, then admits waiting ones in
order, while the step's tokens and the number of sequences allow. A prompt may be cut into chunks.
A canvas joins the step that ends its prompt, or takes a step of its own.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from engine.builds import Build


@dataclass(frozen=True, slots=True)
class ReadShape:
    """What matters about a read: tokens of its prompt, how many of them (from the start) an
    earlier read of the engine had too, and the width of its canvas."""

    prompt_tokens: int
    shared_tokens: int
    width: int


@dataclass
class StepCount:
    """Engine steps and tokens of a set of reads; sums over sets with `+=`.

    `two_step` counts reads that take a step of their own for the canvas, by reason
    (`engine.reads.TWO_STEP_REASONS`).
    """

    steps: int = 0
    reads: int = 0
    single_pass: int = 0
    two_step: Counter[str] = field(default_factory=Counter)
    prompt_tokens: int = 0
    computed_tokens: int = 0
    canvas_tokens: int = 0

    @property
    def cached_tokens(self) -> int:
        """Prompt tokens taken from the prefix cache."""
        return self.prompt_tokens - self.computed_tokens

    def __iadd__(self, other: StepCount) -> StepCount:
        for name in ("steps", "reads", "single_pass", "prompt_tokens", "computed_tokens",
                     "canvas_tokens"):  # fmt: skip
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.two_step.update(other.two_step)
        return self


@dataclass
class _Running:
    """A request that has been admitted: prompt tokens and canvas tokens still to run."""

    shape: ReadShape
    prompt_left: int


def shapes(
    prompts: Iterable[tuple[Sequence[int], int]], earlier: Sequence[Sequence[int]] = ()
) -> list[ReadShape]:
    """Shapes of reads given as (prompt ids, width), in the order in which the engine meets them;
    `earlier` are prompts it has met before.

    >>> shape = shapes([((1, 2, 3), 16), ((1, 2, 4, 5), 32)])[1]
    >>> (shape.prompt_tokens, shape.shared_tokens, shape.width)
    (4, 2, 32)
    """
    found: list[ReadShape] = []
    met = list(earlier)
    for prompt, width in prompts:
        shared = max((_common(other, prompt) for other in met), default=0)
        found.append(ReadShape(len(prompt), shared, width))
        # Reads are ordered so that neighbours share most: one of them stands for all before it.
        met[len(earlier) :] = [prompt]
    return found


def count_steps(reads: Sequence[ReadShape], build: Build) -> StepCount:
    """What one call of the engine with these reads would take. Evictions from the prefix cache
    are not foreseen: the build's cache is taken to hold a call's prompts."""
    count = StepCount(reads=len(reads))
    waiting = deque(reads)
    running: list[_Running] = []
    while waiting or running:
        budget = build.max_num_batched_tokens
        count.steps += 1
        free = build.max_num_seqs - len(running)  # a read that ends keeps its place until then
        still: list[_Running] = []
        for request in running:
            budget = _advance(request, budget, build, count, still)
        while waiting and budget > 0 and free > 0:
            free -= 1
            shape = waiting.popleft()
            left = shape.prompt_tokens - _cached(shape, build)
            count.prompt_tokens += shape.prompt_tokens
            count.computed_tokens += left
            budget = _advance(_Running(shape, left), budget, build, count, still)
        running = still
    return count


def _advance(
    request: _Running, budget: int, build: Build, count: StepCount, still: list[_Running]
) -> int:
    """Give a request what it can use of the step; returns what is left of the budget. A request
    that has not finished is appended to `still`."""
    width = request.shape.width
    if request.prompt_left == 0:
        if width > budget:
            still.append(request)
            return budget
        count.canvas_tokens += width
        return budget - width
    chunk = min(request.prompt_left, budget)
    request.prompt_left -= chunk
    budget -= chunk
    if request.prompt_left == 0:
        reason = _two_step_reason(request.shape, budget, build)
        if reason is None:
            count.single_pass += 1
            count.canvas_tokens += width
            return budget - width
        count.two_step[reason] += 1
    still.append(request)
    return budget


def _two_step_reason(shape: ReadShape, budget: int, build: Build) -> str | None:
    if not build.single_pass_reads:
        return "flag_off"
    if shape.prompt_tokens + shape.width > build.max_model_len:
        return "model_length"
    return "token_budget" if shape.width > budget else None


def _cached(shape: ReadShape, build: Build) -> int:
    """Prompt tokens from the cache: whole blocks, and never the prompt's last token."""
    if not build.enable_prefix_caching:
        return 0
    block = build.block_size
    return min(shape.shared_tokens, shape.prompt_tokens - 1) // block * block


def _common(first: Sequence[int], second: Sequence[int]) -> int:
    """Length of the common beginning, by halving: slices compare much faster than items."""
    low, high = 0, min(len(first), len(second))
    while low < high:
        middle = (low + high + 1) // 2
        if first[low:middle] == second[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
