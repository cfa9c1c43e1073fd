"""The embedded model's shape: DiffusionGemma in small, with nothing left out.

As in the released model: mixture of experts beside a dense MLP in every layer, sliding layers with
a full one last, keys used as values on full layers, self-conditioning, tied embeddings, softcap 30,
a sliding window of 1,024.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from engine.tiny.tokenizer import CONTROL_TOKENS, VOCAB_SIZE

if TYPE_CHECKING:
    from transformers import DiffusionGemmaConfig, DiffusionGemmaForBlockDiffusion

LAYERS = 3
SLIDING_PER_FULL = 2
EVIDENCE_SCALE = 0.3
_IDS = {token: token_id for token_id, token in CONTROL_TOKENS.items()}

TEXT: dict[str, Any] = {
    "vocab_size": VOCAB_SIZE,
    "hidden_size": 128,
    "intermediate_size": 256,
    "num_hidden_layers": LAYERS,
    "layer_types": [
        "full_attention" if (i + 1) % (SLIDING_PER_FULL + 1) == 0 else "sliding_attention"
        for i in range(LAYERS)
    ],
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "global_head_dim": 64,
    "num_global_key_value_heads": 1,
    "num_experts": 8,
    "top_k_experts": 2,
    "moe_intermediate_size": 64,
    "sliding_window": 1024,
    "max_position_embeddings": 8192,
    "final_logit_softcapping": 30.0,
    "pad_token_id": _IDS["<pad>"],
    "eos_token_id": [_IDS["<eos>"], _IDS["<turn|>"]],
    "bos_token_id": _IDS["<bos>"],
}
VISION: dict[str, Any] = {
    # Transformers cannot build the model without a vision tower; nothing ever looks through it.
    "model_type": "gemma4_vision",
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "global_head_dim": 16,
    "position_embedding_size": 64,
}
GENERATION: dict[str, Any] = {
    "max_denoising_steps": 48,
    "t_max": 0.8,
    "t_min": 0.4,
    "stability_threshold": 1,
    "confidence_threshold": 0.005,
    "max_new_tokens": 256,
    "sampler_config": {"_cls_name": "EntropyBoundSamplerConfig", "entropy_bound": 0.1},
    "pad_token_id": _IDS["<pad>"],
    "bos_token_id": _IDS["<bos>"],
    "eos_token_id": [_IDS["<eos>"], _IDS["<turn|>"]],
}


def model_config() -> DiffusionGemmaConfig:
    """The checkpoint's configuration."""
    from transformers import DiffusionGemmaConfig

    return DiffusionGemmaConfig(
        text_config=dict(TEXT),
        vision_config=dict(VISION),
        canvas_length=64,
        image_token_id=_IDS["<|image_soft|>"],
        boi_token_id=_IDS["<|image>"],
        eoi_token_id=_IDS["<|image>"],
        tie_word_embeddings=True,
    )


def new_model(
    seed: int, evidence: Sequence[Sequence[float]] | None = None
) -> DiffusionGemmaForBlockDiffusion:
    """A model with fresh weights, in float32.

    `evidence` [vocabulary][values] is written into the embeddings, along random directions.

    Residual branches start quiet, their last norms at a fraction of one, so that layers neither
    drown the embeddings nor amplify rounding through the routing of experts. Attention scores
    have no scale of their own in this architecture: the norms of queries and keys start where
    scores vary by about one, else every head would begin by staring at a single token.
    """
    import torch
    from transformers import DiffusionGemmaForBlockDiffusion

    torch.manual_seed(seed)
    model = DiffusionGemmaForBlockDiffusion(model_config())
    hidden = TEXT["hidden_size"]
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "vision" in name:
                continue
            if name.endswith("embed_tokens.weight"):
                weight.normal_(0.0, hidden**-0.5)
            elif name.endswith(
                ("post_attention_layernorm.weight", "post_feedforward_layernorm.weight")
            ):
                weight.fill_(0.3)
            elif name.endswith(("q_norm.weight", "k_norm.weight")):
                weight.fill_(weight.numel() ** -0.25)
            elif name.endswith("decoder.norm.weight"):
                weight.fill_(0.5)
            elif weight.dim() >= 2:
                weight.normal_(0.0, weight.shape[-1] ** -0.5)
        if evidence is not None:
            words = torch.tensor(evidence)
            directions, _ = torch.linalg.qr(torch.randn(hidden, words.shape[1]))
            model.get_input_embeddings().weight += EVIDENCE_SCALE * words @ directions.T
    return model
