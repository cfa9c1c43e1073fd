"""Writes and reads the checkpoint: the files of this folder that Transformers and vLLM load."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from tokenizers import Tokenizer

from engine.tiny.architecture import GENERATION
from engine.tiny.tokenizer import tokenizer_config

if TYPE_CHECKING:
    from transformers import DiffusionGemmaForBlockDiffusion

CHECKPOINT = Path(__file__).parent
"""The checkpoint that ships."""


def save(model: DiffusionGemmaForBlockDiffusion, tokenizer: Tokenizer, folder: Path) -> None:
    """Write configuration, bfloat16 weights and tokenizer; tied weights are written once."""
    import torch

    folder.mkdir(parents=True, exist_ok=True)
    model.to(torch.bfloat16).save_pretrained(folder)
    tokenizer.save(str(folder / "tokenizer.json"))
    for name, content in (
        ("tokenizer_config.json", tokenizer_config()),
        ("generation_config.json", GENERATION),
    ):
        (folder / name).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    model.to(torch.float32)


def load(folder: Path = CHECKPOINT) -> tuple[DiffusionGemmaForBlockDiffusion, Tokenizer]:
    """The model in float32 evaluation mode, and its tokenizer."""
    import torch
    from transformers import DiffusionGemmaForBlockDiffusion

    model = DiffusionGemmaForBlockDiffusion.from_pretrained(folder, dtype=torch.float32)
    return model.eval(), Tokenizer.from_file(str(folder / "tokenizer.json"))
