"""Log probabilities of chosen token ids, ranks, and the ids to report.

Reads reach these only when they are unconstrained or one step mixes label sets.
"""

from __future__ import annotations

from typing import Any

import torch


def topk_log_softmax(
    output: torch.Tensor,
    logits: torch.Tensor,
    logits_stride: int,
    token_ids: torch.Tensor,
    *_: Any,
    **__: Any,
) -> None:
    """Natural log probability of each row's `token_ids` under the softmax over all its logits.

    Args:
        output: float32 [rows, ids].
        logits: [rows, vocabulary], any float type; computed in float32.
        token_ids: int64 [rows, ids].
    """
    scores = logits.float()
    largest = scores.amax(dim=-1, keepdim=True)
    total = (scores - largest).exp_().sum(dim=-1, keepdim=True)
    output.copy_(scores.gather(-1, token_ids) - largest - total.log_())


def ranks(
    output: torch.Tensor,
    logits: torch.Tensor,
    logits_stride: int,
    token_ids: torch.Tensor,
    *_: Any,
    **__: Any,
) -> None:
    """How many logits of the row are at or above that of its token: 1 for the largest."""
    chosen = logits.gather(-1, token_ids.to(torch.int64).unsqueeze(-1))
    output.copy_((logits >= chosen).sum(dim=-1))


def fill_logprob_token_ids(
    out_token_ids: torch.Tensor,
    out_token_ids_stride: int,
    out_valid_mask: torch.Tensor,
    out_valid_mask_stride: int,
    sampled_token_ids: torch.Tensor,
    topk_token_ids: torch.Tensor,
    topk_token_ids_stride: int,
    expanded_idx_mapping: torch.Tensor,
    num_request_token_ids: torch.Tensor,
    request_token_ids: torch.Tensor,
    request_token_ids_stride: int,
    NUM_TOPK: int,  # noqa: N803 (vLLM's launch names)
    **_: Any,
) -> None:
    """The ids to report per row: the sampled one, then its request's own ids, else the top-k.

    Args:
        out_token_ids: int64 [rows, 1 + columns]; out_valid_mask: bool, same shape.
        sampled_token_ids: int64 [rows].
        topk_token_ids: int32 [rows, NUM_TOPK]; not read when NUM_TOPK is 0.
        expanded_idx_mapping: int32 [rows], the row's request slot.
        num_request_token_ids: int32 [max_num_reqs]; request_token_ids: [max_num_reqs, most ids].
    """
    out_token_ids[:, 0] = sampled_token_ids
    out_valid_mask[:, 0] = True
    counts = num_request_token_ids.tolist()
    for row, slot in enumerate(expanded_idx_mapping.tolist()):
        count = counts[slot]
        ids = request_token_ids[slot, :count] if count > 0 else topk_token_ids[row, :NUM_TOPK]
        count = count if count > 0 else NUM_TOPK
        out_token_ids[row, 1 : 1 + count] = ids[:count]
        out_valid_mask[row, 1 : 1 + count] = True


def prompt_logprobs_token_ids(
    output: torch.Tensor,
    query_start_loc: torch.Tensor,
    idx_mapping: torch.Tensor,
    num_computed_tokens: torch.Tensor,
    all_token_ids: torch.Tensor,
    all_token_ids_stride: int,
    **_: Any,
) -> None:
    """For every scheduled token the id that follows it in its request, whose logprob is due."""
    starts = query_start_loc.tolist()
    flat = all_token_ids.view(-1)
    for row, slot in enumerate(idx_mapping.tolist()):
        begin, end = starts[row], starts[row + 1]
        # Flat, as the last position's follower lies in the next row when the row is full.
        first = slot * all_token_ids_stride + int(num_computed_tokens[slot]) + 1
        following = flat[first : first + end - begin]
        output[begin : begin + len(following)] = following
