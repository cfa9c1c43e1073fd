"""The last layer finishes canvas positions only; the answers are those of the whole layer."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tests.engine.vllm_plugin.engines import TOKEN_BUDGET, Engine, largest_difference, make_read

pytestmark = pytest.mark.engine


def tokens_in_mlp(engine: Engine, layer: int, prompts: list[int]) -> tuple[list[int], list[Any]]:
    """Tokens the layer's MLP saw in each step of reads of 16 that arrive together."""
    seen: list[int] = []
    mlp = engine.model.model.layers[layer].mlp
    handle = mlp.register_forward_pre_hook(lambda module, inputs: seen.append(len(inputs[0])))
    rng = random.Random(1)
    engine.forget()
    try:
        answers = engine.ask([make_read(rng, prompt, 16) for prompt in prompts])
    finally:
        handle.remove()
    return seen, answers


@pytest.mark.parametrize(
    ("prompts", "last_layer", "other_layers"),
    [
        ([40], [16], [56]),
        ([40, 30, 20], [48], [138]),
        # A step inside a long prompt has no canvas: one position stands in for it.
        ([TOKEN_BUDGET + 40], [1, 16], [TOKEN_BUDGET, 56]),
        # The canvas alone, in a step of its own.
        ([TOKEN_BUDGET - 8], [1, 16], [TOKEN_BUDGET - 8, 16]),
    ],
)
def test_canvas_positions_only(
    off: Engine,
    on: Engine,
    prompts: list[int],
    last_layer: list[int],
    other_layers: list[int],
) -> None:
    found, answers = tokens_in_mlp(on, -1, prompts)
    assert found == last_layer
    assert tokens_in_mlp(on, -2, prompts)[0] == other_layers
    whole, expected = tokens_in_mlp(off, -1, prompts)
    assert sum(whole) == sum(other_layers)
    assert largest_difference(expected, answers) < 1e-5
