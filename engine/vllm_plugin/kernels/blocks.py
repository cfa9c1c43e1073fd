"""Block tables in batch order, and the KV slot of every token."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from engine.vllm_plugin.kernels.memory import int32_row


def gather_block_tables(
    idx_mapping: torch.Tensor,
    source_addresses: torch.Tensor,
    target_addresses: torch.Tensor,
    strides: torch.Tensor,
    num_blocks: torch.Tensor,
    num_blocks_stride: int,
    num_reqs: int,
    **_: Any,
) -> None:
    """Copy each batch row's block ids from its request's row of the persistent table.

    vLLM also zeroes rows that pad the batch for CUDA graphs. There are none on CPU, and the
    padded count is in the launch grid, which an override does not see.

    Args:
        idx_mapping: int32 [num_reqs], batch row to request slot.
        source_addresses, target_addresses: uint64 [groups], int32 tables.
        strides: int64 [groups], blocks a row of both tables.
        num_blocks: int32 [groups, max_num_reqs], blocks each request holds.
    """
    slots = idx_mapping[:num_reqs].tolist()
    for source, target, stride, counts in zip(
        source_addresses.tolist(),
        target_addresses.tolist(),
        strides.tolist(),
        num_blocks.numpy(),
        strict=True,
    ):
        for row, slot in enumerate(slots):
            count = int(counts[slot])
            int32_row(target, row, stride, count)[:] = int32_row(source, slot, stride, count)


def compute_slot_mappings(
    max_num_tokens: int,
    idx_mapping: torch.Tensor,
    query_start_loc: torch.Tensor,
    positions: torch.Tensor,
    table_addresses: torch.Tensor,
    table_strides: torch.Tensor,
    block_sizes: torch.Tensor,
    mapping_enabled: torch.Tensor,
    dcp_sharded: torch.Tensor,
    slot_mappings: torch.Tensor,
    slot_mappings_stride: int,
    cp_rank: int,
    CP_SIZE: int = 1,  # noqa: N803 (vLLM's launch names)
    PAD_ID: int = -1,  # noqa: N803
    **_: Any,
) -> None:
    """KV slot of every token: block number times block size plus offset; padded with PAD_ID.

    Args:
        idx_mapping: int32 [num_reqs], batch row to request slot; negative for a dummy request.
        query_start_loc: int32 [num_reqs + 1], where each request's tokens begin.
        positions: int64 [tokens], position of each token in its request.
        table_addresses, table_strides, block_sizes, mapping_enabled: [groups].
        slot_mappings: int64 [groups, max_num_tokens], the output.

    Raises:
        NotImplementedError: with context parallelism, which the CPU platform does not have.
    """
    if CP_SIZE != 1:
        raise NotImplementedError(f"context parallelism (size {CP_SIZE}) on CPU without Triton")
    starts = query_start_loc.tolist()
    slots = idx_mapping.tolist()
    tokens = positions.numpy()
    for group, (address, stride, size, enabled) in enumerate(
        zip(
            table_addresses.tolist(),
            table_strides.tolist(),
            block_sizes.tolist(),
            mapping_enabled.tolist(),
            strict=True,
        )
    ):
        mapping = slot_mappings[group].numpy()
        mapping[starts[len(slots)] :] = PAD_ID
        for row, slot in enumerate(slots):
            begin, end = starts[row], starts[row + 1]
            if slot < 0 or not enabled:
                mapping[begin:end] = PAD_ID
                continue
            where = tokens[begin:end]
            blocks = int32_row(address, slot, stride, stride)[where // size]
            mapping[begin:end] = blocks.astype(np.int64) * size + where % size
