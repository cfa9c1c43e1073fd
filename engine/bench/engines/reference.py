"""Transformers' implementation of the model: one read at a time, no cache, no scheduler."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from engine.builds import Build
from engine.checkpoints import resolve
from engine.environment import prepare, settle_threads, threads_of
from engine.reads import EngineCounters, Read, ReadResult


class ReferenceEngine:
    """`DiffusionGemmaForBlockDiffusion` in the build's dtype and threads."""

    def __init__(self, build: Build) -> None:
        checkpoint = resolve(build.model)
        prepare(build)
        import torch
        from transformers import DiffusionGemmaForBlockDiffusion

        settle_threads(threads_of(build))
        self._model = DiffusionGemmaForBlockDiffusion.from_pretrained(
            str(checkpoint.path), dtype=getattr(torch, build.dtype)
        ).eval()
        self._configuration = {
            "model": build.model,
            "dtype": build.dtype,
            "threads": threads_of(build),
            "attention": self._model.config._attn_implementation,
            "batch": 1,
        }

    def read(self, reads: Sequence[Read]) -> list[ReadResult]:
        return [self._read(read) for read in reads]

    def _read(self, read: Read) -> ReadResult:
        import torch

        with torch.inference_mode():
            logits = self._model(
                input_ids=torch.tensor([read.prompt_ids]),
                decoder_input_ids=torch.tensor([read.canvas_ids]),
            ).logits[0]
            rows = logits[list(read.slots)].float()
            if read.constrained:
                rows = rows[:, list(read.label_ids)]
            found = torch.log_softmax(rows, dim=-1)
            if not read.constrained:
                found = found[:, list(read.label_ids)]
        return ReadResult(
            read.read_id,
            {
                slot: dict(zip(read.label_ids, row, strict=True))
                for slot, row in zip(read.slots, found.tolist(), strict=True)
            },
        )

    def counters(self) -> EngineCounters:
        return EngineCounters()

    def forget(self) -> None:
        """It keeps nothing from one read to the next."""

    def configuration(self) -> dict[str, Any]:
        return self._configuration

    def fingerprint(self) -> dict[str, Any]:
        return {}
