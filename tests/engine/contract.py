"""The contract of `engine.protocol.Engine`; subclasses give it an engine.

A subclass defines the fixtures `engine` and `vocab_size`; the engine's build must have prefix
caching on, canvas_length >= 32 and max_model_len >= 512.
"""

from __future__ import annotations

import json
import math
import random
import threading
from dataclasses import replace

import pytest

from engine.protocol import Engine
from engine.reads import TWO_STEP_REASONS, EngineCounters, Read, ReadResult
from engine.validation import MAX_LABEL_IDS

FIRST_PLAIN_ID = 110
"""Ids below are control tokens in Gemma-like tokenizers."""


def make_read(
    read_id: str,
    vocab_size: int,
    *,
    prompt_tokens: int = 40,
    width: int = 16,
    slots: tuple[int, ...] = (3, 7),
    labels: int = 4,
    constrained: bool = True,
) -> Read:
    """A random read that depends on `read_id` only."""
    rng = random.Random(f"{read_id} {prompt_tokens} {width}")
    plain = range(FIRST_PLAIN_ID, vocab_size)
    return Read(
        read_id,
        prompt_ids=(2, *rng.choices(plain, k=prompt_tokens - 1)),
        canvas_ids=tuple(rng.choices(plain, k=width)),
        slots=slots,
        label_ids=tuple(sorted(rng.sample(plain, labels))),
        constrained=constrained,
    )


def assert_answers(read: Read, result: ReadResult) -> None:
    """`result` is a whole answer to `read`."""
    assert result.read_id == read.read_id
    assert result.error is None
    assert tuple(result.logprobs) == read.slots
    for by_label in result.logprobs.values():
        assert tuple(by_label) == read.label_ids
        mass = sum(math.exp(v) for v in by_label.values())
        assert mass == pytest.approx(1.0, abs=1e-5) if read.constrained else 0 < mass < 1
    assert result.single_pass == (result.two_step_reason is None)
    assert result.two_step_reason in (None, *TWO_STEP_REASONS)
    assert 0 <= result.cached_prompt_tokens < len(read.prompt_ids)


def assert_same(one: ReadResult, other: ReadResult, tolerance: float = 1e-5) -> None:
    """Both results hold the same probabilities."""
    assert one.logprobs.keys() == other.logprobs.keys()
    for slot, by_label in one.logprobs.items():
        assert by_label.keys() == other.logprobs[slot].keys()
        for label, value in by_label.items():
            assert math.exp(value) == pytest.approx(
                math.exp(other.logprobs[slot][label]), abs=tolerance
            )


