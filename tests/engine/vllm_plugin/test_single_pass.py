"""On against off: the same answers to rounding, in half the steps, whatever the batch."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest

from engine.reads import Read
from tests.engine.vllm_plugin.engines import (
    BLOCK,
    LABELS,
    MAX_MODEL_LEN,
    TOKEN_BUDGET,
    Engine,
    largest_difference,
    make_read,
)

pytestmark = pytest.mark.engine
Pair = tuple[Engine, Engine]
EQUAL = 1e-4  # largest difference of a log probability, FP32


def test_off_is_vllm_bit_for_bit(stock: Engine, off: Engine) -> None:
    rng = random.Random(1)
    reads = [make_read(rng, rng.choice([20, 90, 300]), 16, rng.choice(LABELS)) for _ in range(12)]
    stock.forget()
    off.forget()
    for ask in (Engine.ask, Engine.ask_each):
        assert largest_difference(ask(stock, reads), ask(off, reads)) == 0.0
    assert type(stock.core.scheduler).__module__ == "vllm.v1.core.sched.diffusion_scheduler"


def test_serial_reads_take_one_step_instead_of_two(fresh: Pair) -> None:
    off, on = fresh
    rng = random.Random(2)
    reads = [make_read(rng, rng.choice([3, 40, 150]), rng.choice([1, 16, 64])) for _ in range(10)]
    before = off.steps, on.steps
    slow, fast = off.ask_each(reads), on.ask_each(reads)
    assert (off.steps - before[0], on.steps - before[1]) == (20, 10)
    assert largest_difference(slow, fast) < EQUAL
    assert all(one.note["single_pass"] for one in fast)
    assert {one.note["two_step_reason"] for one in slow} == {"flag_off"}


def test_prompt_longer_than_the_token_budget(fresh: Pair) -> None:
    off, on = fresh
    rng = random.Random(3)
    for prompt in (TOKEN_BUDGET + 1, 2 * TOKEN_BUDGET - 30, 2 * TOKEN_BUDGET):
        read = make_read(rng, prompt, 32)
        before = off.steps, on.steps
        assert largest_difference(off.ask([read]), on.ask([read])) < EQUAL
        steps = off.steps - before[0], on.steps - before[1]
        fits = (prompt - 1) % TOKEN_BUDGET + 1 + 32 <= TOKEN_BUDGET
        assert steps == (3, 2 if fits else 3)


@pytest.mark.parametrize("extra", [0, 1, BLOCK - 1, 5 * BLOCK])
def test_prefix_cache_hits_part_or_all_of_the_prompt(fresh: Pair, extra: int) -> None:
    rng = random.Random(4)
    prefix = make_read(rng, 6 * BLOCK, 1).prompt_ids
    first, second = (make_read(rng, extra, 16, prefix=prefix) for _ in range(2))
    answers = []
    for engine in fresh:
        engine.ask([first])
        answers.append(engine.ask([second]))
        answers.append(engine.ask([second]))  # all of it, but for the last block
    cached = [answer[0].outputs.num_cached_tokens for answer in answers]
    assert min(cached) >= 4 * BLOCK
    assert cached[:2] == cached[2:]
    for a, b in zip(answers[:2], answers[2:], strict=True):
        assert largest_difference(a, b) < EQUAL
    # A cached prompt is as good as a computed one.
    fresh[1].forget()
    assert largest_difference(fresh[1].ask([second]), answers[2]) < EQUAL


def test_mixed_widths_in_one_step(fresh: Pair) -> None:
    off, on = fresh
    rng = random.Random(5)
    reads = [make_read(rng, 12, width) for width in (1, 2, 16, 33, 48, 64)]
    before = on.steps
    together = on.ask(reads)
    assert on.steps - before == 1
    assert largest_difference(off.ask(reads), together) < EQUAL


def test_eligible_and_not_eligible_mixed(fresh: Pair) -> None:
    """A request that commits its canvas keeps vLLM's path next to reads that do not."""
    rng = random.Random(6)
    reads = [make_read(rng, 25, 16) for _ in range(6)]
    committing = {i: {"extra_args": {"diffusion_read_only": False}} for i in (1, 4)}
    slow, fast = (engine.ask(reads, committing) for engine in fresh)
    assert largest_difference(slow, fast) < EQUAL
    assert [one.note["two_step_reason"] for one in fast] == [
        "not_eligible" if i in committing else None for i in range(6)
    ]


def test_multi_step_reads_beside_single_pass_ones(fresh: Pair) -> None:
    """Their own answers depend on unseeded noise; those of their neighbours must not."""
    rng = random.Random(7)
    reads = [make_read(rng, 25, 16) for _ in range(4)]
    four_steps = {i: {"extra_args": {"diffusion_max_steps": 4}} for i in (0, 2)}
    slow, fast = (engine.ask(reads, four_steps) for engine in fresh)
    assert largest_difference(slow[1::2], fast[1::2]) < EQUAL
    assert [one.note["single_pass"] for one in fast] == [False, True, False, True]


def test_constrained_and_not_in_one_step(fresh: Pair) -> None:
    off, on = fresh
    rng = random.Random(8)
    reads = [make_read(rng, 20, 16, LABELS[i % 3], constrained=i % 2 == 0) for i in range(6)]
    together = on.ask(reads)
    assert largest_difference(off.ask(reads), together) < EQUAL
    for read, asked in zip(reads, together, strict=True):
        total = np.exp(asked.logprobs).sum(axis=1)
        assert np.allclose(total, 1, atol=1e-5) == read.constrained


