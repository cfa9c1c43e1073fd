"""NumPy views of int32 memory that vLLM passes as raw addresses."""

from __future__ import annotations

import ctypes

import numpy as np
import numpy.typing as npt

Int32Array = npt.NDArray[np.int32]


def int32_view(address: int, length: int) -> Int32Array:
    """`length` int32 values at `address`, shared, not copied.

    The caller vouches for the address: vLLM's block tables keep their buffers for the engine's
    lifetime.
    """
    return np.ctypeslib.as_array((ctypes.c_int32 * length).from_address(address))


def int32_row(base: int, row: int, stride: int, length: int) -> Int32Array:
    """The first `length` values of row `row` of a table at `base` with `stride` values a row."""
    return int32_view(base + 4 * row * stride, length)
