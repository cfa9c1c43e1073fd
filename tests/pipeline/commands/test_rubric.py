"""`onepass rubric check` and `onepass rubric show`, as typed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from pipeline.cli import app
from tests.rubrics.tokenizers import small_tokenizer


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "tokenizer.json"
    small_tokenizer().save(str(path))
    return path


def onepass(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture
def broken(tmp_path: Path) -> Path:
    path = tmp_path / "broken.yaml"
    path.write_text(
        'id: r\nversion: "1"\nquestions:\n'
        '  - {id: "a:b", type: noul, text: "[red]Is it?"}\n'
        "  - {id: c, type: choice, text: Which, options: [x, x]}\n"
    )
    return path


def test_check_says_what_a_rubric_becomes(tokenizer: Path) -> None:
    result = onepass("rubric", "check", "triage", "--tokenizer", tokenizer)
    assert result.exit_code == 0
    said = " ".join(result.output.split())
    assert "triage: version 1, 4 question(s), dialect lines, 1 stage(s)" in said


def test_check_reports_every_problem_of_every_rubric(tokenizer: Path, broken: Path) -> None:
    result = onepass("rubric", "check", broken, "triage", "nosuch", "--tokenizer", tokenizer)
    assert result.exit_code == 1
    said = " ".join(result.output.split())
    assert "2 problem(s)" in said
    assert "questions[0].id: 'a:b' has a colon" in said
    assert "questions[1].options[1].name: 'x' is the same" in said
    assert "triage: version 1" in said
    assert "rubric nosuch: none ships by that name" in said


def test_check_reports_what_does_not_compile(tokenizer: Path) -> None:
    options = ("--tokenizer", tokenizer, "--max-label-ids", 4, "--canvas-length", 32)
    result = onepass("rubric", "check", "triage", "--json", *options)
    assert result.exit_code == 1
    (report,) = map(json.loads, result.output.splitlines())
    assert (report["source"], report["ok"]) == ("triage", False)
    assert "question frustration: has 5 options" in report["problems"][0]


def test_show_prints_positions_slots_and_label_ids(tokenizer: Path) -> None:
    model = tokenizer.parent
    result = onepass("rubric", "show", "triage", "--tokenizer", model, "--dialect", "compact")
    assert result.exit_code == 0
    table = [line.split("│") for line in result.output.splitlines() if line.startswith("│")]
    label = small_tokenizer().token_to_id("A")
    assert [cell.strip() for cell in table[0][1:5]] == ["0", str(label), "'A'", "topic"]
    assert "A billing: charges" in result.output


def test_show_as_json_is_the_canvas(tokenizer: Path) -> None:
    result = onepass("rubric", "show", "triage", "--json", "--tokenizer", tokenizer)
    shown = json.loads(result.output)
    (canvas,) = shown["canvases"]
    assert canvas["width"] == len(canvas["template_ids"]) == len(canvas["tokens"])
    slots = {slot["question_id"]: slot for slot in canvas["slots"]}
    assert slots["asks_for_human"]["labels"] == ["yes", "no"]
    for slot in slots.values():
        assert canvas["template_ids"][slot["position"]] == slot["label_ids"][0]
        assert set(slot["label_ids"]) <= set(canvas["label_ids"])


def test_show_prints_problems(tokenizer: Path, broken: Path) -> None:
    result = onepass("rubric", "show", broken, "--tokenizer", tokenizer)
    assert result.exit_code == 1
    assert len(result.stderr.splitlines()) == 2


@pytest.mark.parametrize("content", [None, "{}", "not json"])
def test_an_unreadable_tokenizer_is_a_usage_error(tmp_path: Path, content: str | None) -> None:
    path = tmp_path / "tokenizer.json"
    if content is not None:
        path.write_text(content)
    result = onepass("rubric", "check", "triage", "--tokenizer", path)
    assert result.exit_code == 2
    assert "--tokenizer" in result.output
