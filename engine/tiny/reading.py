"""Reads through Transformers: the logits of a batch's open slots, in training and evaluation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from engine.tiny.examples import Batch

if TYPE_CHECKING:
    import torch
    from transformers import DiffusionGemmaForBlockDiffusion


class Reading(NamedTuple):
    """What a batch's reads give, in float32.

    Attributes:
        slot_logits: [slots of all examples in order, vocabulary].
        prompt_states: [examples, longest rest of a prompt, hidden], the encoder's last.
        is_prompt: [examples, longest rest of a prompt], False where padded.
    """

    slot_logits: torch.Tensor
    prompt_states: torch.Tensor
    is_prompt: torch.Tensor


def read(model: DiffusionGemmaForBlockDiffusion, batch: Batch) -> Reading:
    """One denoising step on every example of the batch.

    The shared prefix is encoded once and its keys and values repeated. Prompts are padded on the
    right; positions and masks hide the padding from the canvas.
    """
    import torch

    size = len(batch.examples)
    cache = _encode_prefix(model, batch.prefix_ids, size)
    prefix = len(batch.prefix_ids)
    lengths = torch.tensor([len(example.prompt_rest_ids) for example in batch.examples])
    longest = int(lengths.max())
    width = len(batch.examples[0].canvas_ids)
    rest = torch.zeros(size, longest, dtype=torch.long)
    for row, example in enumerate(batch.examples):
        rest[row, : lengths[row]] = torch.tensor(example.prompt_rest_ids)
    real = torch.arange(longest) < lengths[:, None]
    prompt_mask = torch.cat([torch.ones(size, prefix, dtype=torch.bool), real], 1)
    mask = torch.cat([prompt_mask, torch.ones(size, width, dtype=torch.bool)], 1)
    output = model.model(
        input_ids=rest,
        attention_mask=prompt_mask,
        position_ids=(prefix + torch.arange(longest)).expand(size, -1),
        past_key_values=cache,
        decoder_input_ids=torch.tensor([example.canvas_ids for example in batch.examples]),
        decoder_attention_mask=mask,
        decoder_position_ids=prefix + lengths[:, None] + torch.arange(width),
    )
    hidden = output.last_hidden_state
    rows = [i for i, example in enumerate(batch.examples) for _ in example.targets]
    positions = [target.position for example in batch.examples for target in example.targets]
    cap = model.config.text_config.final_logit_softcapping
    logits = model.lm_head(hidden[rows, positions]).float()
    return Reading(torch.tanh(logits / cap) * cap, output.encoder_last_hidden_state, real)


def _encode_prefix(
    model: DiffusionGemmaForBlockDiffusion, prefix_ids: tuple[int, ...], size: int
) -> Any:
    import torch
    from transformers import DynamicCache

    cache = DynamicCache(config=model.config.text_config)
    model.model.encoder(input_ids=torch.tensor([prefix_ids]), past_key_values=cache)
    cache.batch_repeat_interleave(size)
    return cache