class EngineContract:
    """Tests every engine passes."""

    def test_one_result_per_read_in_order(self, engine: Engine, vocab_size: int) -> None:
        reads = [
            make_read(
                f"order-{i}",
                vocab_size,
                prompt_tokens=20 + 13 * (i % 5),
                width=(16, 32)[i % 2],
                constrained=i % 3 != 0,
            )
            for i in range(12)
        ]
        results = engine.read(reads)
        assert len(results) == len(reads)
        for read, result in zip(reads, results, strict=True):
            assert_answers(read, result)
            assert result.batch_reads == len(reads)

    def test_no_reads(self, engine: Engine) -> None:
        assert engine.read([]) == []

    def test_the_answer_does_not_depend_on_the_batch(self, engine: Engine, vocab_size: int) -> None:
        reads = [make_read(f"batch-{i}", vocab_size, labels=2 + i) for i in range(5)]
        together = engine.read(reads)
        for read, result in zip(reads, together, strict=True):
            assert_same(engine.read([read])[0], result)

    def test_repeated_reads_get_the_same_answer(self, engine: Engine, vocab_size: int) -> None:
        read = make_read("repeat", vocab_size)
        first, second = engine.read([read, replace(read, read_id="repeat-2")])
        assert_same(first, second)

    def test_canvas_noise_reaches_the_model(self, engine: Engine, vocab_size: int) -> None:
        read = make_read("noise", vocab_size)
        noisy = list(read.canvas_ids)
        noisy[3] = FIRST_PLAIN_ID if noisy[3] != FIRST_PLAIN_ID else FIRST_PLAIN_ID + 1
        first, second = engine.read([read, replace(read, read_id="n2", canvas_ids=tuple(noisy))])
        assert first.logprobs[3] != second.logprobs[3]

    @pytest.mark.parametrize(
        ("changes", "code"),
        [
            ({"prompt_ids": ()}, "empty_prompt"),
            ({"canvas_ids": ()}, "empty_canvas"),
            ({"canvas_ids": (200,) * 300}, "canvas_too_wide"),
            ({"prompt_ids": (200,) * 200_000}, "prompt_too_long"),
            ({"slots": ()}, "bad_slots"),
            ({"slots": (7, 3)}, "bad_slots"),
            ({"slots": (3, 16)}, "bad_slots"),
            ({"label_ids": ()}, "bad_labels"),
            ({"label_ids": (300, 300)}, "bad_labels"),
            ({"label_ids": tuple(range(200, 201 + MAX_LABEL_IDS))}, "too_many_labels"),
            ({"prompt_ids": (2, 1 << 30)}, "id_out_of_vocabulary"),
            ({"canvas_ids": (-1,) * 16}, "id_out_of_vocabulary"),
            ({"label_ids": (5, 1 << 30)}, "id_out_of_vocabulary"),
        ],
    )
    def test_a_bad_read_costs_only_its_own_result(
        self, engine: Engine, vocab_size: int, changes: dict[str, tuple[int, ...]], code: str
    ) -> None:
        good = [make_read(f"good-{i}", vocab_size) for i in range(2)]
        bad = replace(make_read("bad", vocab_size), **changes)  # type: ignore[arg-type]
        before = engine.counters()
        results = engine.read([good[0], bad, good[1]])
        counted = engine.counters() - before
        assert_answers(good[0], results[0])
        assert_answers(good[1], results[2])
        assert results[1].read_id == "bad"
        assert results[1].logprobs == {}
        assert results[1].error is not None
        assert results[1].error.startswith(f"{code}: ")
        assert (counted.reads, counted.failed_reads) == (3, 1)

    def test_most_labels_that_fit(self, engine: Engine, vocab_size: int) -> None:
        read = make_read("labels", vocab_size, labels=MAX_LABEL_IDS)
        assert_answers(read, engine.read([read])[0])

    def test_counters_add_up(self, engine: Engine, vocab_size: int) -> None:
        reads = [make_read(f"count-{i}", vocab_size) for i in range(6)]
        before = engine.counters()
        results = engine.read(reads)
        counted = engine.counters() - before
        assert counted.reads == 6
        assert counted.failed_reads == 0
        assert counted.single_pass_reads == sum(r.single_pass for r in results)
        assert counted.reads == counted.single_pass_reads + _two_step_reads(counted)
        assert counted.prompt_tokens == sum(len(r.prompt_ids) for r in reads)
        assert counted.prompt_tokens_cached == sum(r.cached_prompt_tokens for r in results)
        assert (
            counted.prompt_tokens == counted.prompt_tokens_computed + counted.prompt_tokens_cached
        )
        assert counted.canvas_tokens == sum(r.width for r in reads)
        assert counted.steps > 0
        assert counted.logits_columns > 0
        assert 0 < counted.engine_seconds <= counted.wall_seconds

    def test_prefixes_are_shared_within_a_group_only(self, engine: Engine, vocab_size: int) -> None:
        read = make_read("grouped", vocab_size, prompt_tokens=400)

        def cached(group: str) -> int:
            (result,) = engine.read([replace(read, cache_group=group)])
            return result.cached_prompt_tokens

        assert cached("one") == 0
        assert cached("one") > 0
        assert cached("two") == 0

    def test_serial_reads_take_one_or_two_steps(self, engine: Engine, vocab_size: int) -> None:
        before = engine.counters()
        results = [engine.read([make_read(f"serial-{i}", vocab_size)])[0] for i in range(4)]
        counted = engine.counters() - before
        assert counted.steps == sum(1 if r.single_pass else 2 for r in results)

    def test_several_threads_at_once(self, engine: Engine, vocab_size: int) -> None:
        reads = [make_read(f"thread-{i}", vocab_size) for i in range(4)]
        alone = [engine.read([read])[0] for read in reads]
        found: dict[int, list[ReadResult]] = {}

        def call(i: int) -> None:
            found[i] = [engine.read([reads[i]])[0] for _ in range(3)]

        threads = [threading.Thread(target=call, args=(i,)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for i, read in enumerate(reads):
            for result in found[i]:
                assert_answers(read, result)
                assert_same(result, alone[i])

    def test_fingerprint_is_json(self, engine: Engine) -> None:
        fingerprint = engine.fingerprint()
        assert json.loads(json.dumps(fingerprint)) == fingerprint
        assert fingerprint.keys() >= {
            "engine",
            "build",
            "vllm_version",
            "torch_version",
            "model_sha256",
            "tokenizer_sha256",
            "cpu_model",
            "cpu_features",
            "threads",
        }


def _two_step_reads(counted: EngineCounters) -> int:
    return sum(getattr(counted, f"two_step_{reason}") for reason in TWO_STEP_REASONS)
