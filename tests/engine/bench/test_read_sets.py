"""Reads of fixed length."""

from __future__ import annotations

from engine.bench.read_sets import fixed_length_reads


def test_lengths_slots_and_labels_are_as_asked() -> None:
    reads = fixed_length_reads(5, 190, vocab_size=4096, width=32, slots=4, options=3)
    assert {len(read.prompt_ids) for read in reads} == {190}
    assert {read.width for read in reads} == {32}
    assert {len(read.slots) for read in reads} == {4}
    assert {len(read.label_ids) for read in reads} == {3}
    assert len({read.prompt_ids for read in reads}) == 5


def test_label_sets_take_turns_and_share_beginnings() -> None:
    reads = fixed_length_reads(4, 100, vocab_size=4096, shared_tokens=40, label_sets=2)
    assert reads[0].label_ids == reads[2].label_ids != reads[1].label_ids
    assert reads[0].prompt_ids[:40] == reads[2].prompt_ids[:40] != reads[1].prompt_ids[:40]
    assert reads[0].prompt_ids[40:] != reads[2].prompt_ids[40:]


def test_equal_arguments_give_equal_reads() -> None:
    first = fixed_length_reads(3, 50, vocab_size=4096)
    assert first == fixed_length_reads(3, 50, vocab_size=4096)
    assert first != fixed_length_reads(3, 50, vocab_size=4096, seed=1)
