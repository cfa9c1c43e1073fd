"""What this machine's memory and cores do at best, measured with torch."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable
from typing import Any

from engine.bench.roofline import Rates
from engine.environment import settle_threads

_REPETITIONS = 7
_MATRIX_BYTES = 1e9


def measure_rates(threads: int, dtype: str) -> Rates:
    """Rates of a fresh process with that many threads: the best of several tries each.

    Bandwidth is that of a product of one vector with a matrix far larger than the caches, which
    reads weights as a model's step does; arithmetic that of a square product of matrices.
    """
    context = multiprocessing.get_context("spawn")
    with context.Pool(1) as pool:
        return Rates(*pool.apply(_measure, (threads, dtype)))


def _measure(threads: int, dtype: str) -> tuple[float, float]:
    import torch
    from torch.nn.functional import linear

    settle_threads(threads)
    kind = getattr(torch, dtype)
    with torch.inference_mode():
        columns = 4096
        rows = int(_MATRIX_BYTES / columns / kind.itemsize)
        weights = torch.ones((rows, columns), dtype=kind)
        vector = torch.ones((1, columns), dtype=kind)
        moved = rows * columns * kind.itemsize
        by_product = moved / _best(lambda: linear(vector, weights))
        by_sum = moved / _best(weights.sum)
        size = 2048
        square = torch.ones((size, size), dtype=kind)
        flops = 2 * size**3 / _best(lambda: linear(square, square))
    return max(by_product, by_sum), flops


def _best(work: Callable[[], Any]) -> float:
    """Seconds of the fastest of several runs."""
    seconds = []
    for _ in range(_REPETITIONS):
        started = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - started)
    return min(seconds)
