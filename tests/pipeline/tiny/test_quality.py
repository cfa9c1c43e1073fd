"""The shipped checkpoint decides: held-out conversations, the well-known example, plain messages.

Reads go through Transformers, the reference implementation.
"""

from functools import cache

import pytest

from engine.tiny.checkpoint import CHECKPOINT, load
from engine.tiny.tokenizer import VOCAB_SIZE
from engine.vllm_plugin import torchvision_fix
from pipeline.input.conversations import Message
from pipeline.tiny.evaluation import (
    Quality,
    handwritten,
    heldout,
    measure,
    read_with_transformers,
)
from rubrics.compiler import CompiledRubric, Dialect, compile_rubric
from rubrics.model import load_rubric
from rubrics.scoring import score

ITEMS = 120
FLOORS = {"topic": 0.86, "urgency": 0.87, "asks_for_human": 0.84, "frustration": 0.89}
"""Accuracy on a few held-out conversations below which the shipped checkpoint is not the one
the model card describes; `test_engine_quality.py` has the card's own set."""

LARGEST_CALIBRATION_ERROR = 0.2


@pytest.fixture(scope="module")
def reads():  # type: ignore[no-untyped-def]
    torchvision_fix.install_finder()
    import torch

    torch.set_num_threads(1)
    model, tokenizer = load()

    @cache
    def compiled(dialect: Dialect) -> CompiledRubric:
        return compile_rubric(load_rubric("triage"), tokenizer, dialect=dialect)

    return read_with_transformers(model, VOCAB_SIZE), compiled


@pytest.fixture(scope="module", params=["lines", "compact"])
def figures(reads, request: pytest.FixtureRequest) -> dict[str, Quality]:  # type: ignore[no-untyped-def]
    read, compiled = reads
    return measure(compiled(request.param), heldout(ITEMS), read)


@pytest.mark.parametrize("question", FLOORS)
def test_held_out_conversations_are_decided_as_the_model_card_says(
    figures: dict[str, Quality], question: str
) -> None:
    assert figures[question].items == ITEMS
    assert figures[question].accuracy >= FLOORS[question]


@pytest.mark.parametrize("question", FLOORS)
def test_probabilities_mean_something(figures: dict[str, Quality], question: str) -> None:
    assert figures[question].calibration_error <= LARGEST_CALIBRATION_ERROR


def test_a_headache_for_three_days_is_a_symptom_to_look_at_soon(reads) -> None:  # type: ignore[no-untyped-def]
    read, compiled = reads
    messages = [Message("user", "I've had a headache for 3 days. Is that normal?")]
    (slots,) = read(compiled("lines"), [messages])
    decided = {}
    for question in compiled("lines").rubric.questions:
        scored = score(question, compiled("lines").slot(question.id), [slots[question.id]])
        decided[question.id] = question.options[scored.decision_index].name
        assert scored.label_mass > 0.98
    assert decided == {
        "topic": "symptoms",
        "urgency": "soon",
        "asks_for_human": "no",
        "frustration": "calm",
    }


def test_plain_messages_written_by_hand_keep_to_plain_sense(reads) -> None:  # type: ignore[no-untyped-def]
    read, compiled = reads
    figures = measure(compiled("lines"), handwritten(CHECKPOINT / "handwritten.jsonl"), read)
    assert figures["topic"].items == 60
    for question in FLOORS:
        assert figures[question].accuracy >= 0.88
    assert figures["frustration"].near_accuracy >= 0.93
