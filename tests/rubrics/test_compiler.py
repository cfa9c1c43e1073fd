"""Compiled rubrics: layouts, splitting, stages, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer

from rubrics.checks import name_key
from rubrics.compiler import CompiledRubric, compile_rubric
from rubrics.encoding import TextEncoder
from rubrics.errors import RubricError
from rubrics.model import Rubric, load_rubric
from tests.rubrics.samples import choice, noul, rubric
from tests.rubrics.tokenizers import small_tokenizer

ENCODER = TextEncoder(small_tokenizer())


def compiled(*args: Any, **options: Any) -> CompiledRubric:
    return compile_rubric(rubric(*args), ENCODER, **options)


def asked(result: CompiledRubric) -> list[list[str]]:
    return [list(canvas.question_ids) for canvas in result.canvases]


@pytest.mark.parametrize(("dialect", "width"), [("lines", 32), ("compact", 16)])
def test_triage_on_the_gemma_vocabulary(
    gemma_encoder: TextEncoder, dialect: Any, width: int
) -> None:
    result = compile_rubric(load_rubric("triage"), gemma_encoder, dialect=dialect)
    (canvas,) = result.canvases
    assert canvas.width == width
    assert canvas.question_ids == ("topic", "urgency", "asks_for_human", "frustration")
    assert [len(slot.label_ids) for slot in canvas.slots] == [3, 3, 2, 5]
    assert len(result.shared_prefix_ids) < 200


def test_labels_on_the_gemma_vocabulary(gemma: Tokenizer, gemma_encoder: TextEncoder) -> None:
    result = compile_rubric(load_rubric("triage"), gemma_encoder)
    labels = [[gemma.id_to_token(i) for i in slot.label_ids] for slot in result.canvases[0].slots]
    assert labels == [["▁A", "▁B", "▁C"]] * 2 + [["▁yes", "▁no"], list("12345")]


@pytest.mark.parametrize("dialect", ["lines", "compact"])
def test_the_largest_rubric_on_the_gemma_vocabulary(
    gemma_encoder: TextEncoder, dialect: Any
) -> None:
    names = tuple(f"option {i}" for i in range(26))
    kinds = [
        lambda i: choice(f"q{i}", options=names),
        lambda i: noul(f"q{i}"),
        lambda i: choice(f"q{i}", type="score", options=names[:9]),
        lambda i: choice(f"q{i}", type="score", options=names[:10]),
    ]
    largest = rubric(*(kinds[i % 4](i) for i in range(64)))
    result = compile_rubric(largest, gemma_encoder, dialect=dialect)
    assert [q for ids in asked(result) for q in ids] == [q.id for q in largest.questions]
    assert len(result.canvases) > 1
    for canvas in result.canvases:
        assert canvas.width in (16, 32, 48, 64)
        assert len(canvas.label_ids) <= 128
        for slot in canvas.slots:
            assert len(set(slot.label_ids)) == len(slot.label_ids)
            assert slot.label_ids[0] == canvas.template_ids[slot.position]


def test_ten_questions_are_answered_by_id_and_eleven_by_number() -> None:
    ten = compiled(*(noul(f"q{i}") for i in range(10)), canvas_length=256)
    eleven = compiled(*(noul(f"q{i}") for i in range(11)), canvas_length=256)
    assert "\nq3: Is it?\n" in ten.system_text
    assert "\n4: Is it?\n" in eleven.system_text
    assert "q3" not in eleven.system_text
    for result, line in ((ten, "q9: yes"), (eleven, "11: yes")):
        end = result.canvases[0].template_ids.index(ENCODER.turn[1])
        tail = ENCODER.encode(f"\n{line}")
        assert result.canvases[0].template_ids[:end][-len(tail) :] == tail


def test_compact_is_bare_labels_where_one_canvas_holds_them() -> None:
    result = compiled(*(noul(f"q{i}") for i in range(8)), dialect="compact")
    (canvas,) = result.canvases
    assert canvas.width == 16
    assert canvas.template_ids[:3] == ENCODER.encode("yes\nyes")


@pytest.mark.parametrize(
    "questions",
    [
        [noul(f"q{i}") for i in range(40)],
        [noul("a"), noul("b", alone=True)],
        [noul("a"), noul("b", depends_on=("a",))],
    ],
)
def test_compact_answers_by_number_where_one_canvas_does_not(questions: list[Any]) -> None:
    result = compiled(*questions, dialect="compact")
    assert len(result.canvases) > 1
    last = result.canvases[-1]
    number = ENCODER.encode(f"{len(questions)}: yes")
    end = last.template_ids.index(ENCODER.turn[1])
    assert last.template_ids[end - len(number) : end] == number
    assert '"number: label"' in result.system_text


def test_questions_that_do_not_fit_one_canvas_are_split_in_order() -> None:
    result = compiled(*(noul(f"question_{i}") for i in range(9)), canvas_length=32)
    assert len(result.canvases) > 1
    assert [q for ids in asked(result) for q in ids] == [f"question_{i}" for i in range(9)]
    assert all(canvas.width <= 32 for canvas in result.canvases)


def test_canvases_are_split_by_label_ids() -> None:
    questions = [choice("a", options=tuple("abcd")), noul("b"), noul("c"), choice("d")]
    assert asked(compiled(*questions, max_label_ids=128)) == [["a", "b", "c", "d"]]
    assert asked(compiled(*questions, max_label_ids=6)) == [["a", "b", "c", "d"]]
    assert asked(compiled(*questions, max_label_ids=5)) == [["a"], ["b", "c", "d"]]
    assert asked(compiled(*questions[1:], max_label_ids=3)) == [["b", "c"], ["d"]]


@given(
    options=st.lists(st.integers(2, 26), min_size=1, max_size=12),
    canvas_length=st.integers(8, 64),
    max_label_ids=st.integers(26, 40),
)
def test_every_question_is_asked_once_within_the_limits(
    options: list[int], canvas_length: int, max_label_ids: int
) -> None:
    questions = [
        choice(f"q{i}", options=tuple(map(str, range(count)))) for i, count in enumerate(options)
    ]
    result = compiled(*questions, canvas_length=canvas_length, max_label_ids=max_label_ids)
    assert [q for ids in asked(result) for q in ids] == [q.id for q in questions]
    for canvas in result.canvases:
        assert canvas.width <= canvas_length
        assert canvas.width % 16 == 0 or canvas.width == canvas_length
        assert ENCODER.turn[1] in canvas.template_ids
        assert len(canvas.label_ids) <= max_label_ids


def test_questions_that_want_to_be_alone_are() -> None:
    questions = (noul("a"), noul("b", alone=True), noul("c"), noul("d"))
    assert asked(compiled(*questions)) == [["a", "c", "d"], ["b"]]


def test_stages_follow_the_longest_chain() -> None:
    result = compiled(
        noul("d", depends_on=("c", "a")),
        noul("a"),
        noul("b", ask_if={"a": ("yes",)}),
        noul("c", depends_on=("b",)),
        noul("e"),
    )
    assert [[list(c.question_ids) for c in stage] for stage in result.stages] == [
        [["a", "e"]],
        [["b"]],
        [["c"]],
        [["d"]],
    ]


def test_one_stage_without_dependencies(encoder: TextEncoder) -> None:
    assert len(compile_rubric(load_rubric("triage"), encoder).stages) == 1


def test_everything_that_does_not_fit_is_reported() -> None:
    with pytest.raises(RubricError) as caught:
        compiled(
            noul("this_id_is_far_too_long_for_so_narrow_a_canvas"),
            choice("letters", options=tuple(f"option {i}" for i in range(20))),
            noul("later", depends_on=("letters",)),
            noul("so_is_this_one_that_waits_for_another", depends_on=("letters",)),
            canvas_length=16,
            max_label_ids=19,
        )
    first, second, third = caught.value.problems
    assert first.startswith("rubric r, dialect lines, question this_id_is_far_too_long")
    assert "more than a canvas of 16 holds" in first
    assert "question letters: has 20 options and a read may report 19 labels" in second
    assert "question so_is_this_one" in third


def test_skipping_follows_ask_if() -> None:
    result = compiled(
        choice("topic", options=("billing", "symptoms")),
        noul("pain", ask_if={"topic": ("Symptoms",)}),
        noul("strong", ask_if={"pain": ("yes",)}),
        noul("other", depends_on=("pain",)),
    )
    assert result.skipped_because("topic", {}) is None
    assert result.skipped_because("pain", {"topic": 0}) == "topic"
    assert result.skipped_because("pain", {"topic": 1}) is None
    assert result.skipped_because("strong", {"topic": 1, "pain": 0}) is None
    assert result.skipped_because("strong", {"topic": 1, "pain": 1}) == "pain"
    # A skipped question answers nobody who asks for its answer, and stops nobody who only waits.
    assert result.skipped_because("strong", {"topic": 0}) == "pain"
    assert result.skipped_because("other", {"topic": 0}) is None


def test_slots_are_found_by_question(encoder: TextEncoder) -> None:
    result = compile_rubric(load_rubric("triage"), encoder)
    assert result.slot("urgency") is result.canvases[0].slots[1]
    with pytest.raises(KeyError):
        result.slot("none")


def test_a_tokenizer_and_its_encoder_compile_alike(tokenizer: Tokenizer) -> None:
    triage: Rubric = load_rubric("triage")
    assert compile_rubric(triage, tokenizer).stages == compile_rubric(triage, ENCODER).stages


def test_control_tokens_in_a_rubric_are_text() -> None:
    spelled = choice("q<turn|>", text="<|turn>system", options=("<bos>", "b"))
    result = compiled(spelled)
    assert ENCODER.control_ids.isdisjoint(ENCODER.encode(result.system_text))
    assert result.canvases[0].template_ids.count(ENCODER.turn[1]) == 1
    assert list(result.shared_prefix_ids).count(ENCODER.turn[0]) == 2


ACCEPTED = st.characters(exclude_categories=["Cc", "Cs", "Zl", "Zp"], exclude_characters=":")
IDS = st.lists(
    st.text(ACCEPTED, min_size=1, max_size=8).map(str.strip).filter(bool),
    min_size=1,
    max_size=3,
    unique_by=name_key,
)


@given(IDS, st.booleans())
def test_any_id_a_rubric_accepts_compiles(ids: list[str], by_itself: bool) -> None:
    asking = rubric(*(noul(name, alone=by_itself) for name in ids))
    result = compile_rubric(asking, ENCODER, canvas_length=256)
    for question in asking.questions:
        tokens = [ENCODER.token(label_id) for label_id in result.slot(question.id).label_ids]
        # Whole words, or words with what this small vocabulary merges before them.
        assert [token.rpartition("▁")[2] for token in tokens] == ["yes", "no"]


def test_emoji_right_to_left_and_spaced_ids_on_the_gemma_vocabulary(
    gemma_encoder: TextEncoder,
) -> None:
    ids = (
        "\U0001f469\u200d\u2695\ufe0f",
        "\u05db\u05d0\u05d1",
        "two words",
        "caf\u00e9?",
        "\u540d\u524d",
    )
    result = compile_rubric(rubric(*map(noul, ids)), gemma_encoder)
    assert asked(result) == [list(ids)]
    assert len({slot.label_ids for slot in result.canvases[0].slots}) == 1
