"""Trains the embedded model on examples given as token ids."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from engine.tiny.architecture import new_model
from engine.tiny.examples import Batch
from engine.tiny.reading import slot_logits

if TYPE_CHECKING:
    import torch
    from transformers import DiffusionGemmaForBlockDiffusion

WARMUP_STEPS = 30
BALANCE_WEIGHT = 0.02


@dataclass(frozen=True, slots=True)
class Progress:
    """One line of the training log. `loss` is nats per slot, averaged since the last line."""

    step: int
    loss: float
    seconds: float


def train(
    batch_of: Callable[[int], Batch],
    *,
    steps: int,
    seed: int,
    threads: int = 2,
    learning_rate: float = 3e-3,
    evidence: Sequence[Sequence[float]] | None = None,
    report: Callable[[Progress], None] = lambda progress: None,
) -> DiffusionGemmaForBlockDiffusion:
    """A model trained on `batch_of(0) ... batch_of(steps - 1)`, with bfloat16-rounded weights.

    The loss is the cross entropy of each open slot over the whole vocabulary, so that the labels
    also win against every other token, plus a term that keeps the experts evenly used.
    """
    import torch

    torch.set_num_threads(threads)
    model = new_model(seed, evidence)
    model.train()
    usage = _watch_routers(model)
    optimizer = _optimizer(model, learning_rate)
    started, losses = time.perf_counter(), []
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate * _schedule(step, steps)
        usage.clear()
        batch = batch_of(step)
        loss = _cross_entropy(slot_logits(model, batch), batch)
        balance = torch.stack(usage).mean()
        (loss + BALANCE_WEIGHT * balance).backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
        if (step + 1) % 50 == 0 or step + 1 == steps:
            report(Progress(step + 1, sum(losses) / len(losses), time.perf_counter() - started))
            losses = []
    return _rounded(model)


def _cross_entropy(logits: torch.Tensor, batch: Batch) -> torch.Tensor:
    import torch

    log_probabilities = torch.log_softmax(logits, -1)
    targets = [target for example in batch.examples for target in example.targets]
    rows = [i for i, target in enumerate(targets) for _ in target.probabilities]
    columns = [label for target in targets for label in target.probabilities]
    weights = torch.tensor([p for target in targets for p in target.probabilities.values()])
    return -(weights * log_probabilities[rows, columns]).sum() / len(targets)


def _watch_routers(model: DiffusionGemmaForBlockDiffusion) -> list[torch.Tensor]:
    """A list that every router appends its imbalance to: 1 when all experts are used alike."""
    import torch

    seen: list[torch.Tensor] = []

    def note(module: Any, inputs: Any, outputs: tuple[torch.Tensor, ...]) -> None:
        probabilities, _, chosen = outputs
        experts = probabilities.shape[-1]
        share = torch.bincount(chosen.flatten(), minlength=experts) / chosen.numel()
        seen.append(experts * (share * probabilities.mean(0)).sum())

    for name, module in model.named_modules():
        if name.endswith(".router"):
            module.register_forward_hook(note)
    return seen


def _optimizer(model: DiffusionGemmaForBlockDiffusion, learning_rate: float) -> Any:
    import torch

    trained = {n: p for n, p in model.named_parameters() if "vision" not in n}
    matrices = [p for n, p in trained.items() if p.dim() >= 2 and "embed_tokens" not in n]
    others = [p for n, p in trained.items() if p.dim() < 2 or "embed_tokens" in n]
    return torch.optim.AdamW(
        [{"params": matrices, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}],
        lr=learning_rate,
        betas=(0.9, 0.98),
    )


def _schedule(step: int, steps: int) -> float:
    if step < WARMUP_STEPS:
        return (step + 1) / WARMUP_STEPS
    return 0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * step / steps))


def _rounded(model: DiffusionGemmaForBlockDiffusion) -> DiffusionGemmaForBlockDiffusion:
    """The model with the weights it will have on disk, in evaluation mode."""
    import torch

    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(parameter.bfloat16())
    return model.eval()
