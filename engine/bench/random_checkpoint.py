"""Build a DiffusionGemma checkpoint with random weights, of any size, that vLLM and Transformers
load: a few megabytes for tests, one to two gigabytes with the real vocabulary for benchmarks.

Random weights with a gain near one per layer amplify rounding chaotically through expert routing.
The layers' contributions are therefore scaled down ("calm"), so that two correct ways of computing
the same read agree to rounding.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any, Literal

REAL_VOCABULARY = 262_144
CONTROL_TOKENS = {
    0: "<pad>",
    1: "<eos>",
    2: "<bos>",
    3: "<unk>",
    4: "<mask>",
    100: "<|channel>",
    101: "<channel|>",
    105: "<|turn>",
    106: "<turn|>",
}
"""Gemma 4's control tokens at their real ids."""

BENCHMARK_SHAPE: dict[str, int] = {
    "hidden": 768,
    "layers": 12,
    "experts": 32,
    "experts_per_token": 8,
    "vocab_size": REAL_VOCABULARY,
    "head_dim": 128,
}
"""Arguments for a model whose steps are dominated by the forward pass, 1.7 GB in float32."""

_CALM = 0.1
_SLIDING_LAYERS_PER_FULL = 5


def build_random_checkpoint(
    folder: str | Path,
    *,
    hidden: int = 64,
    layers: int = 6,
    experts: int = 8,
    experts_per_token: int = 2,
    vocab_size: int = 512,
    head_dim: int = 32,
    canvas_length: int = 64,
    sliding_window: int = 1024,
    max_position_embeddings: int = 4096,
    seed: int = 0,
    dtype: Literal["float32", "bfloat16"] = "float32",
    tokenizer: Path | None = None,
) -> Path:
    """Write config, weights, tokenizer and generation config into `folder` and return it.

    The layer pattern is DiffusionGemma's: five sliding layers, then a full one whose values are
    its keys; so are the feed-forward widths in relation to `hidden`. Equal arguments give equal
    weights. Needs at least 512 ids for the control tokens, the bytes and a spare. The defaults
    give about 1.2 M parameters (5 MB in float32), `BENCHMARK_SHAPE` 0.4 G.
    The tokenizer is a copy of `tokenizer`, or one of single bytes.
    """
    from engine.vllm_plugin import torchvision_fix

    torchvision_fix.install()
    import torch
    from transformers import (
        DiffusionGemmaConfig,
        DiffusionGemmaForBlockDiffusion,
        DiffusionGemmaTextConfig,
        Gemma4VisionConfig,
    )

    if vocab_size < 512:
        raise ValueError(f"vocab_size {vocab_size}: use at least 512")
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    heads = max(2, hidden // head_dim)
    text = DiffusionGemmaTextConfig(
        vocab_size=vocab_size,
        hidden_size=hidden,
        intermediate_size=max(32, 3 * hidden // 4),
        moe_intermediate_size=max(32, hidden // 4),
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=max(1, heads // 2),
        num_global_key_value_heads=max(1, heads // 4),
        head_dim=head_dim,
        global_head_dim=2 * head_dim,
        layer_types=_layer_types(layers),
        sliding_window=sliding_window,
        max_position_embeddings=max_position_embeddings,
        num_experts=experts,
        top_k_experts=experts_per_token,
        dtype=dtype,
    )
    # Transformers cannot build the model without a vision tower; the smallest one does.
    vision = Gemma4VisionConfig(
        hidden_size=32,
        intermediate_size=32,
        num_hidden_layers=1,
        num_attention_heads=1,
        num_key_value_heads=1,
        head_dim=32,
    )
    config = DiffusionGemmaConfig(
        text_config=text,
        vision_config=vision,
        canvas_length=canvas_length,
        dtype=dtype,
        # Image tokens beyond the vocabulary never match a prompt's ids.
        boi_token_id=vocab_size - 3,
        eoi_token_id=vocab_size - 2,
        image_token_id=vocab_size - 1,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = DiffusionGemmaForBlockDiffusion(config)
    _calm(model)
    model.to(getattr(torch, dtype)).save_pretrained(folder, max_shard_size="2GB")
    _write_json(folder / "generation_config.json", _generation_config())
    if tokenizer is None:
        _write_tokenizer(folder, vocab_size)
    else:
        shutil.copyfile(tokenizer, folder / "tokenizer.json")
    _write_tokenizer_config(folder)
    return folder


def _layer_types(layers: int) -> list[str]:
    """Five sliding layers per full one; the last layer is always full."""
    kinds = [
        "full_attention" if (i + 1) % (_SLIDING_LAYERS_PER_FULL + 1) == 0 else "sliding_attention"
        for i in range(layers)
    ]
    return [*kinds[:-1], "full_attention"]


def _calm(model: Any) -> None:
    """Scale what each layer adds to the residual stream.

    `layer_scalar` stays one everywhere: Transformers keeps one per encoder and decoder layer, vLLM
    a single one for both.
    """
    import torch

    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "post_attention_layernorm" in name or "post_feedforward_layernorm" in name:
                parameter.mul_(_CALM)


def _generation_config() -> dict[str, Any]:
    return {
        "bos_token_id": 2,
        "eos_token_id": [1, 106],
        "pad_token_id": 0,
        "max_denoising_steps": 48,
        "t_min": 0.4,
        "t_max": 0.8,
        "confidence_threshold": 0.005,
        "stability_threshold": 1,
        "sampler_config": {"_cls_name": "EntropyBoundSamplerConfig", "entropy_bound": 0.1},
    }


def _write_tokenizer(folder: Path, vocab_size: int) -> None:
    """A byte-level tokenizer: control tokens at Gemma's ids, the 256 bytes, unused fillers."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    byte_ids = iter(i for i in range(5, vocab_size) if i not in CONTROL_TOKENS)
    vocabulary = {token: i for i, token in CONTROL_TOKENS.items()}
    for symbol in sorted(pre_tokenizers.ByteLevel.alphabet()):
        vocabulary[symbol] = next(byte_ids)
    vocabulary.update({f"<unused{i}>": i for i in byte_ids})
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[], unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(
        [AddedToken(token, special=True) for token in CONTROL_TOKENS.values()]
    )
    tokenizer.save(str(folder / "tokenizer.json"))


def _write_tokenizer_config(folder: Path) -> None:
    _write_json(
        folder / "tokenizer_config.json",
        {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "bos_token": "<bos>",
            "eos_token": "<eos>",
            "pad_token": "<pad>",
            "unk_token": "<unk>",
            "model_max_length": 131072,
        },
    )


def _write_json(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
