"""Rubrics from YAML, and everything a file can get wrong."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rubrics.errors import RubricError
from rubrics.model import Question, Rubric, library_rubrics, load_rubric


def choice(question_id: str = "q", **changes: Any) -> Question:
    fields = {"type": "choice", "text": "Which?", "options": ("a", "b")} | changes
    return Question(id=question_id, **fields)


def problems_of(tmp_path: Path, text: str) -> list[str]:
    path = tmp_path / "r.yaml"
    path.write_text(textwrap.dedent(text), encoding="utf-8")
    with pytest.raises(RubricError) as caught:
        load_rubric(path)
    assert all(problem.startswith(f"{path}: ") for problem in caught.value.problems)
    return [problem.removeprefix(f"{path}: ") for problem in caught.value.problems]


def problems_of_questions(*questions: Question) -> list[str]:
    with pytest.raises(RubricError) as caught:
        Rubric(id="r", version="1", questions=questions)
    return [problem.removeprefix("rubric r: ") for problem in caught.value.problems]


def test_triage_ships_as_documented() -> None:
    assert "triage" in library_rubrics()
    rubric = load_rubric("triage")
    asked = {q.id: (q.type, tuple(option.name for option in q.options)) for q in rubric.questions}
    assert asked == {
        "topic": ("choice", ("billing", "symptoms", "scheduling")),
        "urgency": ("choice", ("routine", "soon", "urgent")),
        "asks_for_human": ("noul", ("yes", "no")),
        "frustration": ("score", ("calm", "impatient", "annoyed", "angry", "furious")),
    }


def test_yaml_scalars_are_text(tmp_path: Path) -> None:
    path = tmp_path / "r.yaml"
    path.write_text(
        textwrap.dedent(
            """
            id: r
            version: 1.0
            questions:
              - {id: human, type: noul, text: "Human?"}
              - id: level
                type: score
                text: How much?
                options: [1, 2, on]
                ask_if: {human: [yes]}
                alone: true
            """
        ),
        encoding="utf-8",
    )
    rubric = load_rubric(path)
    assert rubric.version == "1.0"
    level = rubric.question("level")
    assert [option.name for option in level.options] == ["1", "2", "on"]
    assert level.ask_if == {"human": ("yes",)}
    assert level.dependencies == ("human",)
    assert level.alone


@pytest.mark.parametrize(
    ("kind", "count", "labels"),
    [
        ("choice", 3, "ABC"),
        ("choice", 26, "ABCDEFGHIJKLMNOPQRSTUVWXYZ"),
        ("score", 9, "123456789"),
        ("score", 10, "ABCDEFGHIJ"),
    ],
)
def test_labels(kind: str, count: int, labels: str) -> None:
    question = choice(type=kind, options=tuple(f"option {i}" for i in range(count)))
    assert question.labels == tuple(labels)


def test_options_are_found_whatever_their_case_and_unicode_form() -> None:
    question = choice(options=("Caf\u00e9", "Stra\u00dfe"))
    assert question.find("cafe\u0301") == 0
    assert question.find("STRASSE") == 1
    assert question.find("tea") is None


def test_noul_options_may_be_described() -> None:
    options = ({"name": "yes", "description": "says so"}, "no")
    assert choice(type="noul", options=options).options[0].description == "says so"


def test_every_problem_is_reported_at_once(tmp_path: Path) -> None:
    found = problems_of(
        tmp_path,
        """
        id: my rubric
        version: ""
        colour: red
        questions:
          - {id: one, type: bool, text: "Which?"}
          - {id: "a:b", type: choice, text: " ", options: [x]}
          - {id: two, type: choice, text: "Which?", options: [x, X], depends_on: [one, gone]}
          - {id: TWO, type: noul, text: "Which?", ask_if: {two: [y]}}
          - {id: three, type: noul, alone: maybe}
        """,
    )
    assert found == [
        "questions[0].type: Input should be 'noul', 'choice' or 'score' (it is 'bool')",
        "questions[4].text: is missing; add it",
        "questions[4].alone: Input should be a valid boolean, unable to interpret input "
        "(it is 'maybe')",
        "colour: unknown key (it is 'red'); remove it or correct its spelling",
        "id: 'my rubric' is not made of letters, digits, '_', '-' and '.'; rename it",
        "version: is blank; name it",
        "questions[3].id: 'TWO' is the same as questions[2].id; names differ by more than case "
        "and Unicode form",
        "questions[1].id: 'a:b' has a colon; use '_' or '-' instead",
        "questions[1].text: is blank; write the question",
        "questions[1].options: there are 1; give 2 to 26",
        "questions[2].options[1].name: 'X' is the same as questions[2].options[0].name; "
        "names differ by more than case and Unicode form",
        "questions[2].depends_on: no question has the id 'gone'; use the id of another question",
        "questions[3].ask_if.two: 'y' is no option of two; use one of x, X",
    ]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: [", "not valid YAML"),
        ("- a", "a rubric is a mapping"),
        ("id: a\nid: b", "key 'id' appears twice"),
        ("", "a rubric is a mapping"),
    ],
)
def test_unreadable_yaml(tmp_path: Path, text: str, problem: str) -> None:
    assert problem in problems_of(tmp_path, text)[0]


def test_unreadable_files(tmp_path: Path) -> None:
    with pytest.raises(RubricError, match="cannot be read: No such file"):
        load_rubric(tmp_path / "none.yaml")
    (tmp_path / "latin.yaml").write_bytes(b"id: caf\xe9")
    with pytest.raises(RubricError, match="not UTF-8 at byte 7"):
        load_rubric(tmp_path / "latin.yaml")
    with pytest.raises(RubricError, match=r"none ships by that name; use .*triage"):
        load_rubric("nosuch")


def test_counts() -> None:
    Rubric(id="r", version="1", questions=tuple(choice(f"q{i}") for i in range(64)))
    found = problems_of_questions(*(choice(f"q{i}") for i in range(65)))
    assert found == ["questions: there are 65; at most 64 fit one rubric"]
    assert problems_of_questions() == ["questions: there are none; ask at least one"]
    many = tuple(f"option {i}" for i in range(27))
    assert problems_of_questions(choice(options=many)) == [
        "questions[0].options: there are 27; give 2 to 26"
    ]


@pytest.mark.parametrize("character", ["\n", "\r", "\x85", "\u2028", "\u2029", "\0", "\x0b"])
def test_names_stay_on_one_line(character: str) -> None:
    (problem,) = problems_of_questions(choice(f"a{character}b"))
    assert f"U+{ord(character):04X}" in problem
    (problem,) = problems_of_questions(choice(options=(f"a{character}b", "c")))
    assert "options[0].name" in problem


def test_emoji_and_right_to_left_ids_are_ids() -> None:
    questions = (choice("\U0001f469\u200d\u2695\ufe0f"), choice("כאב"))
    assert len(Rubric(id="r", version="1", questions=questions).questions) == 2


def test_composed_and_decomposed_names_are_the_same_name() -> None:
    (problem,) = problems_of_questions(choice(options=("caf\u00e9", "cafe\u0301")))
    assert "same as questions[0].options[0].name" in problem


def test_lone_surrogates_are_refused_everywhere(tmp_path: Path) -> None:
    found = problems_of(
        tmp_path,
        r"""
        id: r
        version: "1"
        instructions: "\ud800"
        questions:
          - id: q
            type: choice
            text: "\ud800"
            options: ["\ud800", {name: b, description: "\udfff"}]
        """,
    )
    assert len(found) == 4


def test_noul_options_are_fixed() -> None:
    (problem,) = problems_of_questions(choice(type="noul", options=("no", "yes")))
    assert problem.startswith("questions[0].options: a noul question has the options yes, no")


def test_cycles_are_named() -> None:
    found = problems_of_questions(
        choice("free"),
        choice("a", depends_on=("b", "free")),
        choice("b", ask_if={"c": ("a",)}),
        choice("c", depends_on=("a",)),
        choice("behind", depends_on=("a",)),
    )
    assert len(found) == 1
    assert "wait for each other" in found[0]
    assert "behind" not in found[0]
    (problem,) = problems_of_questions(choice("a", depends_on=("a",)))
    assert "a -> a" in problem


def test_ask_if_must_name_an_option() -> None:
    (problem,) = problems_of_questions(choice("a"), choice("b", ask_if={"a": ()}))
    assert "names no option" in problem


@given(st.lists(st.lists(st.integers(0, 5), max_size=3), min_size=1, max_size=6))
def test_dependencies_are_refused_exactly_when_they_have_a_cycle(links: list[list[int]]) -> None:
    links = [[other % len(links) for other in others] for others in links]
    reach = [set(others) for others in links]
    for _ in links:
        reach = [others.union(*(reach[other] for other in others)) for others in reach]
    cyclic = any(place in others for place, others in enumerate(reach))
    questions = tuple(
        choice(f"q{place}", depends_on=tuple(f"q{other}" for other in others))
        for place, others in enumerate(links)
    )
    if cyclic:
        assert "wait for each other" in problems_of_questions(*questions)[0]
    else:
        Rubric(id="r", version="1", questions=questions)
