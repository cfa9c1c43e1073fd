"""Training batches: what the model is trained on is what the engine will be asked."""

import random

import pytest
from tokenizers import Tokenizer

from engine.tiny.checkpoint import CHECKPOINT
from engine.tiny.corpus import Corpus
from pipeline.input.conversations import Message
from pipeline.tiny.batches import BATCH_SIZE, EASY_STEPS, BatchMaker, make_batch
from pipeline.tiny.variants import reordered, reworded, shipped
from rubrics.compiler import compile_rubric
from rubrics.model import load_rubric

TOKENIZER = Tokenizer.from_file(str(CHECKPOINT / "tokenizer.json"))
TRIAGE = load_rubric("triage")


def test_batches_depend_on_seed_and_step_alone() -> None:
    first, second = (BatchMaker(TOKENIZER, TRIAGE, seed=3, variants=0.5) for _ in range(2))
    assert [first(step) for step in (9, 0, 9)] == [second(step) for step in (9, 0, 9)]
    assert first(0) != first(1)


def test_examples_are_the_compilers_prompts_and_canvases() -> None:
    compiled = compile_rubric(TRIAGE, TOKENIZER)
    conversation = Corpus("train").conversation(1)
    batch = make_batch(
        compiled, shipped(TRIAGE), [conversation], TOKENIZER.get_vocab_size(), seed=5
    )
    prompt = compiled.prompt([Message(role, said) for role, said in conversation.messages])
    (canvas,) = compiled.canvases
    (example,) = batch.examples
    assert batch.prefix_ids + example.prompt_rest_ids == prompt.ids
    assert example.canvas_ids == canvas.seeded(5, prompt.conversation_ids_sha256, 0, 4096)
    assert [target.position for target in example.targets] == [s.position for s in canvas.slots]


def test_targets_name_the_answer_by_its_label() -> None:
    compiled = compile_rubric(TRIAGE, TOKENIZER)
    conversation = Corpus("train").conversation(1)
    batch = make_batch(compiled, shipped(TRIAGE), [conversation], 4096, seed=0, smoothing=None)
    topic = compiled.slot("topic")
    index = ["billing", "symptoms", "scheduling"].index(conversation.labels.topic)
    (target,) = [t for t in batch.examples[0].targets if t.position == topic.position]
    assert {label for label, p in target.probabilities.items() if p} == {topic.label_ids[index]}


@pytest.mark.parametrize("seed", range(40))
def test_variants_compile_and_their_targets_sum_to_one(seed: int) -> None:
    rng = random.Random(seed)
    asked = reordered(TRIAGE, rng) if seed % 2 else reworded(rng)
    compiled = compile_rubric(asked.rubric, TOKENIZER, dialect="compact" if seed % 3 else "lines")
    conversations = [Corpus("train").conversation(s) for s in range(3)]
    for example in make_batch(compiled, asked, conversations, 4096, seed=0).examples:
        for target in example.targets:
            assert sum(target.probabilities.values()) == pytest.approx(1.0)


def test_batches_are_full_unless_their_conversations_are_long() -> None:
    make = BatchMaker(TOKENIZER, TRIAGE, seed=1, variants=0.0)
    sizes = [len(make(step).examples) for step in range(EASY_STEPS, EASY_STEPS + 16)]
    assert max(sizes) == BATCH_SIZE
    assert min(sizes) < BATCH_SIZE
    lengths = [len(e.prompt_rest_ids) for e in make(0).examples]
    assert max(lengths) < 100


def test_the_longest_conversations_have_their_turn() -> None:
    make = BatchMaker(TOKENIZER, TRIAGE, seed=1, variants=0.0)
    steps = range(EASY_STEPS, EASY_STEPS + 160)
    longest = max(len(e.prompt_rest_ids) for step in steps for e in make(step).examples)
    assert longest > 500
