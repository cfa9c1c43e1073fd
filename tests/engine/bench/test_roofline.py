"""Shapes to parameters, bytes and operations: against the released model's known counts."""

from __future__ import annotations

import json

import pytest

from engine.bench.random_checkpoint import build_random_checkpoint
from engine.bench.roofline import BYTES, Rates, ReadShape, Shape

RELEASED = Shape(
    hidden=2816,
    layers=("sliding_attention",) * 5 * 5 + ("full_attention",) * 5,
    heads=16,
    kv_heads=8,
    global_kv_heads=2,
    head_dim=256,
    global_head_dim=512,
    dense=2112,
    expert=704,
    experts=128,
    experts_per_token=8,
    window=1024,
)


def test_parameters_of_the_released_model() -> None:
    assert RELEASED.attention_weights("sliding_attention") / 1e6 == pytest.approx(34.6, abs=0.05)
    assert RELEASED.attention_weights("full_attention") / 1e6 == pytest.approx(49.0, abs=0.05)
    experts = 30 * RELEASED.experts * RELEASED.expert_weights
    assert experts / 1e9 == pytest.approx(22.84, abs=0.01)
    assert RELEASED.active_weights / 1e9 == pytest.approx(3.08, abs=0.01)


@pytest.mark.parametrize(("tokens", "share"), [(16, 0.64), (32, 0.87), (64, 0.98), (256, 1.0)])
def test_expected_share_of_experts(tokens: int, share: float) -> None:
    assert RELEASED.experts_touched(tokens) / 128 == pytest.approx(share, abs=0.005)


def test_one_pass_reads_the_weights_once_and_two_passes_twice() -> None:
    memory_bound = Rates(bytes_per_second=300e9, flops_per_second=1e18)
    read = ReadShape(prompt=188, canvas=32, labels=5)
    one = RELEASED.read_floor(read, memory_bound, "bfloat16")
    two = RELEASED.read_floor(read, memory_bound, "bfloat16", single_pass=False)
    assert 1.8 < two / one < 2
    # What the seed's machine saved per read, 0.12 to 0.17 s, at the bandwidth it implies.
    assert 0.12 < two - one < 0.17


def test_arithmetic_grows_with_the_prompt_and_bounds_long_reads() -> None:
    slow_arithmetic = Rates(bytes_per_second=1e18, flops_per_second=30e12)
    short = RELEASED.read_floor(ReadShape(188, 32, 5), slow_arithmetic, "bfloat16")
    long = RELEASED.read_floor(ReadShape(1250, 32, 5), slow_arithmetic, "bfloat16")
    assert long / short == pytest.approx((1250 + 32) / (188 + 32), rel=0.05)


def test_attention_pairs_are_causal_for_the_prompt_and_full_for_the_canvas() -> None:
    assert ReadShape(prompt=3, canvas=2, labels=1).pairs(None) == 1 + 2 + 3 + 5 + 5
    assert ReadShape(prompt=0, canvas=2, labels=1, cached=3).pairs(None) == 5 + 5


def test_a_batch_reads_the_weights_once() -> None:
    read = ReadShape(prompt=400, canvas=32, labels=5)
    alone = RELEASED.step([read], BYTES["bfloat16"])
    full = RELEASED.step([read] * 16, BYTES["bfloat16"])
    assert full.bytes < 1.2 * alone.bytes
    assert full.flops == pytest.approx(16 * alone.flops)


def test_the_shape_of_a_checkpoint_is_found_in_its_config(tmp_path_factory) -> None:
    folder = build_random_checkpoint(tmp_path_factory.mktemp("model"))
    shape = Shape.of_config(json.loads((folder / "config.json").read_text(encoding="utf-8")))
    assert (shape.hidden, len(shape.layers), shape.experts) == (64, 6, 8)
    assert (shape.head_dim, shape.global_head_dim) == (32, 64)
    assert shape.layers[-1] == "full_attention"
