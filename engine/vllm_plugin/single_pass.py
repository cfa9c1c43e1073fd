"""A scheduler that gives an eligible read its prompt's end and its canvas in one engine step.

A read's canvas travels as draft tokens. Stock vLLM schedules those one step after the prompt is
done, as drafts normally come out of that step; a seeded canvas is there from the beginning. Here
it is appended to the chunk that finishes the prompt.
"""

from __future__ import annotations

from typing import Any

from vllm.v1.core.sched.diffusion_scheduler import diffusion_canvas_width

from engine.vllm_plugin.counting import CountingScheduler
from engine.vllm_plugin.settings import Settings
from engine.vllm_plugin.start_up import refuse_unsupported


class SinglePassScheduler(CountingScheduler):
    """Joins the canvas of a read to its final prompt chunk when both fit.

    They fit when the chunk and the canvas are within the tokens the step has left, and the prompt
    and the canvas within max_model_len. Otherwise the read takes vLLM's two steps, unchanged.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        refuse_unsupported(Settings(single_pass_reads=True), self.vllm_config)
        self._step_tokens = min(
            self.max_num_scheduled_tokens, self.scheduler_config.max_num_batched_tokens
        )
        self._step_tokens_left = 0
        self._joined: dict[str, int] = {}
        self._obstacles: dict[str, str] = {}

    def schedule(self, throttle_prefills: bool = False) -> Any:
        self._step_tokens_left = self._step_tokens
        self._joined.clear()
        return super().schedule(throttle_prefills)

    def _reserve_prefill_lookahead(
        self, request: Any, num_computed_tokens: int, num_new_tokens: int
    ) -> int:
        """Add the canvas to a final prompt chunk; keep a canvas of its own step whole.

        The base class asks for every request, in both of its loops, when the chunk is settled and
        before blocks are allocated: blocks and budget then follow from the returned count.
        """
        chunk: int = super()._reserve_prefill_lookahead(
            request, num_computed_tokens, num_new_tokens
        )
        if chunk > 0 and num_computed_tokens + chunk == request.num_tokens and is_read(request):
            width = diffusion_canvas_width(request, self.num_spec_tokens)
            obstacle = self._obstacle(request, chunk, width)
            if obstacle is None:
                self._joined[request.request_id] = width
                chunk += width
            else:
                self._obstacles[request.request_id] = obstacle
        elif self._cuts_canvas(request, num_computed_tokens + chunk):
            return 0
        # After a preemption inside this step vLLM has more left than this: a read that would
        # have fitted then takes two steps, which is slower and as correct.
        self._step_tokens_left -= chunk
        return chunk

    def _obstacle(self, request: Any, chunk: int, width: int) -> str | None:
        if request.num_tokens + width > self.max_model_len:
            return "model_length"
        return "token_budget" if chunk + width > self._step_tokens_left else None

    def _cuts_canvas(self, request: Any, reached: int) -> bool:
        """Whether the step's last tokens would hold the first part of a canvas only.

        vLLM would denoise that part as if it were the canvas: its answer would depend on what
        else is in the step. The request waits for the next step instead, where running requests
        come first.
        """
        whole = min(request.num_tokens + len(request.spec_token_ids), self.max_model_len)
        return bool(
            request.num_tokens < reached < whole and self._step_tokens_left < self._step_tokens
        )

    def _update_after_schedule(self, scheduler_output: Any) -> None:
        """Announce the joined canvases as draft tokens, as vLLM does in a read's second step."""
        for request_id, width in self._joined.items():
            # Absent when its blocks could not be allocated, or when it was preempted again.
            if request_id in scheduler_output.num_scheduled_tokens:
                scheduler_output.scheduled_spec_decode_tokens[request_id] = [-1] * width
        super()._update_after_schedule(scheduler_output)

    def two_step_reason(self, request: Any) -> str:
        return self._obstacles.get(request.request_id, "not_eligible")

    def _free_request(self, request: Any, delay_free_blocks: bool = False) -> tuple[Any, Any]:
        freed = super()._free_request(request, delay_free_blocks)
        self._obstacles.pop(request.request_id, None)
        return freed


def is_read(request: Any) -> bool:
    """Whether a request is one read-only denoising step, text only, without prompt logprobs."""
    params = request.sampling_params
    extra = (params.extra_args if params is not None else None) or {}
    return bool(
        extra.get("diffusion_read_only")
        and extra.get("diffusion_max_steps") == 1
        and params.prompt_logprobs is None
        and not request.has_encoder_inputs
        and request.num_output_tokens == 0
    )
