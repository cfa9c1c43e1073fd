"""Trains the embedded model on examples given as token ids."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from engine.tiny.architecture import new_model
from engine.tiny.examples import Batch
from engine.tiny.optimizer import MatrixOptimizer
from engine.tiny.reading import Reading, read
from engine.tiny.team import Team, team_of

if TYPE_CHECKING:
    import torch
    from transformers import DiffusionGemmaForBlockDiffusion

WARMUP_STEPS = 10
BALANCE_WEIGHT = 0.02
MASS_WEIGHT = 0.3
FACTS_WEIGHT = 2.0


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
    processes: int = 2,
    evidence: Sequence[Sequence[float]] | None = None,
    report: Callable[[Progress], None] = lambda progress: None,
) -> DiffusionGemmaForBlockDiffusion:
    """A model trained on `batch_of(0) ... batch_of(steps - 1)`, with bfloat16-rounded weights.

    Each batch is spread over `processes` of one thread, which `batch_of` has to be picklable for.

    The loss is the cross entropy of each open slot, within its labels and of the labels among the
    whole vocabulary. Two more terms help: one keeps the experts evenly used, and a head that is
    thrown away afterwards has to tell the facts from every position of the conversation.
    """
    model = new_model(seed, evidence)
    head = _facts_head(model, batch_of)
    elements = 1 + sum(p.numel() for part in (model, head) for p in part.parameters())
    arguments = (batch_of, steps, seed, evidence)
    with team_of(processes, elements, _help, arguments) as team:
        _train(model, head, team, batch_of, steps, report)
    return _rounded(model)


def _help(
    team: Team,
    batch_of: Callable[[int], Batch],
    steps: int,
    seed: int,
    evidence: Sequence[Sequence[float]] | None,
) -> None:
    """What the other processes do: the same, from the same start."""
    model = new_model(seed, evidence)
    _train(model, _facts_head(model, batch_of), team, batch_of, steps, lambda progress: None)


def _facts_head(
    model: DiffusionGemmaForBlockDiffusion, batch_of: Callable[[int], Batch]
) -> torch.nn.Linear:
    import torch

    hidden = model.config.text_config.hidden_size
    return torch.nn.Linear(hidden, len(batch_of(0).examples[0].facts))


def _train(
    model: DiffusionGemmaForBlockDiffusion,
    facts_head: torch.nn.Linear,
    team: Team,
    batch_of: Callable[[int], Batch],
    steps: int,
    report: Callable[[Progress], None],
) -> None:
    import torch

    torch.set_num_threads(1)
    model.train()
    usage = _watch_routers(model)
    optimizer = MatrixOptimizer(model, facts_head)
    started, losses = time.perf_counter(), []
    for step in range(steps):
        usage.clear()
        whole = batch_of(step)
        batch = Batch(whole.prefix_ids, tuple(team.part(whole.examples)))
        reading = read(model, batch)
        loss = _cross_entropy(reading.slot_logits, batch)
        balance = torch.stack(usage).mean()
        facts = _facts_loss(facts_head, reading, batch)
        total = loss + BALANCE_WEIGHT * balance + FACTS_WEIGHT * facts
        share = len(batch.examples) / len(whole.examples)
        (share * total).backward()  # type: ignore[no-untyped-call]
        mean_loss = share * loss.detach()
        parameters = [*model.parameters(), *facts_head.parameters()]
        team.add_up([mean_loss, *(p.grad for p in parameters if p.grad is not None)])
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step(_schedule(step, steps))
        losses.append(mean_loss.item())
        if (step + 1) % 50 == 0 or step + 1 == steps:
            report(Progress(step + 1, sum(losses) / len(losses), time.perf_counter() - started))
            losses = []


def _cross_entropy(logits: torch.Tensor, batch: Batch) -> torch.Tensor:
    """Nats per slot: of the answer among its labels, plus a share of that of the labels' mass.

    Their plain sum is the cross entropy over the vocabulary. At first nearly all of that is about
    which tokens are labels at all, and would drown what there is to learn about conversations.
    """
    import torch

    targets = [target for example in batch.examples for target in example.targets]
    most = max(len(target.probabilities) for target in targets)
    columns = torch.zeros(len(targets), most, dtype=torch.long)
    weights = torch.zeros(len(targets), most)
    absent = torch.ones(len(targets), most, dtype=torch.bool)
    for row, target in enumerate(targets):
        count = len(target.probabilities)
        columns[row, :count] = torch.tensor(list(target.probabilities))
        weights[row, :count] = torch.tensor(list(target.probabilities.values()))
        absent[row, :count] = False
    labels = logits.gather(1, columns).masked_fill(absent, -torch.inf)
    mass = torch.logsumexp(labels, -1)
    within = -(weights * (labels.masked_fill(absent, 0.0) - mass[:, None])).sum(-1)
    among_all = torch.logsumexp(logits, -1) - mass
    return (within + MASS_WEIGHT * among_all).mean()


def _facts_loss(head: torch.nn.Module, reading: Reading, batch: Batch) -> torch.Tensor:
    """Nats per fact, over all positions of the conversations; 0 where there are no facts."""
    import torch

    facts = torch.tensor([example.facts for example in batch.examples], dtype=torch.float32)
    if not facts.numel():
        return facts.sum()
    guesses = head(reading.prompt_states[reading.is_prompt])
    right = facts[:, None].expand(-1, reading.is_prompt.shape[1], -1)[reading.is_prompt]
    return torch.nn.functional.binary_cross_entropy_with_logits(guesses, right)


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
