from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from pipeline.diff.gate import Check, judge, load_gate, met
from pipeline.diff.gate_output import junit, markdown
from pipeline.diff.result import Comparison
from pipeline.yaml_files import ConfigError
from tests.pipeline.diff.cases import compared, items, two_runs
from tests.pipeline.synthetic import decision, write_run


def gate_file(folder: Path, text: str) -> str:
    path = folder / "gate.yaml"
    path.write_text(text, encoding="utf-8")
    return str(path)


@pytest.fixture(scope="module")
def moved(tmp_path_factory: pytest.TempPathFactory) -> Comparison:
    """6 of 600 decisions flip, 2 of them in the repeat too; one question of two is untouched."""
    folder = tmp_path_factory.mktemp("moved")
    out = str(folder)
    calm = [decision(f"c{i:04d}", "tone", {"calm": 0.9, "angry": 0.1}) for i in range(600)]
    base, cand = two_runs(out, items(600) + calm, items(600, flipped=range(6)) + calm)
    noise = write_run(out, items(600, flipped=range(2)) + calm, run_id="noise", build="baseline")
    return compared(out, [base, cand], noise=noise)


def judged(folder: Path, comparison: Comparison, text: str) -> list[Check]:
    return judge(load_gate(gate_file(folder, text)), comparison)


def test_a_budget_above_the_upper_bound_is_met(tmp_path: Path, moved: Comparison) -> None:
    (check,) = judged(tmp_path, moved, "flips: {budget: 0.02}")
    assert check.status == "passed"
    assert "flip rate above the floor 0.33%" in check.detail


def test_a_rate_above_the_budget_fails(tmp_path: Path, moved: Comparison) -> None:
    (check,) = judged(tmp_path, moved, "flips: {budget: 0.003}")
    assert check.status == "failed"
    assert check.needed is None


def test_a_sample_too_small_says_how_large_it_has_to_be(tmp_path: Path, moved: Comparison) -> None:
    (check,) = judged(tmp_path, moved, "flips: {budget: 0.005}")
    assert check.status == "undecided"
    assert check.needed is not None
    assert check.needed > 1200
    assert f"about {check.needed:,} decisions would decide" in check.detail
    assert not met([check])


def test_no_flip_in_299_decisions_meets_one_percent_and_298_do_not(tmp_path: Path) -> None:
    """One-sided 95%: the exact bound, not an approximation."""
    for n, status in ((310, "passed"), (290, "undecided")):
        out = str(tmp_path / str(n))
        result = compared(out, two_runs(out, items(n), items(n)))
        (check,) = judged(tmp_path, result, "flips: {budget: 0.01}")
        assert check.status == status
        if status == "undecided":
            assert check.needed == 299


def test_questions_have_budgets_of_their_own(tmp_path: Path, moved: Comparison) -> None:
    text = "flips: {questions: {triage/tone: 0.01, triage/relevant: 0.01, triage/absent: 0.5}}"
    checks = judged(tmp_path, moved, text)
    assert [c.status for c in checks] == ["passed", "undecided", "failed"]
    assert "question triage/absent is not in these runs" in checks[2].detail


def test_protected_questions_have_no_substantive_flip(tmp_path: Path, moved: Comparison) -> None:
    text = "protected: [triage/tone, triage/relevant]"
    assert [c.status for c in judged(tmp_path, moved, text)] == ["passed", "failed"]
    moved = moved.model_copy(deep=True)
    moved.questions[0]["substantive_flips"] = 0
    assert [c.status for c in judged(tmp_path, moved, text)] == ["passed", "passed"]
    moved.questions[0]["substantive_flips"] = None
    (check,) = judged(tmp_path, moved, "protected: [triage/relevant]")
    assert check.status == "undecided"
    assert "--noise or --fp32" in check.detail


def test_accuracy_may_not_drop_by_the_margin(tmp_path: Path, moved: Comparison) -> None:
    statuses = [
        judged(tmp_path, moved, f"accuracy: {{margin: {margin}}}")[0].status
        for margin in (0.03, 0.012, 0.005)
    ]
    assert statuses == ["passed", "undecided", "failed"]


def test_accuracy_needs_gold(tmp_path: Path, moved: Comparison) -> None:
    moved = moved.model_copy(deep=True)
    moved.overall["gold_pairs"] = None
    (check,) = judged(tmp_path, moved, "accuracy: {margin: 0.02}")
    assert check.status == "undecided"
    assert "no gold" in check.detail


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{}", "checks nothing"),
        ("flips: {budget: 2}", "flips.budget"),
        ("flips: {}", "give a budget"),
        ("flips: {questions: {a/b: 3}}", "budget 3.0 of a/b must be between 0 and 1"),
        ("flip: {budget: 0.1}", "flip: unknown key"),
        ("accuracy: {margin: 0.1}\nconfidence: 0.2", "confidence"),
    ],
)
def test_a_gate_that_makes_no_sense(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        load_gate(gate_file(tmp_path, text))


def test_gates_that_ship() -> None:
    for name in ("release", "strict"):
        assert load_gate(name).flips is not None
    with pytest.raises(ConfigError, match="none ships by that name; use release, strict or a path"):
        load_gate("absent")


def test_junit_and_markdown(tmp_path: Path, moved: Comparison) -> None:
    checks = judged(
        tmp_path,
        moved,
        "flips: {budget: 0.005}\nprotected: [triage/tone]\naccuracy: {margin: 0.03}",
    )
    suite = ElementTree.fromstring(junit(moved, checks)).find("testsuite")
    assert suite is not None
    assert (suite.get("tests"), suite.get("failures")) == ("3", "1")
    (failure,) = suite.iter("failure")
    assert failure.get("type") == "undecided"
    assert "would decide" in str(failure.text)
    text = markdown(moved, checks)
    assert text.startswith("### Decisions: undecided\n")
    assert "**Gate not met**" in text
    assert "| triage/relevant | 6 | 600 | 1.00% |" in text
    assert "triage/tone |" not in text.split("floor |")[1], "a question without flips is left out"
    assert "Gate" not in markdown(moved, [])
