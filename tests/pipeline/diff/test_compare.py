from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.output.tables import DIFF_SUMMARY, DIFFS
from tests.pipeline.diff.cases import JEVBENCH, compared, items, two_runs
from tests.pipeline.synthetic import decision, write_run


def diffs_of(output: Path) -> pa.Table:
    files = sorted(output.glob("diffs/**/*.parquet"))
    tables = [pq.read_table(f, partitioning=None) for f in files]
    return pa.concat_tables(tables).sort_by([(k, "ascending") for k in DIFFS.keys])


@pytest.mark.parametrize(
    ("changed", "low", "high", "testable"),
    [
        (0, 0.0, 0.0164, False),
        (2, 0.0024, 0.0310, False),
        (4, 0.0068, 0.0437, False),
        (10, 0.0237, 0.0778, True),
    ],
)
def test_the_published_counts_of_231_decisions(
    tmp_path: Path, changed: int, low: float, high: float, testable: bool
) -> None:
    out = str(tmp_path)
    runs = two_runs(out, items(JEVBENCH), items(JEVBENCH, flipped=range(changed)))
    overall = compared(out, runs).overall
    assert (overall["pairs"], overall["flips"]) == (231, changed)
    assert round(overall["flip_rate_low"], 4) == low
    assert round(overall["flip_rate_high"], 4) == high
    assert overall["flip_rate_cluster_low"] <= overall["flip_rate"]
    assert overall["verdict"] == ("moved" if changed else "same")
    assert (overall["fixes"], overall["breaks"]) == (0, changed)
    if testable:
        assert overall["mcnemar_p"] == pytest.approx(2 * 0.5**10)
    else:
        assert overall["mcnemar_p"] is None
        assert f"not testable: {changed} discordant" in overall["mcnemar_note"]


def test_every_row_of_diffs(tmp_path: Path) -> None:
    out = str(tmp_path)
    first = [
        decision("c1", "q", {"a": 0.6, "b": 0.3, "c": 0.1}, gold="a", batch_reads=1),
        decision("c1", "s", {"0": 0.5, "1": 0.3, "2": 0.2}, question_type="score"),
        decision("c2", "q", {"a": 0.6, "b": 0.3, "c": 0.1}),
    ]
    second = [
        decision("c1", "q", {"a": 0.2, "b": 0.7, "c": 0.1}, gold="a", single_pass=False),
        decision("c1", "s", {"0": 0.4, "1": 0.3, "2": 0.3}, question_type="score"),
        decision("c3", "q", {"a": 1.0, "b": 0.0, "c": 0.0}),
    ]
    compared(out, two_runs(out, first, second))
    table = diffs_of(tmp_path)
    assert table.schema.equals(DIFFS.schema)
    flip, same, gone, new = table.to_pylist()
    assert flip["changed"] is True
    assert (flip["baseline_decision"], flip["candidate_decision"]) == ("a", "b")
    assert flip["baseline_margin"] == pytest.approx(0.3)
    assert flip["candidate_margin"] == pytest.approx(0.5)
    assert flip["total_variation"] == pytest.approx(0.4)
    assert flip["max_abs_delta"] == pytest.approx(0.4)
    middle = [0.4, 0.5, 0.1]
    expected = sum(
        0.5 * p * math.log(p / m)
        for side in ([0.6, 0.3, 0.1], [0.2, 0.7, 0.1])
        for p, m in zip(side, middle, strict=True)
    )
    assert flip["jensen_shannon"] == pytest.approx(expected)
    assert (flip["baseline_correct"], flip["candidate_correct"]) == (True, False)
    assert (flip["baseline_single_pass"], flip["candidate_single_pass"]) == (True, False)
    assert (flip["baseline_batch_reads"], flip["candidate_batch_reads"]) == (1, 16)
    assert flip["flip_class"] is None
    assert flip["delta_expected_score"] is None
    assert same["changed"] is False
    assert same["delta_expected_score"] == pytest.approx(0.2)
    assert (gone["status"], gone["candidate_decision"]) == ("baseline_only", None)
    assert (new["status"], new["baseline_decision"]) == ("candidate_only", None)
    assert gone["changed"] is None
    assert gone["total_variation"] is None


def test_one_sided_decisions_are_counted_and_not_compared(tmp_path: Path) -> None:
    out = str(tmp_path)
    result = compared(out, two_runs(out, items(20)[:15], items(20)[5:]))
    assert result.overall["pairs"] == 10
    assert result.overall["baseline_only"] == 5
    assert result.overall["candidate_only"] == 5
    assert diffs_of(tmp_path).num_rows == 20


