from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest
from typer.testing import CliRunner

from pipeline.cli import app
from tests.pipeline.diff.cases import items, two_runs
from tests.pipeline.synthetic import write_run

run = CliRunner()


@pytest.fixture
def out(tmp_path: Path) -> str:
    """A folder with a baseline, its repeat and a candidate with 10 flips of 231."""
    output = str(tmp_path / "out")
    two_runs(output, items(231), items(231, flipped=range(10)))
    write_run(output, items(231), run_id="again", build="baseline", parts=2)
    return output


def diff(out: str, *arguments: str) -> tuple[int, str, str]:
    result = run.invoke(app, ["diff", "--output", out, *arguments])
    return result.exit_code, result.stdout, result.stderr


def test_the_verdict_comes_first(out: str) -> None:
    code, shown, _ = diff(out, "base", "single_pass", "--noise", "again")
    assert code == 0
    first = " ".join(shown.split())
    assert first.startswith("MOVED 10 of 231 decisions changed (4.33%, 95% interval 2.3")
    assert "a repeat of the baseline changed 0 of 231, demonstrably fewer" in first
    assert "not testable" not in first
    assert "c0000" in shown


def test_json_holds_what_was_found(out: str) -> None:
    code, shown, _ = diff(out, "base", "cand", "--json")
    found = json.loads(shown)
    assert code == 0
    assert found["overall"]["flips"] == 10
    assert len(found["flips"]) == 10
    assert "gate" not in found


def test_a_gate_decides_the_exit_code(out: str, tmp_path: Path) -> None:
    files = ["--junit", str(tmp_path / "gate.xml"), "--markdown", str(tmp_path / "gate.md")]
    code, shown, _ = diff(out, "base", "cand", "--noise", "again", "--gate", "release", *files)
    assert code == 1
    assert "Gate not met" in shown
    assert ElementTree.parse(tmp_path / "gate.xml").getroot().find(".//failure") is not None
    assert "**Gate not met**" in (tmp_path / "gate.md").read_text(encoding="utf-8")
    wide = tmp_path / "wide.yaml"
    wide.write_text("flips: {budget: 0.2}", encoding="utf-8")
    code, shown, _ = diff(out, "base", "cand", "--gate", str(wide), "--json")
    assert code == 0
    assert json.loads(shown)["gate"]["met"] is True


def test_runs_are_found_by_folder_too(out: str) -> None:
    folders = [
        f"{out}/_runs/base",
        f"{out}/decisions/run_date=2026-01-02/build=single_pass/run_id=cand/",
    ]
    code, shown, _ = diff("elsewhere/out", *folders, "--json")
    assert code == 0
    assert json.loads(shown)["overall"]["pairs"] == 231


def test_a_run_against_itself_is_the_same(out: str) -> None:
    code, shown, _ = diff(out, "cand", "single_pass")
    assert code == 0
    assert shown == "Baseline and candidate are the same run, cand: none of 231 differs.\n"
    assert json.loads(diff(out, "cand", "cand", "--json")[1])["verdict"] == "same"


def test_factors_take_more_runs(out: str) -> None:
    code, shown, _ = diff(out, "base", "cand", "again", "--factors")
    assert code == 0
    assert "Pairs of runs" in shown
    assert "nothing (repeat)" in shown


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["base", "nothing"], "no complete run called 'nothing'; complete runs: "),
        (["base", "open"], "run open is unfinished; finish it with `onepass run --resume`"),
        (["base"], "give two runs: BASELINE CANDIDATE"),
        (["base", "cand", "again"], "3 runs given; diff compares two, or more with --factors"),
        (["base", "cand", "--noise", "base"], "run base is the baseline itself"),
        (["base", "cand", "--noise", "wide"], "run wide is no repeat of the baseline base"),
        (["base", "cand", "--fp32", "again"], "run again is not an fp32 run: its dtype is None"),
        (["base", "cand", "cand", "--factors"], "run cand is given twice"),
        (["base", "cand", "--gate", "absent"], "gate absent: none ships by that name"),
        (["base", "cand", "--junit", "x.xml"], "--junit reports a gate's checks"),
        (["base", "cand", "--nonsense=1"], "--nonsense=1: neither an option of `onepass diff` nor"),
        (["base", "other"], "the runs have no decision in common"),
    ],
)
def test_what_cannot_be_compared(out: str, arguments: list[str], problem: str) -> None:
    write_run(out, items(9), run_id="open", build="open", finish=False)
    write_run(out, items(9), run_id="wide", build="w", build_settings={"max_num_seqs": 99})
    elsewhere = items(9)
    for row in elsewhere:
        row.decision["conversation_id"] += "x"
        for option in row.options:
            option["conversation_id"] += "x"
    write_run(out, elsewhere, run_id="other", build="other")
    code, shown, said = diff(out, *arguments)
    assert code == 2
    assert shown == ""
    assert problem in said
    assert "Traceback" not in said
    assert problem in "\n".join(json.loads(diff(out, *arguments, "--json")[1])["refused"])
