"""Transformers' DiffusionGemma answering the same reads: the independent reference."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from engine.reads import Read, ReadResult


class Reference:
    """The checkpoint in Transformers, in float32, one read at a time."""

    def __init__(self, checkpoint: Path) -> None:
        import torch

        from engine.vllm_plugin import torchvision_fix

        torchvision_fix.install()
        from transformers import DiffusionGemmaForBlockDiffusion

        self.model: Any = DiffusionGemmaForBlockDiffusion.from_pretrained(
            checkpoint, dtype=torch.float32
        ).eval()

    def logits(self, read: Read, **kwargs: Any) -> Any:
        """Tensor [width, vocabulary]: one denoising step of the read's canvas."""
        import torch

        with torch.no_grad():
            return self.model(
                input_ids=torch.tensor([read.prompt_ids]),
                decoder_input_ids=torch.tensor([read.canvas_ids]),
                **kwargs,
            ).logits[0]

    def logprobs(self, read: Read, **kwargs: Any) -> dict[int, dict[int, float]]:
        """Slot -> label id -> log probability, as a `ReadResult` holds them."""
        import torch

        logits = self.logits(read, **kwargs)[list(read.slots)].float()
        labels = torch.tensor(read.label_ids)
        if read.constrained:
            values = logits[:, labels].log_softmax(-1)
        else:
            values = logits.log_softmax(-1)[:, labels]
        return {
            slot: dict(zip(read.label_ids, row.tolist(), strict=True))
            for slot, row in zip(read.slots, values, strict=True)
        }


def largest_difference(result: ReadResult, expected: dict[int, dict[int, float]]) -> float:
    """Largest absolute difference of a log probability; every slot and label must be there."""
    assert result.error is None, result.error
    assert result.logprobs.keys() == expected.keys()
    return max(
        abs(result.logprobs[slot][label] - value)
        for slot, by_label in expected.items()
        for label, value in by_label.items()
    )
