"""Model Runner V2's kernels for CPU, by vLLM's name for each.

An override is called with the kernel's launch arguments, by position, and without the launch
grid, so the number of requests or rows comes from a tensor's shape. Block-size arguments mean
nothing here. Tensors are CPU tensors; index arrays are handled through NumPy views of them, which
costs about a tenth of indexing small torch tensors. All write their outputs in place.
"""

from __future__ import annotations

from collections.abc import Callable

from engine.vllm_plugin.kernels import blocks, inputs, logprobs, writes

_WORKER = "vllm.v1.worker.gpu."

KERNELS: dict[str, Callable[..., None]] = {
    f"{_WORKER}buffer_utils._apply_write_kernel": writes.apply_write,
    f"{_WORKER}block_table._gather_block_tables_kernel": blocks.gather_block_tables,
    f"{_WORKER}block_table._compute_slot_mappings_kernel": blocks.compute_slot_mappings,
    f"{_WORKER}input_batch._prepare_prefill_inputs_kernel": inputs.prepare_prefill_inputs,
    f"{_WORKER}input_batch._prepare_pos_seq_lens_kernel": inputs.prepare_pos_seq_lens,
    f"{_WORKER}input_batch._combine_sampled_and_draft_tokens_kernel": (
        inputs.combine_sampled_and_draft_tokens
    ),
    f"{_WORKER}input_batch._expand_idx_mapping_kernel": inputs.expand_idx_mapping,
    f"{_WORKER}input_batch._get_num_sampled_and_rejected_kernel": (
        inputs.get_num_sampled_and_rejected
    ),
    f"{_WORKER}input_batch._post_update_kernel": inputs.post_update,
    f"{_WORKER}input_batch._post_update_num_computed_tokens_kernel": (
        inputs.post_update_num_computed_tokens
    ),
    f"{_WORKER}sample.logprob._topk_log_softmax_kernel": logprobs.topk_log_softmax,
    f"{_WORKER}sample.logprob._ranks_kernel": logprobs.ranks,
    f"{_WORKER}sample.logprob._fill_logprob_token_ids_kernel": logprobs.fill_logprob_token_ids,
    f"{_WORKER}sample.prompt_logprob._prompt_logprobs_token_ids_kernel": (
        logprobs.prompt_logprobs_token_ids
    ),
}
