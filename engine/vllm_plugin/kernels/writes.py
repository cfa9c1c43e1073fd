"""Apply the writes that vLLM stages on the host to its state tensors."""

from __future__ import annotations

from typing import Any

import torch

from engine.vllm_plugin.kernels.memory import int32_row


def apply_write(
    output: torch.Tensor,
    output_stride: int | torch.Tensor,
    write_indices: torch.Tensor,
    write_starts: torch.Tensor,
    write_contents: torch.Tensor,
    write_cu_lens: torch.Tensor,
    write_group_ids: torch.Tensor | None,
    MULTI_GROUP: bool = False,  # noqa: N803 (vLLM's launch names)
    **_: Any,
) -> None:
    """Write i puts `write_contents[cu_lens[i-1]:cu_lens[i]]` into a row from a column on.

    Args:
        output: the tensor written to, [rows, ...] or [rows]; with MULTI_GROUP, uint64 [groups],
            the addresses of int32 tables.
        output_stride: values a row; with MULTI_GROUP, int64 [groups].
        write_indices: int32 [writes], the row.
        write_starts: int32 [writes], the first column.
        write_contents: all contents, one after the other.
        write_cu_lens: int32 [writes], where each content ends.
        write_group_ids: int32 [writes], which table; None without MULTI_GROUP.
    """
    contents = write_contents.numpy()
    rows = write_indices.tolist()
    starts = write_starts.tolist()
    ends = write_cu_lens.tolist()
    begin = 0
    if MULTI_GROUP:
        assert isinstance(output_stride, torch.Tensor)
        assert write_group_ids is not None
        bases, strides = output.tolist(), output_stride.tolist()
        for row, start, end, group in zip(
            rows, starts, ends, write_group_ids.tolist(), strict=True
        ):
            table = int32_row(bases[group], row, strides[group], start + end - begin)
            table[start:] = contents[begin:end]
            begin = end
        return
    flat = output.view(-1).numpy()
    for row, start, end in zip(rows, starts, ends, strict=True):
        first = row * int(output_stride) + start
        flat[first : first + end - begin] = contents[begin:end]
        begin = end
