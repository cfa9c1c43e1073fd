"""The shipped checkpoint through the real engine: as good as, and equal to, the reference."""

from collections.abc import Iterator, Sequence
from statistics import fmean

import pytest

from engine.builds import Build
from engine.engine import DecisionEngine
from engine.reads import Read
from engine.tiny.checkpoint import load
from engine.tiny.tokenizer import VOCAB_SIZE
from pipeline.input.conversations import Message
from pipeline.tiny.evaluation import SlotLogprobs, heldout, measure, read_with_transformers
from rubrics.compiler import CompiledRubric, compile_rubric
from rubrics.model import load_rubric

pytestmark = pytest.mark.engine

SEED = 42
SLIDING_WINDOW = 1024  # beyond it vLLM and Transformers mask the oldest tokens differently


@pytest.fixture(scope="module")
def engine() -> Iterator[DecisionEngine]:
    build = Build(name="tiny", dtype="float32", single_pass_reads=True, kv_cache_gib=0.25)
    engine = DecisionEngine(build)
    yield engine
    engine.close()


def _reads_through(engine: DecisionEngine) -> SlotLogprobs:
    def read(
        compiled: CompiledRubric, conversations: Sequence[Sequence[Message]]
    ) -> list[dict[str, dict[int, float]]]:
        (canvas,) = compiled.canvases
        reads = []
        for index, messages in enumerate(conversations):
            prompt = compiled.prompt(messages)
            seeded = canvas.seeded(SEED, prompt.conversation_ids_sha256, 0, VOCAB_SIZE)
            slots = tuple(slot.position for slot in canvas.slots)
            reads.append(Read(str(index), prompt.ids, seeded, slots, canvas.label_ids, False))
        return [
            {
                slot.question_id: {i: result.logprobs[slot.position][i] for i in slot.label_ids}
                for slot in canvas.slots
            }
            for result in engine.read(reads)
        ]

    return read


def test_the_engine_decides_held_out_conversations(engine: DecisionEngine) -> None:
    _, tokenizer = load()
    compiled = compile_rubric(load_rubric("triage"), tokenizer)
    figures = measure(compiled, heldout(300), _reads_through(engine))
    accuracies = [quality.accuracy for quality in figures.values()]
    assert min(accuracies) >= 0.88
    assert fmean(accuracies) >= 0.9


def test_the_engine_says_what_the_reference_says(engine: DecisionEngine) -> None:
    model, tokenizer = load()
    compiled = compile_rubric(load_rubric("triage"), tokenizer)
    most = SLIDING_WINDOW - compiled.canvases[0].width
    conversations = [
        item.messages for item in heldout(40) if len(compiled.prompt(item.messages).ids) <= most
    ]
    assert len(conversations) > 30
    ours = _reads_through(engine)(compiled, conversations)
    reference = read_with_transformers(model, VOCAB_SIZE, SEED)(compiled, conversations)
    for mine, theirs in zip(ours, reference, strict=True):
        for question_id, logprobs in theirs.items():
            assert mine[question_id] == pytest.approx(logprobs, abs=1e-4)