def test_top_k_logprobs(fresh: Pair) -> None:
    rng = random.Random(9)
    read = make_read(rng, 30, 16, constrained=False)
    found = []
    for engine in fresh:
        request_id = engine.add(read, logprobs=5, logprob_token_ids=None)
        flat = engine.finish()[request_id].outputs[0].logprobs
        found.append(flat)
    assert found[0].token_ids == found[1].token_ids
    assert len(found[0].token_ids) == 16 * 6
    assert np.abs(np.array(found[0].logprobs) - np.array(found[1].logprobs)).max() < EQUAL


def test_aborts_midway(fresh: Pair) -> None:
    rng = random.Random(10)
    reads = [make_read(rng, prompt, 16) for prompt in (500, 40, 300, 60, 420, 80)]
    survivors = [i for i in range(6) if i not in (0, 3)]
    for engine in fresh:
        ids = [engine.add(read) for read in reads]
        outputs = {o.request_id: o for o in engine.engine.step() if o.finished}
        engine.engine.abort_request([ids[0], ids[3]])
        outputs |= engine.finish()
        assert not engine.core.scheduler.requests
        assert set(outputs) >= {ids[i] for i in survivors}
    alone = fresh[0].ask_each([reads[i] for i in survivors])
    after_aborts = fresh[1].ask([reads[i] for i in survivors])
    assert largest_difference(alone, after_aborts) < EQUAL


def test_sixteen_at_once(fresh: Pair) -> None:
    off, on = fresh
    rng = random.Random(11)
    reads = [make_read(rng, rng.choice([5, 60, 200]), 16, LABELS[i % 3]) for i in range(16)]
    slow, fast = off.ask(reads), on.ask(reads)
    assert largest_difference(slow, fast) < EQUAL
    assert fast[-1].note["totals"]["canvas_tokens"] > 0


@pytest.mark.parametrize("over", [-1, 0, 1])
def test_prompt_and_width_at_max_model_len(fresh: Pair, over: int) -> None:
    off, on = fresh
    read = make_read(random.Random(12), MAX_MODEL_LEN - 16 + over, 16)
    before = off.steps, on.steps
    slow, fast = off.ask([read]), on.ask([read])
    assert largest_difference(slow, fast) < EQUAL
    expected = "model_length" if over > 0 else None
    assert fast[0].note["two_step_reason"] == expected
    assert off.steps - before[0] == 4
    assert on.steps - before[1] == (4 if over > 0 else 3)


@pytest.mark.parametrize("over", [-1, 0, 1])
def test_chunk_and_width_at_the_token_budget(fresh: Pair, over: int) -> None:
    off, on = fresh
    read = make_read(random.Random(13), TOKEN_BUDGET - 32 + over, 32)
    before = on.steps
    slow, fast = off.ask([read]), on.ask([read])
    assert largest_difference(slow, fast) < EQUAL
    assert fast[0].note["two_step_reason"] == ("token_budget" if over > 0 else None)
    assert on.steps - before == (2 if over > 0 else 1)


@pytest.mark.parametrize("over", [-1, 0, 1])
def test_second_read_at_what_the_step_has_left(fresh: Pair, over: int) -> None:
    off, on = fresh
    rng = random.Random(14)
    reads = [make_read(rng, 100, 16), make_read(rng, TOKEN_BUDGET - 116 - 16 + over, 16)]
    slow, fast = off.ask(reads), on.ask(reads)
    assert largest_difference(slow, fast) < EQUAL
    assert [one.note["single_pass"] for one in fast] == [True, over <= 0]


def test_canvases_are_never_cut_by_the_token_budget(fresh: Pair) -> None:
    """vLLM denoises the part of a canvas that fits a step as if it were whole; here it waits."""
    _, on = fresh
    rng = random.Random(15)
    reads = [make_read(rng, TOKEN_BUDGET - 10, 60) for _ in range(8)]
    together = on.ask(reads)
    on.forget()
    assert largest_difference(on.ask_each(reads), together) < EQUAL
    assert {one.note["two_step_reason"] for one in together} >= {"token_budget"}


def test_batch_mates_do_not_move_probabilities(fresh: Pair) -> None:
    _, on = fresh
    rng = random.Random(16)
    reads = [make_read(rng, rng.choice([9, 77]), 16, rng.choice(LABELS)) for _ in range(8)]
    alone = on.ask_each(reads)
    on.forget()
    assert largest_difference(alone, on.ask(reads)) < 1e-5
    on.forget()
    shuffled = on.ask(reads[::-1])[::-1]
    assert largest_difference(alone, shuffled) < 1e-5


Spoil = Callable[[np.ndarray, np.ndarray], None]


def canvas_causal(causal: np.ndarray, is_canvas: np.ndarray) -> None:
    causal[is_canvas] = 1


def prompt_bidirectional(causal: np.ndarray, is_canvas: np.ndarray) -> None:
    causal[~is_canvas] = 0


@pytest.mark.parametrize("spoil", [canvas_causal, prompt_bidirectional])
def test_wrong_masks_are_noticed(
    fresh: Pair, monkeypatch: pytest.MonkeyPatch, spoil: Spoil
) -> None:
    """Negative control: were a row's mask wrong, the comparisons above would fail by far."""
    from engine.vllm_plugin import model_state

    off, on = fresh
    read: Read = make_read(random.Random(17), 60, 32)
    right = model_state.split_rows

    def wrong(*args: np.ndarray) -> object:
        rows = right(*args)
        spoil(rows.causal, rows.causal == 0)
        return rows

    monkeypatch.setattr(model_state, "split_rows", wrong)
    slow, fast = off.ask([read])[0], on.ask([read])[0]
    assert np.abs(slow.logprobs - fast.logprobs).max() > 100 * EQUAL
