"""Processes that train one model together, each on its part of every batch.

So small a model leaves a second thread idle most of the time; a second process is used whole.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

_PATIENCE_SECONDS = 300  # for a process that computes its part; one that died never comes


class Team:
    """One process's place among `size`: adds tensors up over all of them, in shared memory."""

    def __init__(self, rank: int, barrier: Any, shared: torch.Tensor) -> None:
        self.rank = rank
        self.size = len(shared)
        self._barrier = barrier
        self._shared = shared  # [processes, elements]

    def part(self, examples: Sequence[Any]) -> Sequence[Any]:
        """Every `size`th of the examples, which come sorted by length."""
        return examples[self.rank :: self.size]

    def add_up(self, values: list[torch.Tensor]) -> None:
        """Replace the values by their sums over all processes, which must all call this."""
        import torch

        row = self._shared[self.rank]
        sizes = [value.numel() for value in values]
        torch.cat([value.reshape(-1) for value in values], out=row[: sum(sizes)])
        self._barrier.wait(_PATIENCE_SECONDS)
        total = self._shared[:, : sum(sizes)].sum(0)
        self._barrier.wait(_PATIENCE_SECONDS)  # nobody overwrites what another still reads
        for value, found in zip(values, total.split(sizes), strict=True):  # type: ignore[no-untyped-call]
            value.copy_(found.view_as(value))


@contextmanager
def team_of(
    size: int, elements: int, work: Callable[..., object], arguments: tuple[Any, ...]
) -> Iterator[Team]:
    """This process's place; the others run `work(team, *arguments)` until they are done."""
    import torch

    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(size)
    shared = torch.zeros(size, elements).share_memory_()  # type: ignore[no-untyped-call]
    others = [
        context.Process(target=work, args=(Team(rank, barrier, shared), *arguments), daemon=True)
        for rank in range(1, size)
    ]
    for other in others:
        other.start()
    try:
        yield Team(0, barrier, shared)
        for other in others:
            other.join()
    finally:
        for other in others:
            other.terminate()
