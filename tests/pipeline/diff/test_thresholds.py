"""Decisions of which one run alone reaches a probability that something is done at."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from pipeline.cli import app
from pipeline.diff.result import load_comparison
from pipeline.diff.thresholds import Threshold, parse_thresholds
from pipeline.output.runs import Run
from pipeline.report.build import render
from pipeline.yaml_files import ConfigError
from tests.pipeline.diff.cases import compared
from tests.pipeline.diff.test_compare import diffs_of
from tests.pipeline.synthetic import Decided, decision, write_run

RUBRIC = {
    "id": "triage",
    "version": "1",
    "questions": [
        {"id": "urgent", "options": [{"name": "yes"}, {"name": "no"}]},
        {"id": "topic", "options": [{"name": "a/b=c"}, {"name": "b"}]},
    ],
}
BASELINE = (0.9, 0.9, 0.75, 0.8, 0.3)
CANDIDATE = (0.95, 0.7, 0.85, 0.8, 0.6)
"""P(yes): reached twice, lost, gained, reached exactly twice, a flip far from 0.8."""


def rows(chances: tuple[float, ...], *more: Decided) -> list[Decided]:
    found = [
        decision(f"c{i}", "urgent", {"yes": yes, "no": 1 - yes}) for i, yes in enumerate(chances)
    ]
    return [*found, decision("c0", "topic", {"a/b=c": chances[0], "b": 1 - chances[0]}), *more]


def runs(out: str, *more: list[Decided]) -> list[Run]:
    first, second = more or ([], [])
    return [
        write_run(out, rows(BASELINE, *first), run_id="base", rubrics=[RUBRIC], parts=2),
        write_run(out, rows(CANDIDATE, *second), run_id="cand", build="single_pass",
                  rubrics=[RUBRIC], parts=3),
    ]  # fmt: skip


def test_crossings_are_not_flips(tmp_path: Path) -> None:
    out = str(tmp_path)
    found = compared(out, runs(out), thresholds=[Threshold("triage", "urgent", "yes", 0.8)])
    assert found.overall["flips"] == 1
    counts = [
        (row["question_id"], row["threshold_pairs"], row["threshold_crossings"])
        for row in [found.overall, *found.questions]
    ]
    assert counts == [("*", 5, 2), ("topic", None, None), ("urgent", 5, 2)]
    table = diffs_of(tmp_path).to_pylist()
    crossed = {(r["conversation_id"], r["question_id"]): r["crossed"] for r in table}
    assert crossed == {
        ("c0", "topic"): None,
        ("c0", "urgent"): False,
        ("c1", "urgent"): True,
        ("c2", "urgent"): True,
        ("c3", "urgent"): False,
        ("c4", "urgent"): False,
    }


def test_a_question_not_asked_reaches_nothing(tmp_path: Path) -> None:
    out = str(tmp_path)
    asked = [decision(f"d{i}", "urgent", {"yes": p, "no": 1 - p}) for i, p in enumerate((0.9, 0.4))]
    not_asked = dict.fromkeys(("decision", "decision_index", "probability", "margin"))
    skipped = [Decided(row.decision | not_asked, ()) for row in asked]
    thresholds = [Threshold("triage", "urgent", "yes", p) for p in (0.8, 0.65)]
    overall = compared(out, runs(out, asked, skipped), thresholds=thresholds).overall
    assert (overall["threshold_pairs"], overall["threshold_crossings"]) == (7, 3)


def test_without_a_threshold_nothing_is_said(tmp_path: Path) -> None:
    out = str(tmp_path)
    overall = compared(out, runs(out)).overall
    assert (overall["threshold_pairs"], overall["threshold_crossings"]) == (None, None)
    assert diffs_of(tmp_path)["crossed"].null_count == 6


def test_names_may_hold_anything_but_the_ids(tmp_path: Path) -> None:
    (found,) = parse_thresholds(["triage/topic/a/b=c=0.5"] * 2, runs(str(tmp_path)))
    assert found == Threshold("triage", "topic", "a/b=c", 0.5)
    assert str(found) == "triage/topic/a/b=c=0.5"


def test_every_wrong_threshold_is_named(tmp_path: Path) -> None:
    wrong = ["triage/urgent=0.8", "triage/urgent/yes=80%", "triage/urgent/yes=1.5",
             "triage/urgnt/yes=0.8", "triage/urgent/ja=0.8", "triage/urgent/no=1"]  # fmt: skip
    with pytest.raises(ConfigError) as error:
        parse_thresholds(wrong, runs(str(tmp_path)))
    assert error.value.problems == [
        f"--threshold {text}: {problem}"
        for text, problem in zip(
            wrong,
            [
                "write RUBRIC/QUESTION/OPTION=P, such as triage/urgent/yes=0.8",
                "write RUBRIC/QUESTION/OPTION=P, such as triage/urgent/yes=0.8",
                "P is 1.5; it must be above 0 and at most 1",
                "run base has no question triage/urgnt; it has triage/urgent, triage/topic",
                "question triage/urgent of run base has no option ja; use yes, no",
            ],
            strict=False,
        )
    ]


def test_the_command_and_the_report_show_them(tmp_path: Path) -> None:
    out = str(tmp_path)
    runs(out)
    command = ["diff", "base", "cand", "--output", out, "--threshold"]
    shown = CliRunner().invoke(app, [*command, "triage/urgent/yes=0.8"])
    assert shown.exit_code == 0
    assert "2 of 5 decisions crossed a threshold (triage/urgent/yes=0.8)." in " ".join(
        shown.stdout.split()
    )
    record = next(tmp_path.glob("_comparisons/*.json"))
    assert json.loads(record.read_text())["thresholds"] == ["triage/urgent/yes=0.8"]
    page = render(load_comparison(out, record.stem))
    assert "Crossed: one run alone reaches triage/urgent/yes=0.8." in page
    assert 'data-label="Crossed">2 of 5<' in page
    refused = CliRunner().invoke(app, [*command, "triage/urgent/ja=0.8"])
    assert refused.exit_code == 2
    assert "has no option ja; use yes, no" in refused.stderr
