"""What the document says and that it is whole; how it looks and behaves is in test_browser."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from typer.testing import CliRunner

from pipeline.cli import app
from pipeline.diff.gate import Check
from pipeline.diff.result import Comparison
from pipeline.report.build import render
from pipeline.report.decisions_view import question_rows
from pipeline.report.plots import bar, log_percent, rate_axis
from pipeline.report.runs_view import matrix
from pipeline.report.words import signed
from tests.pipeline.diff.cases import compared, items, two_runs
from tests.pipeline.report.example import ODD_ID, example


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> Comparison:
    return example(str(tmp_path_factory.mktemp("out")))


class Outline(HTMLParser):
    """Tags, headings and references of a document."""

    VOID = frozenset({"meta", "input", "br", "img", "link", "hr"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.headings: list[str] = []
        self.references: list[str] = []
        self.ids: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        if tag not in self.VOID and not self.get_starttag_text().endswith("/>"):
            self.open.append(tag)
        for name, value in attributes:
            if name in ("src", "href", "srcset", "action", "data", "poster"):
                self.references.append(value or "")
            if name == "id":
                self.ids.append(value or "")
        if re.fullmatch(r"h[1-6]", tag):
            self.headings.append(tag)

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attributes)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_document_is_whole_and_refers_to_nothing_outside(everything: Comparison) -> None:
    text = render(everything)
    outline = Outline(text)
    assert outline.open == []
    assert outline.headings[0] == "h1"
    assert outline.headings.count("h1") == 1
    assert all(reference.startswith("#") for reference in outline.references)
    assert {r[1:] for r in outline.references} <= set(outline.ids)
    assert len(outline.ids) == len(set(outline.ids))
    assert "url(" not in text
    assert "@import" not in text
    assert "http" not in re.sub(r"http://www\.w3\.org/\S+", "", text)


def test_ids_from_the_data_are_text(everything: Comparison) -> None:
    assert any(flip["conversation_id"] == ODD_ID for flip in everything.flips)
    text = render(everything)
    assert ODD_ID not in text
    assert "&lt;/script&gt;&lt;img src=x onerror=alert(1)&gt;" in text


def test_the_verdict_is_the_first_thing_said(everything: Comparison) -> None:
    text = render(everything)
    body = re.sub(r"<[^>]+>", " ", text[text.index("<h1") :])
    assert body.split()[:2] == [everything.overall["verdict"], str(everything.overall["flips"])]
    assert text.index("Key figures") < text.index("Flips by question") < text.index("The flips")


def test_everything_that_is_known_is_shown(everything: Comparison) -> None:
    text = render(everything, [Check("flips", "failed", "too many")])
    for heading in (
        "Gate not met", "Flips by question", "Agreement of the runs", "What moves decisions",
        "One factor against another", "Margin and movement", "The flips", "Against gold",
        "Calibration", "Steps and speed", "Fingerprints",
    ):  # fmt: skip
        assert heading in text
    for side in everything.sides:
        assert side.run_id in text
    assert text.count('<tr data-rank="') == everything.overall["flips"]


def test_what_is_unknown_is_said_to_be(tmp_path: Path) -> None:
    result = compared(str(tmp_path), two_runs(str(tmp_path), items(30), items(30)))
    result.overall["gold_pairs"] = None
    result.calibration.clear()
    for row in result.questions:
        row["gold_pairs"] = None
    text = render(result)
    assert "no repeat run was given" in text
    assert "No decision differs." in text
    for absent in ("Against gold", "Calibration", "What moves decisions", "Gate", "<form"):
        assert absent not in text


def test_questions_are_ordered_by_rate_after_the_total(everything: Comparison) -> None:
    rows, ticks = question_rows(everything)
    assert rows[0].overall
    rates = [float(row.rate.rstrip("%")) for row in rows[1:]]
    assert rates == sorted(rates, reverse=True)
    assert [tick.at for tick in ticks] == [0, 25, 50, 75, 100]
    for row in rows:
        assert 0 <= row.bar.low <= row.bar.at <= row.bar.high <= 100


def test_the_matrix_is_symmetric(everything: Comparison) -> None:
    cells = [[cell.text for cell in row] for row in matrix(everything)]
    assert len(cells) == len(everything.sides)
    assert cells == [list(column) for column in zip(*cells, strict=True)]
    assert cells[0][1] == str(everything.overall["flips"])


def test_axes() -> None:
    axis = rate_axis([0.031])
    assert [tick.label for tick in axis.ticks] == ["0%", "1%", "2%", "3%", "4%"]
    assert rate_axis([]).ticks[-1].label == "0.10%"
    assert rate_axis([0.0031]).ticks[-1].label == "0.4%"
    assert rate_axis([1.0]).ticks[-1].label == "100%"
    assert bar(axis, 0.0, 0.02, 0.031, None).at == 50
    assert log_percent(0) == log_percent(1e-4) == 0
    assert log_percent(2) == log_percent(9) == 100
    assert log_percent(1e-2) == pytest.approx(200 / 4.30103, abs=0.01)
    assert signed(-0.012, ".1%") == "−1.2%"


def test_the_command_writes_the_latest_comparison(tmp_path: Path) -> None:
    out = str(tmp_path / "out")
    run = CliRunner()
    runs = two_runs(out, items(30), items(30, flipped=[1]))
    assert run.invoke(app, ["report", "--output", out]).exit_code != 0
    result = compared(out, runs)
    found = run.invoke(app, ["report", "--output", out, "--gate", "release"])
    assert found.exit_code == 0
    (file,) = (tmp_path / "out" / "reports").iterdir()
    assert found.stdout.strip() == f"Wrote {file}"
    assert file.name == f"{result.id}.html"
    assert "Gate not met" in file.read_text(encoding="utf-8")
    elsewhere = tmp_path / "here.html"
    assert run.invoke(
        app, ["report", "cand-vs", "--output", out, "--file", str(elsewhere)]
    ).exit_code == 0  # fmt: skip
    assert "<h1>" in elsewhere.read_text(encoding="utf-8")
