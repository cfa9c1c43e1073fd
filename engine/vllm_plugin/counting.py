"""A diffusion scheduler that counts, exactly, what its engine does.

The counts leave the engine with the requests themselves: a finished request carries, as its
`kv_transfer_params`, how it ran and the totals so far, which reach the caller in-process and from
a child process alike. Nothing about scheduling changes.
"""

from __future__ import annotations

from typing import Any

from vllm.v1.core.sched.diffusion_scheduler import DiffusionScheduler

from engine.vllm_plugin.settings import read_settings

NOTE_KEY = "onepass"
"""Where a finished request's `kv_transfer_params` hold its note."""


class CountingScheduler(DiffusionScheduler):  # type: ignore[misc]
    """Stock scheduling, counted.

    A note is `{"single_pass": bool, "two_step_reason": str | None, "totals": {...}}`; the totals'
    names and units are `engine.reads.EngineCounters`'s.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._joined_label_sets = read_settings(
            self.vllm_config.additional_config
        ).joined_label_sets
        self._vocab_size = self.vllm_config.model_config.get_vocab_size()
        self._single_pass: set[str] = set()
        self._totals = dict.fromkeys(
            ("steps", "prompt_tokens_computed", "canvas_tokens", "logits_columns"), 0
        )

    def two_step_reason(self, request: Any) -> str:
        """Why `request`, which ran in two steps, did: one of `TWO_STEP_REASONS`."""
        return "flag_off"

    def schedule(self, throttle_prefills: bool = False) -> Any:
        output = super().schedule(throttle_prefills)
        if output.total_num_scheduled_tokens:
            self._count(output)
        return output

    def _count(self, output: Any) -> None:
        canvases = output.scheduled_spec_decode_tokens
        canvas_tokens = sum(map(len, canvases.values()))
        totals = self._totals
        totals["steps"] += 1
        totals["canvas_tokens"] += canvas_tokens
        totals["prompt_tokens_computed"] += output.total_num_scheduled_tokens - canvas_tokens
        totals["logits_columns"] += canvas_tokens * self._columns(canvases)
        for request_id, canvas in canvases.items():
            if output.num_scheduled_tokens[request_id] > len(canvas):
                self._single_pass.add(request_id)

    def _columns(self, canvases: dict[str, Any]) -> int:
        """Vocabulary columns of this step's unembedding."""
        label_sets = [_label_set(self.requests[request_id]) for request_id in canvases]
        known = [labels for labels in label_sets if labels is not None]
        if len(known) < len(label_sets) or not known:
            return int(self._vocab_size)
        if self._joined_label_sets:
            return len(set().union(*known))
        return len(known[0]) if len(set(known)) == 1 else int(self._vocab_size)

    def _free_request(self, request: Any, delay_free_blocks: bool = False) -> tuple[Any, Any]:
        kv_params, ec_params = super()._free_request(request, delay_free_blocks)
        single_pass = request.request_id in self._single_pass
        self._single_pass.discard(request.request_id)
        note = {
            "single_pass": single_pass,
            "two_step_reason": None if single_pass else self.two_step_reason(request),
            "totals": dict(self._totals),
        }
        return {**(kv_params or {}), NOTE_KEY: note}, ec_params


def _label_set(request: Any) -> tuple[int, ...] | None:
    """The ids a constrained request normalises over; None for the whole vocabulary."""
    params = request.sampling_params
    extra = params.extra_args or {}
    if not extra.get("diffusion_constrained"):
        return None
    return tuple(params.logprob_token_ids)
