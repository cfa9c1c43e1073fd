"""A step's input ids, positions and lengths, and the request state after it.

Shapes used throughout: `idx_mapping` int32 [num_reqs] maps batch rows to request slots;
`query_start_loc` int32 [num_reqs + 1] tells where each row's tokens begin; per-request state is
[max_num_reqs] by slot; `all_token_ids` is int32 [max_num_reqs, max_model_len].
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch


def prepare_prefill_inputs(
    input_ids: torch.Tensor,
    next_prefill_tokens: torch.Tensor,
    next_prefill_tokens_stride: int,
    num_lookahead: int,
    idx_mapping: torch.Tensor,
    query_start_loc: torch.Tensor,
    all_token_ids: torch.Tensor,
    all_token_ids_stride: int,
    prefill_lens: torch.Tensor,
    num_computed_tokens: torch.Tensor,
    **_: Any,
) -> None:
    """Put the scheduled prompt ids of rows still in their prompt into `input_ids`.

    `next_prefill_tokens` [num_lookahead, max_num_reqs] gets the prompt ids that follow the
    scheduled ones, 0 beyond the prompt. Rows past their prompt are left alone.
    """
    ids = input_ids.numpy()
    starts = query_start_loc.tolist()
    for row, slot in enumerate(idx_mapping.tolist()):
        computed, prefill = int(num_computed_tokens[slot]), int(prefill_lens[slot])
        if computed >= prefill:
            continue
        begin, end = starts[row], starts[row + 1]
        tokens = all_token_ids[slot].numpy()
        reached = computed + end - begin
        ids[begin:end] = tokens[computed:reached]
        ahead = np.zeros(num_lookahead, dtype=tokens.dtype)
        known = tokens[reached : min(reached + num_lookahead, prefill)]
        ahead[: len(known)] = known
        next_prefill_tokens[:num_lookahead, slot] = torch.from_numpy(ahead)


def prepare_pos_seq_lens(
    positions: torch.Tensor,
    seq_lens: torch.Tensor,
    idx_mapping: torch.Tensor,
    query_start_loc: torch.Tensor,
    num_computed_tokens: torch.Tensor,
    max_num_reqs: int,
    **_: Any,
) -> None:
    """Positions of all scheduled tokens; sequence lengths after the step, 0 in unused rows."""
    out, lengths = positions.numpy(), seq_lens.numpy()
    starts = query_start_loc.tolist()
    slots = idx_mapping.tolist()
    for row, slot in enumerate(slots):
        begin, end = starts[row], starts[row + 1]
        computed = int(num_computed_tokens[slot])
        lengths[row] = computed + end - begin
        out[begin:end] = np.arange(computed, computed + end - begin)
    lengths[len(slots) : max_num_reqs] = 0


def combine_sampled_and_draft_tokens(
    input_ids: torch.Tensor,
    idx_mapping: torch.Tensor,
    last_sampled_tokens: torch.Tensor,
    query_start_loc: torch.Tensor,
    seq_lens: torch.Tensor,
    prefill_lens: torch.Tensor,
    draft_tokens: torch.Tensor,
    draft_tokens_stride: int,
    cu_num_logits: torch.Tensor,
    logits_indices: torch.Tensor,
    NUM_NEW_SAMPLED_TOKENS: int = 1,  # noqa: N803 (vLLM's launch names)
    **_: Any,
) -> None:
    """Tell which hidden states get logits, and put sampled and draft ids into `input_ids`.

    A row's logits are its last `cu_num_logits` difference positions. Rows that end inside their
    prompt keep their ids; otherwise the draft ids (a diffusion request's canvas) take the last
    places, and the last sampled id the place before them where that place is past the prompt.
    """
    ids, indices = input_ids.numpy(), logits_indices.numpy()
    drafts = draft_tokens.numpy()
    ends = query_start_loc.tolist()[1:]
    logit_starts = cu_num_logits.tolist()
    lengths = seq_lens.tolist()
    for row, slot in enumerate(idx_mapping.tolist()):
        first, last = logit_starts[row], logit_starts[row + 1]
        count = last - first
        end = ends[row]
        indices[first:last] = np.arange(end - count, end)
        prefill = int(prefill_lens[slot])
        if lengths[row] <= prefill:
            continue
        if NUM_NEW_SAMPLED_TOKENS > 0 and lengths[row] - count >= prefill:
            ids[end - count] = int(last_sampled_tokens.view(-1)[slot])
        num_drafts = count - NUM_NEW_SAMPLED_TOKENS
        if num_drafts > 0:
            ids[end - num_drafts : end] = drafts[slot, :num_drafts]


def expand_idx_mapping(
    idx_mapping: torch.Tensor,
    expanded_idx_mapping: torch.Tensor,
    expanded_local_pos: torch.Tensor,
    cu_num_logits: torch.Tensor,
    **_: Any,
) -> None:
    """For every logit row: its request slot, and its position among the request's logit rows."""
    starts = cu_num_logits.numpy()[: len(idx_mapping) + 1]
    counts = np.diff(starts)
    total = int(starts[-1])
    expanded_idx_mapping.numpy()[:total] = np.repeat(idx_mapping.numpy(), counts)
    expanded_local_pos.numpy()[:total] = np.arange(total) - np.repeat(starts[:-1], counts)


def get_num_sampled_and_rejected(
    num_sampled: torch.Tensor,
    num_rejected: torch.Tensor,
    seq_lens: torch.Tensor,
    cu_num_logits: torch.Tensor,
    idx_mapping: torch.Tensor,
    prefill_lens: torch.Tensor,
) -> None:
    """Rejected is logits minus sampled; both are 0 for a row that ends inside its prompt."""
    rows = len(idx_mapping)
    inside = seq_lens.numpy()[:rows] < prefill_lens.numpy()[idx_mapping.numpy()]
    sampled = num_sampled.numpy()[:rows]
    sampled[inside] = 0
    rejected = np.diff(cu_num_logits.numpy()[: rows + 1]) - sampled
    num_rejected.numpy()[:rows] = np.where(inside, 0, rejected)


def post_update(
    idx_mapping: torch.Tensor,
    num_computed_tokens: torch.Tensor,
    last_sampled_tokens: torch.Tensor,
    output_bin_counts: torch.Tensor | None,
    output_bin_counts_stride: int,
    sampled_tokens: torch.Tensor,
    sampled_tokens_stride: int,
    num_sampled: torch.Tensor,
    num_rejected: torch.Tensor,
    query_start_loc: torch.Tensor | None,
    all_token_ids: torch.Tensor,
    all_token_ids_stride: int,
    total_len: torch.Tensor,
    **_: Any,
) -> None:
    """Append what each row sampled to its request and advance its computed count.

    A row with a negative slot is skipped. `sampled_tokens` is [num_reqs, most sampled];
    `output_bin_counts` [max_num_reqs, vocabulary] counts output ids where penalties are on.
    """
    starts = query_start_loc.tolist() if query_start_loc is not None else None
    counts, rejected = num_sampled.tolist(), num_rejected.tolist()
    computed, totals = num_computed_tokens.numpy(), total_len.numpy()
    for row, slot in enumerate(idx_mapping.tolist()):
        if slot < 0:
            continue
        count = counts[row]
        if count > 0:
            total = int(totals[slot])
            sampled = sampled_tokens[row, :count]
            last_sampled_tokens.view(-1)[slot] = sampled[-1]
            all_token_ids[slot, total : total + count] = sampled
            totals[slot] = total + count
            if output_bin_counts is not None:
                np.add.at(output_bin_counts[slot].numpy(), sampled.numpy(), 1)
        scheduled = starts[row + 1] - starts[row] if starts is not None else 0
        computed[slot] += scheduled - rejected[row]


def post_update_num_computed_tokens(
    idx_mapping: torch.Tensor,
    num_computed_tokens: torch.Tensor,
    query_start_loc: torch.Tensor,
) -> None:
    """Advance each request's computed count by its scheduled tokens."""
    scheduled = np.diff(query_start_loc.numpy()[: len(idx_mapping) + 1])
    num_computed_tokens.numpy()[idx_mapping.numpy()] += scheduled
