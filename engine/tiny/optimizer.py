"""Orthogonalised momentum for matrices, Adam for everything else.

Each matrix moves by its momentum with all singular values brought near one, which in so short a
training needs little more than half of Adam's steps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch
    from torch import nn

MATRIX_LEARNING_RATE = 0.04
LEARNING_RATE = 5e-3
_MOMENTUM = 0.95
_MATRIX_DECAY = 0.1  # of the learning rate, each step
_NEWTON_SCHULZ_STEPS = 5
# An odd quintic whose iteration takes every singular value in (0, 1] to about one.
_QUINTIC = (3.4445, -4.7750, 2.0315)


class MatrixOptimizer:
    """Optimises a model and a head trained with it; matrices may be stacked, as experts are."""

    def __init__(self, model: nn.Module, head: nn.Module) -> None:
        import torch

        trained = {n: p for n, p in model.named_parameters() if "vision" not in n}
        # Embeddings and routers pick rows; their singular values have no common scale.
        self._matrices = [
            p
            for n, p in trained.items()
            if p.dim() >= 2 and "embed_tokens" not in n and "router" not in n
        ]
        ours = {id(p) for p in self._matrices}
        others = [p for p in (*trained.values(), *head.parameters()) if id(p) not in ours]
        self._momenta = [torch.zeros_like(p) for p in self._matrices]
        self._adam = torch.optim.AdamW(others, betas=(0.9, 0.98), weight_decay=0.0)

    def step(self, share: float) -> None:
        """One step at this share of the full learning rates; gradients are dropped afterwards."""
        import torch

        for group in self._adam.param_groups:
            group["lr"] = LEARNING_RATE * share
        self._adam.step()
        self._adam.zero_grad()
        rate = MATRIX_LEARNING_RATE * share
        with torch.no_grad():
            for matrix, momentum in zip(self._matrices, self._momenta, strict=True):
                if matrix.grad is None:
                    continue
                momentum.lerp_(matrix.grad, 1 - _MOMENTUM)
                update = orthogonalised(matrix.grad.lerp(momentum, _MOMENTUM))
                rows, columns = matrix.shape[-2:]
                matrix.mul_(1 - rate * _MATRIX_DECAY)
                matrix.sub_(update, alpha=rate * max(1.0, rows / columns) ** 0.5)
                matrix.grad = None


def orthogonalised(matrices: torch.Tensor) -> torch.Tensor:
    """The matrices [..., rows, columns] with singular values near one (0.7 to 1.2)."""
    tall = matrices.shape[-2] > matrices.shape[-1]
    wide: torch.Tensor = matrices.mT if tall else matrices
    wide = wide / (wide.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    first, third, fifth = _QUINTIC
    for _ in range(_NEWTON_SCHULZ_STEPS):
        gram = wide @ wide.mT
        wide = first * wide + (third * gram + fifth * gram @ gram) @ wide
    return wide.mT if tall else wide
