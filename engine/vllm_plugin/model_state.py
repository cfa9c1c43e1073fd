"""Per-step state of DiffusionGemma for the plugin's settings.

In a joined read's row the prompt's last chunk and the whole canvas stand one behind the other. The
attention kernel sees two rows instead: the prompt's tokens, causal and ending before the canvas,
and the canvas, bidirectional over prompt and canvas. Both are right in one forward pass because
every layer writes all new keys and values before it attends.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from vllm.model_executor.models.diffusion_gemma import DiffusionGemmaModelState
from vllm.v1.worker.gpu.attn_utils import build_attn_metadata

from engine.vllm_plugin.attention_rows import split_rows
from engine.vllm_plugin.label_sets import JoinedLabelSampler, join_label_sets
from engine.vllm_plugin.last_layer import CanvasOnlyLayer, rows_to_finish
from engine.vllm_plugin.settings import read_settings

Rows = npt.NDArray[np.intp]


class OnepassModelState(DiffusionGemmaModelState):  # type: ignore[misc]
    """vLLM's state, with canvases that join their prompt's last chunk."""

    def __init__(self, vllm_config: Any, *args: Any, **kwargs: Any) -> None:
        super().__init__(vllm_config, *args, **kwargs)
        self._settings = read_settings(vllm_config.additional_config)
        self._last_layer: CanvasOnlyLayer | None = None
        if self._settings.canvas_only_last_layer:
            self._last_layer = CanvasOnlyLayer.adopt(self.model.model.layers[-1])

    def custom_sampler(self, sampler: Any) -> Any:
        diffusion_sampler, rest = super().custom_sampler(sampler)
        if self._settings.joined_label_sets:
            diffusion_sampler = JoinedLabelSampler.adopt(diffusion_sampler)
        return diffusion_sampler, rest

    def prepare_attn(
        self,
        input_batch: Any,
        cudagraph_mode: Any,
        block_tables: Any,
        slot_mappings: torch.Tensor,
        attn_groups: Any,
        kv_cache_config: Any,
        for_capture: bool = False,
        ubatch_idx: int = 0,
    ) -> Any:
        """Attention metadata; two rows for each joined read."""
        if not joined_rows(input_batch).size:
            return super().prepare_attn(
                input_batch,
                cudagraph_mode,
                block_tables,
                slot_mappings,
                attn_groups,
                kv_cache_config,
                for_capture,
                ubatch_idx,
            )
        encoder_phase = self.diffusion_states.is_encoder_phase[
            input_batch.idx_mapping[: input_batch.num_reqs]
        ]
        rows = split_rows(
            np.diff(input_batch.query_start_loc_np[: input_batch.num_reqs + 1]),
            input_batch.seq_lens[: input_batch.num_reqs].numpy(),
            joined_widths(input_batch),
            encoder_phase.numpy(),
        )
        source = torch.from_numpy(rows.source)
        query_start_loc = torch.from_numpy(rows.query_start_loc)
        return build_attn_metadata(
            attn_groups=attn_groups,
            num_reqs=len(rows.source),
            num_tokens=input_batch.num_tokens,
            query_start_loc_gpu=query_start_loc,
            query_start_loc_cpu=query_start_loc,
            max_query_len=int(np.diff(rows.query_start_loc).max()),
            seq_lens=torch.from_numpy(rows.seq_lens),
            max_seq_len=self.max_model_len,
            block_tables=[table[source] for table in block_tables],
            slot_mappings=slot_mappings,
            kv_cache_config=kv_cache_config,
            causal=torch.from_numpy(rows.causal),
        )

    def prepare_inputs(self, input_batch: Any, req_states: Any) -> dict[str, Any]:
        """Put the joined canvases behind their prompts, then as the base class."""
        joined = joined_rows(input_batch)
        if joined.size:
            self._place_canvases(input_batch, req_states, joined)
        inputs: dict[str, Any] = super().prepare_inputs(input_batch, req_states)
        if self._settings.joined_label_sets:
            join_label_sets(self.diffusion_states, input_batch)
        if self._last_layer is not None:
            self._last_layer.rows = rows_to_finish(input_batch)
        return inputs

    def prepare_dummy_inputs(self, num_reqs: int, num_tokens: int) -> dict[str, Any]:
        if self._last_layer is not None:
            self._last_layer.rows = None
        dummies: dict[str, Any] = super().prepare_dummy_inputs(num_reqs, num_tokens)
        return dummies

    def _place_canvases(self, input_batch: Any, req_states: Any, joined: Rows) -> None:
        """What vLLM's sampler does when a prompt ends, plus the ids into this step's input."""
        states = self.diffusion_states
        slots_np = input_batch.idx_mapping_np[joined]
        slots = torch.from_numpy(slots_np.astype(np.int64))
        states.init_canvas(slots)
        states.apply_seed_canvases(slots_np, slots)
        states.is_encoder_phase.index_fill_(0, slots, False)
        req_states.draft_tokens[slots, : states.canvas_length] = states.canvas[slots].to(
            req_states.draft_tokens.dtype
        )
        widths = joined_widths(input_batch)
        input_ids = input_batch.input_ids
        for row, slot in zip(joined.tolist(), slots_np.tolist(), strict=True):
            end, width = int(input_batch.query_start_loc_np[row + 1]), int(widths[row])
            input_ids[end - width : end] = states.canvas[slot, :width].to(input_ids.dtype)

    def _apply_self_conditioning(
        self,
        decode_slots_np: npt.NDArray[Any],
        decode_idx_np: npt.NDArray[Any],
        query_start_loc_np: npt.NDArray[Any],
        inputs_embeds: torch.Tensor,
        sc_embeds: torch.Tensor,
    ) -> None:
        """Condition the canvases only: not the prompt chunk in front of a joined one.

        A request that denoises once has no earlier prediction to be conditioned on: its soft
        embeddings are zero, the gated MLP of zero is exactly zero, and only the norm remains.
        """
        states = self.diffusion_states
        starts = query_start_loc_np[decode_idx_np]
        ends = query_start_loc_np[decode_idx_np + 1]
        starts = np.maximum(starts, ends - states.canvas_width_np[decode_slots_np])
        first = np.array([slot in states.single_step_slots for slot in decode_slots_np.tolist()])
        if first.any():
            rows = torch.from_numpy(
                np.concatenate(
                    [
                        np.arange(start, end)
                        for start, end in zip(starts[first], ends[first], strict=True)
                    ]
                )
            )
            inputs_embeds[rows] = self.model.self_conditioning.post_norm(inputs_embeds[rows])
        if not first.all():
            # Spans as [start, end, start, end, ...], each request at an even place.
            spans = np.stack([starts[~first], ends[~first]], axis=1).reshape(-1)
            super()._apply_self_conditioning(
                decode_slots_np[~first],
                np.arange(0, len(spans), 2),
                spans,
                inputs_embeds,
                sc_embeds,
            )


def joined_rows(input_batch: Any) -> Rows:
    """Batch rows that hold both the end of a prompt and a canvas."""
    if input_batch.num_draft_tokens == 0 or input_batch.num_draft_tokens_per_req is None:
        return np.empty(0, dtype=np.intp)
    rows: Rows = np.flatnonzero(joined_widths(input_batch))
    return rows


def joined_widths(input_batch: Any) -> npt.NDArray[np.int32]:
    """Canvas width of each joined row, 0 for the others."""
    widths: npt.NDArray[np.int32] = np.where(
        input_batch.is_prefilling_np, input_batch.num_draft_tokens_per_req, 0
    )
    return widths
