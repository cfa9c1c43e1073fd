"""Orthogonalised momentum: singular values near one, whatever the matrix's shape."""

import pytest
import torch

from engine.tiny.optimizer import orthogonalised


@pytest.mark.parametrize("shape", [(16, 16), (32, 8), (8, 32), (3, 24, 12)])
def test_singular_values_come_near_one(shape: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    values = torch.linalg.svdvals(orthogonalised(torch.randn(shape)))
    assert values.min() > 0.5
    assert values.max() < 1.4


def test_directions_are_kept() -> None:
    torch.manual_seed(0)
    matrix = torch.randn(12, 20)
    left, _, right = torch.linalg.svd(matrix, full_matrices=False)
    assert torch.dist(orthogonalised(matrix), left @ right) / (left @ right).norm() < 0.3
