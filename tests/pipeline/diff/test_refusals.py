from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.diff.survey import ALLOWED
from tests.pipeline.diff.cases import compared, items, refused, two_runs
from tests.pipeline.synthetic import decision


def nothing_left(folder: Path) -> bool:
    return not [
        p
        for name in ("diffs", "diff_summary", "_comparisons")
        for p in folder.glob(f"{name}/**/*")
        if p.is_file()
    ]


@pytest.mark.parametrize(
    ("change", "allow", "says"),
    [
        ({"rubric_version": "2"}, "rubric", "rubric triage: version 1 in run base, 2 in run cand"),
        ({"dialect": "compact"}, "dialect", "dialect lines in run base, compact in run cand"),
        ({"canvas_sha256": "x"}, "canvas", "30 decisions were read from another canvas"),
        ({"prompt_sha256": "x"}, "prompt", "30 decisions were read from another prompt"),
    ],
)
def test_runs_that_were_not_asked_the_same(
    tmp_path: Path, change: dict[str, str], allow: str, says: str
) -> None:
    out = str(tmp_path)
    runs = two_runs(out, items(30), items(30, flipped=[3], **change))
    problem = refused(out, runs)
    assert says in problem
    assert f"say --allow {allow}" in problem
    assert nothing_left(tmp_path)
    result = compared(out, runs, allow=[allow])
    assert result.overall["flips"] == 1
    assert says in result.differing[0]


def test_allowing_one_difference_does_not_allow_another(tmp_path: Path) -> None:
    out = str(tmp_path)
    runs = two_runs(out, items(9), items(9, prompt_sha256="x", canvas_sha256="y"))
    assert "another canvas" in refused(out, runs, allow=["prompt"])
    compared(out, runs, allow=["dialect"])  # which cannot but differ in canvas and prompt


def test_every_difference_allows_itself() -> None:
    assert all(name in implied for name, implied in ALLOWED.items())


def test_options_that_differ_can_never_be_compared(tmp_path: Path) -> None:
    out = str(tmp_path)
    other = [decision(f"c{i:04d}", "relevant", {"yes": 0.9, "maybe": 0.1}) for i in range(9)]
    problem = refused(out, two_runs(out, items(9), other), allow=list(ALLOWED))
    assert "9 decisions have other options in run cand than in run base" in problem


@pytest.mark.parametrize("wrong", [float("nan"), float("inf"), 0.2])
def test_probabilities_that_are_none(tmp_path: Path, wrong: float) -> None:
    out = str(tmp_path)
    rows = items(20)
    rows[7].options[0]["probability"] = wrong
    problem = refused(out, two_runs(out, items(20), rows))
    assert "run cand: 1 decisions have probabilities that are not finite or do not sum to 1" in (
        problem
    )
    assert "conversation 'c0007', question triage/relevant" in problem
    assert nothing_left(tmp_path)


def test_nothing_in_common(tmp_path: Path) -> None:
    out = str(tmp_path)
    other = [decision(f"d{i}", "relevant", {"yes": 0.9, "no": 0.1}) for i in range(5)]
    problem = refused(out, two_runs(out, items(9), other))
    assert "the runs have no decision in common" in problem
    assert "run base has 9 of triage" in problem


def test_every_problem_is_reported_at_once(tmp_path: Path) -> None:
    out = str(tmp_path)
    rows = items(20, rubric_version="2", dialect="compact")
    rows[7].options[0]["probability"] = float("nan")
    problem = refused(out, two_runs(out, items(20), rows))
    assert len(problem.splitlines()) == 3


def test_a_prompt_that_follows_from_a_flip_is_no_difference(tmp_path: Path) -> None:
    out = str(tmp_path)

    def rows(flip: bool) -> list:
        found = []
        for i in range(10):
            turned = flip and i == 0
            yes = 0.1 if turned else 0.9
            found.append(decision(f"c{i}", "first", {"yes": yes, "no": 1 - yes}))
            found.append(
                decision(f"c{i}", "later", {"yes": 0.9, "no": 0.1}, prompt_sha256=f"p{turned}")
            )
        return found

    compared(out, two_runs(out, rows(False), rows(True), parts=1))
    changed = rows(True)
    changed[5].decision["prompt_sha256"] = "something else"
    problem = refused(out, two_runs(out, rows(False), changed, parts=1))
    assert "rubric triage: 1 decisions were read from another prompt" in problem
