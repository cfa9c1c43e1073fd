"""A read in vLLM's terms, and vLLM's answer as a result."""

from __future__ import annotations

from typing import Any

from engine.reads import Read, ReadResult


class IncompleteAnswerError(RuntimeError):
    """vLLM's answer lacks a slot or a label: it does not do what this engine relies on."""


def sampling_params(read: Read) -> Any:
    """`vllm.SamplingParams` of `read`: one denoising step of its own canvas, labels reported."""
    from vllm import SamplingParams
    from vllm.sampling_params import RequestOutputKind

    return SamplingParams(
        max_tokens=read.width,
        logprob_token_ids=list(read.label_ids),
        extra_args=extra_args(read),
        detokenize=False,
        flat_logprobs=True,
        output_kind=RequestOutputKind.FINAL_ONLY,
        skip_clone=True,  # nobody else holds these parameters
    )


def extra_args(read: Read) -> dict[str, Any]:
    """DiffusionGemma's own parameters; `vllm_xargs` where the read goes through a server."""
    return {
        "diffusion_seed_canvas": list(read.canvas_ids),
        "diffusion_canvas_length": read.width,
        "diffusion_max_steps": 1,
        "diffusion_read_only": True,
        "diffusion_constrained": read.constrained,
    }


def label_logprobs(read: Read, flat: Any) -> dict[int, dict[int, float]]:
    """Slot -> label id -> log probability from vLLM's `FlatLogprobs`, keyed by token id only.

    A position lists the sampled token first and then the labels, in whatever order, possibly with
    labels of other reads. Raises `IncompleteAnswerError` when a slot or label is missing.
    """
    positions = 0 if flat is None else len(flat.start_indices)
    if positions < read.width:
        raise IncompleteAnswerError(
            f"incomplete_answer: {positions} canvas positions answered of {read.width}"
        )
    found: dict[int, dict[int, float]] = {}
    for slot in read.slots:
        span = slice(flat.start_indices[slot], flat.end_indices[slot])
        by_id = dict(zip(flat.token_ids[span], flat.logprobs[span], strict=True))
        try:
            found[slot] = {label: by_id[label] for label in read.label_ids}
        except KeyError:
            missing = sum(label not in by_id for label in read.label_ids)
            raise IncompleteAnswerError(
                f"incomplete_answer: {missing} of {len(read.label_ids)} labels missing at "
                f"canvas position {slot}"
            ) from None
    return found


def read_result(read: Read, output: Any, batch_reads: int) -> ReadResult:
    """`read`'s result from vLLM's `RequestOutput`; raises as `label_logprobs` does."""
    return ReadResult(
        read.read_id,
        label_logprobs(read, output.outputs[0].logprobs),
        batch_reads=batch_reads,
        cached_prompt_tokens=output.num_cached_tokens or 0,
    )
