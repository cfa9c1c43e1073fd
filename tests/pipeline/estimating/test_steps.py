"""The schedule by hand: serial and concurrent, fused and not, cut and cached."""

from __future__ import annotations

import pytest

from engine.builds import Build
from pipeline.estimating.steps import ReadShape, count_steps, shapes


def build(**changes: object) -> Build:
    return Build.model_validate({"name": "b", "single_pass_reads": True, **changes})


def reads(number: int, prompt: int = 100, shared: int = 0, width: int = 32) -> list[ReadShape]:
    return [ReadShape(prompt, shared, width)] * number


@pytest.mark.parametrize(("flag", "steps"), [(False, 462), (True, 231)])
def test_serial_reads_take_two_steps_or_one(flag: bool, steps: int) -> None:
    """The post's count: 231 items, one at a time."""
    serial = build(single_pass_reads=flag, max_num_seqs=1)
    assert count_steps(reads(231), serial).steps == steps


def test_four_at_a_time_the_flag_saves_half_when_all_start_together() -> None:
    four = {"max_num_seqs": 4, "max_num_batched_tokens": 8192}
    assert count_steps(reads(8), build(**four)).steps == 2
    assert count_steps(reads(8), build(single_pass_reads=False, **four)).steps == 4


def test_a_canvas_that_does_not_fit_the_step_takes_its_own() -> None:
    count = count_steps(reads(1, prompt=100), build(max_num_batched_tokens=120))
    assert (count.steps, count.single_pass) == (2, 0)
    assert count.two_step == {"token_budget": 1}


def test_a_prompt_that_fills_the_model_takes_two_steps() -> None:
    count = count_steps(reads(1, prompt=240), build(max_model_len=256))
    assert (count.steps, dict(count.two_step)) == (2, {"model_length": 1})


def test_long_prompts_are_cut_into_chunks() -> None:
    count = count_steps(reads(1, prompt=250), build(max_num_batched_tokens=100))
    assert (count.steps, count.single_pass, count.computed_tokens) == (3, 1, 250)


def test_reads_that_start_alike_compute_the_rest_only() -> None:
    first, second = ReadShape(100, 0, 32), ReadShape(120, 90, 32)
    count = count_steps([first, second], build(block_size=32))
    assert count.computed_tokens == 100 + (120 - 64)
    assert count.cached_tokens == 64
    without = count_steps([first, second], build(enable_prefix_caching=False))
    assert without.cached_tokens == 0


def test_the_same_prompt_again_computes_at_least_its_last_token() -> None:
    count = count_steps([ReadShape(64, 0, 16), ReadShape(64, 64, 16)], build(block_size=32))
    assert count.computed_tokens == 64 + 32


def test_every_read_is_counted_once() -> None:
    many = [ReadShape(10 + 7 * place % 300, 0, 16 * (1 + place % 4)) for place in range(200)]
    count = count_steps(many, build(max_num_batched_tokens=256, max_model_len=300))
    assert count.reads == 200 == count.single_pass + sum(count.two_step.values())
    assert count.canvas_tokens == sum(read.width for read in many)
    assert count.prompt_tokens == count.computed_tokens == sum(read.prompt_tokens for read in many)


def test_sums() -> None:
    total = count_steps(reads(3), build(max_num_seqs=1))
    total += count_steps(reads(2), build(single_pass_reads=False, max_num_seqs=1))
    assert (total.steps, total.reads, total.single_pass) == (7, 5, 3)
    assert total.two_step == {"flag_off": 2}


def test_shapes_share_with_the_read_before() -> None:
    found = shapes([((1, 2, 3), 16), ((1, 2, 3, 4), 16), ((9,), 16)])
    assert [shape.shared_tokens for shape in found] == [0, 3, 0]
    again = shapes([((1, 2, 3), 16), ((1, 2, 3, 4), 16)], [(1, 2, 9), (8,)])
    assert [shape.shared_tokens for shape in again] == [2, 3]


@pytest.mark.parametrize("same", [0, 1, 7, 8, 100])
def test_common_beginnings_of_every_length(same: int) -> None:
    first, second = [*range(same), -1, 5], [*range(same), -2]
    assert shapes([(first, 16), (second, 16)])[1].shared_tokens == same
    assert shapes([(first, 16), (first[:same], 16)])[1].shared_tokens == same