def test_runs_cut_into_other_parts_give_the_same_result(tmp_path: Path) -> None:
    """Conversations are found again, and no figure depends on how rows are spread over parts."""
    results = []
    for name, parts in (("same", (3, 3, 3)), ("moved", (1, 4, 7))):
        out = str(tmp_path / name)
        base, noise, cand = (
            write_run(out, rows, run_id=run_id, build=build, parts=n)
            for rows, run_id, build, n in zip(
                (items(90), items(90, flipped=[40]), items(90, flipped=range(30, 40))),
                ("base", "noise", "cand"),
                ("baseline", "baseline", "single_pass"),
                parts,
                strict=True,
            )
        )
        result = compared(out, [base, cand], noise=noise)
        assert not list((tmp_path / name).glob("_comparisons/*.spill"))
        results.append((result.model_dump(exclude={"sides", "made_at"}), diffs_of(tmp_path / name)))
    assert results[0][0] == results[1][0]
    assert results[0][1].equals(results[1][1])


def test_the_repeat_sets_floor_and_near_ties(tmp_path: Path) -> None:
    """The repeat moves every probability by 0.01, which turns decisions of margin 0.002 around."""
    out = str(tmp_path)

    def moved(by: float, far: bool = False) -> list:
        rows = []
        for i in range(100):
            yes = 0.501 if i < 10 else 0.8
            if far and i >= 95:
                yes = 0.1
            rows.append(decision(f"c{i}", "q", {"yes": yes - by, "no": 1 - yes + by}))
        return rows

    base, cand = two_runs(out, moved(0), moved(0.005, far=True))
    noise = write_run(out, moved(0.01)[:5] + moved(0)[5:], run_id="noise", build="baseline")
    overall = compared(out, [base, cand], noise=noise).overall
    assert overall["near_tie_margin"] == pytest.approx(0.02, rel=0.03)
    assert overall["flips"] == 15
    assert (overall["near_tie_flips"], overall["substantive_flips"]) == (10, 5)
    assert (overall["noise_flips"], overall["noise_floor"]) == (5, 0.05)
    assert (overall["candidate_only_flips"], overall["noise_only_flips"]) == (10, 0)
    assert overall["above_floor"] == pytest.approx(0.1)
    assert 0 < overall["above_floor_low"] < 0.1 < overall["above_floor_high"]
    assert overall["verdict"] == "moved"


def test_no_more_flips_than_the_repeat_is_undecided(tmp_path: Path) -> None:
    out = str(tmp_path)
    base, cand = two_runs(out, items(90), items(90, flipped=[30, 31]))
    noise = write_run(out, items(90, flipped=[32]), run_id="noise", build="baseline")
    overall = compared(out, [base, cand], noise=noise).overall
    assert overall["verdict"] == "undecided"
    assert "a repeat of the baseline changed 1 of 90" in overall["verdict_reason"]


def test_the_fp32_spread_makes_near_ties(tmp_path: Path) -> None:
    out = str(tmp_path)
    base, cand = two_runs(out, items(90), items(90, flipped=[0, 30]))
    exact = [decision(r.decision["conversation_id"], "relevant", {"yes": 0.49, "no": 0.51})
             if r.decision["probability"] == 0.501 else r for r in items(90)]  # fmt: skip
    fp32 = write_run(out, exact, run_id="exact", build="fp32", build_settings={"dtype": "float32"})
    result = compared(out, [base, cand], fp32=fp32)
    assert result.overall["near_tie_margin"] == pytest.approx(0.022, rel=0.03)
    assert [f["flip_class"] for f in result.flips] == ["substantive", "near_tie"]
    assert [f["fp32_decision"] for f in result.flips] == ["yes", "no"]


def test_flips_behind_a_flip_are_cascades(tmp_path: Path) -> None:
    """Later questions quote earlier answers, so their prompts differ once one flips."""
    out = str(tmp_path)

    def case(first: float, later: float, prompt: str) -> list:
        return [
            decision("c1", "first", {"yes": first, "no": 1 - first}),
            decision("c1", "later", {"yes": later, "no": 1 - later}, prompt_sha256=prompt),
        ]

    result = compared(out, two_runs(out, case(0.9, 0.9, "p1"), case(0.1, 0.1, "p2"), parts=1))
    assert result.overall["cascade_flips"] == 1
    by_question = {f["question_id"]: f["flip_class"] for f in result.flips}
    assert by_question == {"first": None, "later": "cascade"}


