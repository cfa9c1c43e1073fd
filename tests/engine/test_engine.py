"""The real engine on a small random float32 checkpoint."""

from __future__ import annotations

from dataclasses import replace

import pytest

from engine.engine import DecisionEngine
from engine.reads import Read
from tests.engine.conftest import VOCAB_SIZE
from tests.engine.contract import EngineContract, assert_same, make_read
from tests.engine.reference import Reference, largest_difference

pytestmark = pytest.mark.engine

TOLERANCE = 1e-3
"""Of a log probability, which moves at most as much as twice the logits do."""


@pytest.fixture(scope="module")
def vocab_size() -> int:
    return VOCAB_SIZE


class TestTwoSteps(EngineContract):
    @pytest.fixture
    def engine(self, in_process: DecisionEngine) -> DecisionEngine:
        return in_process


class TestSinglePass(EngineContract):
    @pytest.fixture
    def engine(self, single_pass: DecisionEngine) -> DecisionEngine:
        return single_pass


def _reads() -> list[Read]:
    return [
        make_read(
            f"reference-{prompt_tokens}-{width}-{constrained}",
            VOCAB_SIZE,
            prompt_tokens=prompt_tokens,
            width=width,
            slots=(0, 3, width - 1),
            constrained=constrained,
        )
        for prompt_tokens in (20, 64, 127, 128, 300, 700)
        for width in (8, 16, 32)
        for constrained in (True, False)
    ]


def test_reads_equal_transformers(
    in_process: DecisionEngine, single_pass: DecisionEngine, reference: Reference
) -> None:
    """Alone and in one batch of mixed lengths, widths and normalisations, in two steps and in one.

    Prompts and canvases lie within the sliding window; `test_sliding_window.py` has the rest.
    """
    reads = _reads()
    expected = [reference.logprobs(read) for read in reads]
    for engine in (in_process, single_pass):
        together = engine.read(reads)
        for read, result, wanted in zip(reads, together, expected, strict=True):
            assert largest_difference(result, wanted) < TOLERANCE, read.read_id
            alone = engine.read([read])[0]
            assert largest_difference(alone, wanted) < TOLERANCE, read.read_id
            assert alone.single_pass == engine.build.single_pass_reads


def test_a_prompt_longer_than_a_step_equals_transformers(
    in_process: DecisionEngine, reference: Reference
) -> None:
    """1,000 tokens computed in chunks of 1,024 less what others take."""
    reads = [
        make_read(f"chunked-{i}", VOCAB_SIZE, prompt_tokens=990 - 7 * i, width=16) for i in range(3)
    ]
    for read, result in zip(reads, in_process.read(reads), strict=True):
        assert largest_difference(result, reference.logprobs(read)) < TOLERANCE


def test_draws_take_their_prompt_from_the_cache(in_process: DecisionEngine) -> None:
    """Handed in together, each but the first finds all whole blocks.

    Of 64 tokens: in this checkpoint some layers keep half as much per token as others, and vLLM
    gives them blocks twice as long.
    """
    base = make_read("draws", VOCAB_SIZE, prompt_tokens=300)
    draws = [
        replace(base, read_id=f"d{i}", canvas_ids=make_read(f"n{i}", VOCAB_SIZE).canvas_ids)
        for i in range(4)
    ]
    before = in_process.counters()
    results = in_process.read(draws)
    counted = in_process.counters() - before
    assert sorted(r.cached_prompt_tokens for r in results) == [0, 256, 256, 256]
    assert counted.prompt_tokens_computed == 300 + 3 * 44
    assert counted.steps == 2


def test_an_emitted_canvas_is_not_mistaken_for_a_prompt(
    in_process: DecisionEngine, reference: Reference
) -> None:
    """A later prompt may continue an earlier one with exactly what its canvas said.

    The canvas's keys and values were computed from noise and in both directions; finding them in
    the prefix cache would be wrong.
    """
    first = replace(
        make_read("emits", VOCAB_SIZE, prompt_tokens=120, width=32), label_ids=(200,), slots=(0,)
    )
    in_process.read([first])
    follow = replace(
        make_read("follows", VOCAB_SIZE), prompt_ids=first.prompt_ids + (200,) * 32 + (7,) * 200
    )
    result = in_process.read([follow])[0]
    assert largest_difference(result, reference.logprobs(follow)) < TOLERANCE


def test_reads_up_to_the_model_length(in_process: DecisionEngine) -> None:
    limit = in_process.build.max_model_len
    for prompt_tokens in (limit - 17, limit - 16, limit - 15):
        read = make_read(f"length-{prompt_tokens}", VOCAB_SIZE, prompt_tokens=prompt_tokens)
        result = in_process.read([read])[0]
        if prompt_tokens + read.width <= limit:
            assert result.error is None
        else:
            assert result.error is not None
            assert result.error.startswith("prompt_too_long: ")


def test_more_reads_than_sequences_in_any_order(in_process: DecisionEngine) -> None:
    reads = [
        make_read(f"many-{i}", VOCAB_SIZE, prompt_tokens=20 + i, labels=2 + i % 3)
        for i in range(40)
    ]
    results = in_process.read(reads)
    backwards = in_process.read(reads[::-1])[::-1]
    assert [r.read_id for r in results] == [r.read_id for r in reads]
    for one, other in zip(results, backwards, strict=True):
        assert_same(one, other)
