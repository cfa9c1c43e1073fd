"""Canvases: the proof that labels fit their slots, widths, and noise."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Regex, Tokenizer, models, pre_tokenizers

from rubrics.canvas import Canvas, build_canvas
from rubrics.dialects.compact import BARE
from rubrics.dialects.lines import NAMED
from rubrics.encoding import TextEncoder
from rubrics.errors import RubricError
from rubrics.model import Question, load_rubric
from tests.rubrics.samples import choice, noul
from tests.rubrics.tokenizers import small_tokenizer

ENCODER = TextEncoder(small_tokenizer())


def canvas_of(*questions: Question, limit: int = 64) -> Canvas:
    canvas = build_canvas(ENCODER, NAMED, list(enumerate(questions, 1)), limit)
    assert canvas is not None
    return canvas


def words(*names: str, pieces: str = r"\n|[^\s:]+|: ") -> TextEncoder:
    """An encoder whose tokens are exactly these words; any other text is `?`."""
    vocabulary = ["<pad>", "<bos>", "<|turn>", "<turn|>", "?", "\n", ": ", *names]
    ids = {name: i for i, name in enumerate(vocabulary)}
    tokenizer = Tokenizer(models.WordLevel(ids, unk_token="?"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(pieces), "isolated")
    return TextEncoder(tokenizer)


def test_the_template_is_the_answers_the_end_of_the_turn_and_padding() -> None:
    canvas = canvas_of(choice("topic"), noul("urgent"))
    answers = ENCODER.encode("topic: A\nurgent: yes")
    assert canvas.template_ids[: len(answers)] == answers
    assert canvas.template_ids[len(answers)] == ENCODER.turn[1]
    assert set(canvas.template_ids[len(answers) + 1 :]) == {ENCODER.pad}


def test_a_slot_holds_each_label_in_place() -> None:
    questions = load_rubric("triage").questions
    canvas = canvas_of(*questions)
    assert [slot.position for slot in canvas.slots] == sorted(s.position for s in canvas.slots)
    for question in questions:
        slot = canvas.slot(question.id)
        for label, label_id in zip(question.labels, slot.label_ids, strict=True):
            ids = list(canvas.template_ids)
            ids[slot.position] = label_id
            lines = [
                f"{other.id}: {label if other is question else other.labels[0]}"
                for other in questions
            ]
            assert tuple(ids[: ids.index(ENCODER.turn[1])]) == ENCODER.encode("\n".join(lines))


def test_unknown_questions_have_no_slot() -> None:
    with pytest.raises(KeyError, match="none"):
        canvas_of(choice()).slot("none")


def test_label_ids_are_the_union_ascending() -> None:
    canvas = canvas_of(choice("a"), choice("b"), noul("c"))
    union = {label for slot in canvas.slots for label in slot.label_ids}
    assert canvas.label_ids == tuple(sorted(union))
    assert len(union) == 4


def test_one_token_always_follows_the_answers() -> None:
    """Fifteen answer tokens and the end of the turn fill 16; sixteen need 32."""
    encoder = words("A", "B")

    def width(questions: int, limit: int = 64) -> int | None:
        numbered = [(i, choice(f"q{i}")) for i in range(questions)]
        canvas = build_canvas(encoder, BARE, numbered, limit)
        return canvas and canvas.width

    assert width(8) == 16  # 8 labels, 7 line breaks
    assert width(8, limit=16) == 16
    assert width(8, limit=15) is None
    assert width(9) == 32
    assert width(9, limit=20) == 20


@pytest.mark.parametrize(("answers", "width"), [(14, 16), (15, 16), (16, 32), (31, 32), (32, 48)])
def test_width_steps(answers: int, width: int) -> None:
    encoder = words("A", "B", "x", pieces=r"\n|[^\s:]|: ")
    canvas = build_canvas(encoder, NAMED, [(1, choice("x" * (answers - 2)))], 64)
    assert canvas is not None
    assert canvas.template_ids[answers] == encoder.turn[1]
    assert canvas.width == width


def test_labels_of_several_tokens_are_refused() -> None:
    encoder = words("y", "e", "s", "n", "o", pieces=r"\n|[^\s:]|: ")
    with pytest.raises(RubricError) as caught:
        build_canvas(encoder, NAMED, [(1, noul("q")), (2, noul("r"))], 64)
    assert [problem.split(":")[0] for problem in caught.value.problems] == [
        "question q",
        "question r",
    ]
    assert "'yes' is 3 ('y', 'e', 's'), 'no' is 2 ('n', 'o')" in str(caught.value)


def test_labels_of_one_token_are_refused_together() -> None:
    with pytest.raises(RubricError, match="labels 'B' and 'C' are the same tokens"):
        build_canvas(words("A"), NAMED, [(1, choice("q", options=("a", "b", "c")))], 64)


def test_labels_in_two_places_are_refused() -> None:
    """A token that swallows the line break moves the place of one label."""
    encoder = words("A", "C", "q", "B\n", pieces=r"B\n|\n|[^\s:]+|: ")
    questions = [(1, choice("q", options=("a", "b", "c"))), (2, choice("q", options=("a", "c")))]
    with pytest.raises(RubricError, match=r"question q: .* but 'A' is 2 \('A', '\\n'\), 'C' is 2"):
        build_canvas(encoder, BARE, questions, 64)


def test_labels_that_change_each_other_are_refused() -> None:
    """Each question by itself is fine here; only both last labels together are one token."""
    encoder = words("A", "B", "B\nB", pieces=r"B\nB|\n|[^\s:]+")
    with pytest.raises(RubricError, match="questions p, q: labels change each other's tokens"):
        build_canvas(encoder, BARE, [(1, choice("p")), (2, choice("q"))], 64)


def test_the_hash_covers_template_slots_and_labels() -> None:
    canvas = canvas_of(choice("a"), choice("b"))
    assert canvas.sha256 == canvas_of(choice("a"), choice("b", text="Other?")).sha256
    assert len(canvas.sha256) == 64
    others = (
        canvas_of(choice("b"), choice("a")),
        canvas_of(choice("a"), choice("b", options=("x", "y", "z"))),
    )
    assert len({canvas.sha256, *(other.sha256 for other in others)}) == 3


seeds = st.integers(0, 2**63)
keys = st.text("0123456789abcdef", min_size=1, max_size=64)


@given(seed=seeds, key=keys, draw=st.integers(0, 99), vocab_size=st.integers(1, 262_144))
def test_noise_fills_slots_only_and_stays_in_the_vocabulary(
    seed: int, key: str, draw: int, vocab_size: int
) -> None:
    canvas = TRIAGE
    seeded = canvas.seeded(seed, key, draw, vocab_size)
    places = {slot.position for slot in canvas.slots}
    assert all(0 <= seeded[place] < vocab_size for place in places)
    rest = [place for place in range(canvas.width) if place not in places]
    assert [seeded[place] for place in rest] == [canvas.template_ids[place] for place in rest]


TRIAGE = canvas_of(*load_rubric("triage").questions)


@given(seed=seeds, key=keys, draw=st.integers(0, 99), siblings=st.sets(st.sampled_from("abcdef")))
def test_noise_does_not_depend_on_siblings(
    seed: int, key: str, draw: int, siblings: set[str]
) -> None:
    alone = canvas_of(choice("q"))
    together = canvas_of(*(noul(name) for name in sorted(siblings)), choice("q"))

    def noise(canvas: Canvas) -> int:
        return canvas.seeded(seed, key, draw, 262_144)[canvas.slot("q").position]

    assert noise(alone) == noise(together)


def test_noise_depends_on_seed_conversation_question_and_draw() -> None:
    canvas = canvas_of(choice("a"), choice("b"))
    noises = [
        canvas.seeded(seed, key, draw, 2**31)[slot.position]
        for seed in (1, 2)
        for key in ("x", "y")
        for draw in (0, 1)
        for slot in canvas.slots
    ]
    assert len(set(noises)) == 16


def test_noise_covers_the_vocabulary_evenly() -> None:
    canvas = canvas_of(choice("a"))
    place = canvas.slots[0].position
    counts = [0] * 8
    for draw in range(4000):
        counts[canvas.seeded(42, "key", draw, 8)[place]] += 1
    assert min(counts) > 400
    assert max(counts) < 600


def test_noise_never_changes() -> None:
    """Decisions are compared across releases: the noise of a seed is part of the product."""
    canvas = canvas_of(choice("topic"), noul("urgent"))
    seeded = canvas.seeded(42, "00ff", 0, 262_144)
    assert [seeded[slot.position] for slot in canvas.slots] == [82105, 232937]