def test_a_question_asked_on_one_side_only_differs(tmp_path: Path) -> None:
    out = str(tmp_path)
    skipped = {"decision": None, "decision_index": None, "probability": None, "margin": None}
    asked = decision("c1", "later", {"yes": 0.9, "no": 0.1})
    not_asked = decision("c1", "later", {"yes": 0.9, "no": 0.1}, **skipped, skipped_because="first")
    neither = type(not_asked)(not_asked.decision | {"conversation_id": "c2"}, ())
    first = decision("c1", "first", {"yes": 0.9, "no": 0.1})
    flipped = decision("c1", "first", {"yes": 0.1, "no": 0.9})
    result = compared(
        out,
        two_runs(
            out,
            [first, asked, neither],
            [flipped, type(not_asked)(not_asked.decision, ()), neither],
            parts=1,
        ),
    )
    assert result.overall["pairs"] == 2, "a question asked on neither side is no pair"
    assert result.overall["flips"] == 2
    row = diffs_of(tmp_path).to_pylist()[1]
    assert (row["candidate_decision"], row["flip_class"]) == (None, "cascade")
    assert row["total_variation"] is None


def test_gold_figures_are_those_of_plain_formulas(tmp_path: Path) -> None:
    out = str(tmp_path)
    rng = np.random.default_rng(0)
    p = rng.dirichlet([1, 1, 1], (2, 300))
    gold = rng.integers(0, 3, 300)
    rows = [
        [
            decision(f"c{i}", "q", dict(zip("abc", map(float, side[i]), strict=True)),
                     gold="abc"[gold[i]])
            for i in range(300)
        ]
        for side in p
    ]  # fmt: skip
    result = compared(out, two_runs(out, *rows))
    overall = result.overall
    y = np.eye(3)[gold]
    brier = ((p - y) ** 2).sum(axis=2).mean(axis=1)
    loss = -np.log(p[:, np.arange(300), gold]).mean(axis=1)
    right = p.argmax(axis=2) == gold
    assert overall["delta_brier"] == pytest.approx(brier[1] - brier[0], abs=1e-8)
    assert overall["delta_log_loss"] == pytest.approx(loss[1] - loss[0], abs=1e-8)
    assert overall["delta_accuracy"] == pytest.approx(right[1].mean() - right[0].mean())
    assert overall["baseline_accuracy"] == pytest.approx(right[0].mean())
    ece = []
    for side in (0, 1):
        top = p[side].max(axis=1)
        bins = np.minimum((top * 10).astype(int), 9)
        ece.append(sum(abs((top - right[side])[bins == b].sum()) for b in range(10)) / 300)
    assert overall["delta_ece"] == pytest.approx(ece[1] - ece[0], abs=1e-8)
    for name in ("accuracy", "brier", "log_loss", "ece"):
        low, value, high = (overall[f"delta_{name}{e}"] for e in ("_low", "", "_high"))
        assert low < value < high
    assert sum(b.count for b in result.calibration[0]) == 300


def test_summary_table_and_record_agree(tmp_path: Path) -> None:
    out = str(tmp_path)
    rows = items(60) + [decision(f"c{i:04d}", "tone", {"a": 0.9, "b": 0.1}) for i in range(60)]
    other = items(60, flipped=range(8)) + rows[60:]
    result = compared(out, two_runs(out, rows, other))
    (file,) = tmp_path.glob("diff_summary/**/*.parquet")
    table = pq.read_table(file, partitioning=None)
    assert table.schema.equals(DIFF_SUMMARY.schema)
    assert table.to_pylist() == [result.overall, *result.questions]
    assert [r["flips"] for r in result.questions] == [8, 0]
    assert result.overall["conversations"] == 60
    tested = [r["mcnemar_p_adjusted"] for r in result.questions]
    assert tested == [result.questions[0]["mcnemar_p"], None]


def test_comparing_again_replaces_what_was_there(tmp_path: Path) -> None:
    out = str(tmp_path)
    runs = two_runs(out, items(20), items(20, flipped=[1]))
    first = compared(out, runs)
    stray = next(tmp_path.glob("diffs/**/*.parquet")).with_name("part-stray.parquet")
    stray.write_bytes(b"left by another version")
    assert compared(out, runs).model_copy(update={"made_at": first.made_at}) == first
    assert not stray.exists()


def test_parts_without_decisions_harm_nothing(tmp_path: Path) -> None:
    out = str(tmp_path)
    overall = compared(out, two_runs(out, items(1), items(1), parts=3)).overall
    assert (overall["pairs"], overall["flips"], overall["breaks"]) == (1, 0, 0)
