"""Conversations that are not independent of each other: the bootstrap resamples whole groups."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from pipeline.diff.result import Comparison
from tests.pipeline.diff.cases import compared, items, two_runs
from tests.pipeline.diff.test_compare import diffs_of
from tests.pipeline.synthetic import Decided, decision, write_run

GROUPS, SIZE = 60, 5
COUNT = GROUPS * SIZE

GroupOf = Callable[[int], str | None]


def in_fives(i: int) -> str:
    """Conversations of one group lie far apart, so that they fall into different parts."""
    return f"g{i % GROUPS:02d}"


def rows(
    flipped: Collection[int] = (), group: GroupOf = in_fives, questions: int = 1
) -> list[Decided]:
    """Yes/no decisions with gold "yes", one after another for each conversation."""
    found = []
    for i in range(COUNT):
        yes = 0.3 if i in flipped else 0.8
        found += [
            decision(f"c{i:04d}", f"q{q}", {"yes": yes, "no": 1 - yes}, gold="yes",
                     conversation_group=group(i))
            for q in range(questions)
        ]  # fmt: skip
    return found


TOGETHER = [i for i in range(COUNT) if i % GROUPS < 12]
"""All conversations of 12 of the 60 groups: decisions of a group flip together, or not at all."""


def figures(result: Comparison) -> dict[str, object]:
    return result.model_dump(exclude={"sides", "made_at"})


def width(result: Comparison, name: str) -> float:
    return float(result.overall[f"{name}_high"] - result.overall[f"{name}_low"])


def test_groups_that_flip_together_widen_every_interval(tmp_path: Path) -> None:
    """Five decisions that move as one carry as much as one, so intervals are √5 as wide."""
    found = []
    for name, group in (("alone", lambda _: None), ("grouped", in_fives)):
        out = str(tmp_path / name)
        found.append(compared(out, two_runs(out, rows(group=group), rows(TOGETHER, group))))
    alone, grouped = found
    assert (alone.overall["clusters"], alone.overall["conversations"]) == (COUNT, COUNT)
    assert (grouped.overall["clusters"], grouped.overall["conversations"]) == (GROUPS, COUNT)
    assert alone.overall["flip_rate"] == grouped.overall["flip_rate"] == 0.2
    assert alone.overall["design_effect"] == pytest.approx(1, abs=0.15)
    assert grouped.overall["design_effect"] == pytest.approx(SIZE, rel=0.15)
    for name in ("flip_rate_cluster", "delta_accuracy", "delta_brier", "delta_log_loss",
                 "delta_ece"):  # fmt: skip
        assert width(grouped, name) / width(alone, name) == pytest.approx(SIZE**0.5, rel=0.15)
    (pair,) = grouped.attribution.pairs
    overall = grouped.overall
    assert (pair.low, pair.high) == (
        overall["flip_rate_cluster_low"],
        overall["flip_rate_cluster_high"],
    )


def test_no_flip_in_few_groups_excludes_little(tmp_path: Path) -> None:
    out = str(tmp_path)
    overall = compared(out, two_runs(out, rows(), rows())).overall
    assert overall["flip_rate_cluster_high"] > 3 / GROUPS
    assert overall["design_effect"] == SIZE


def test_it_does_not_matter_how_groups_are_spread(tmp_path: Path) -> None:
    """Over parts of the runs, over buckets of what is left over, or over both.

    The repeat lacks a question of some conversations, which must not count as two clusters.
    """
    here = rows(questions=2)
    lacking = [r for n, r in enumerate(rows([7], questions=2)) if n % 40 != 1]
    found = []
    for name, cut in (("whole", (1, 1, 1)), ("parts", (4, 4, 4)), ("moved", (2, 3, 7))):
        out = str(tmp_path / name)
        base, noise, cand = (
            write_run(out, decided, run_id=run_id, build=build, parts=n)
            for decided, run_id, build, n in zip(
                (here, lacking, rows(TOGETHER, questions=2)),
                ("base", "noise", "cand"),
                ("baseline", "baseline", "single_pass"),
                cut,
                strict=True,
            )
        )
        found.append(figures(compared(out, [base, cand], noise=noise)))
    assert found[0]["overall"]["clusters"] == GROUPS
    assert found[0]["overall"]["conversations"] == COUNT
    assert found[0] == found[1] == found[2]


def test_buckets_spread_groups_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for size in (20_000, 100):
        monkeypatch.setattr("pipeline.diff.leftovers.BUCKET_DECISIONS", size)
        out = str(tmp_path / str(size))
        base = write_run(out, rows(), run_id="base", parts=1)
        cand = write_run(out, rows(TOGETHER), run_id="cand", build="single_pass", parts=3)
        found.append(figures(compared(out, [base, cand])))
    assert len(list(tmp_path.glob("100/diffs/**/part-moved-*.parquet"))) == COUNT / 100
    assert found[0] == found[1]


def test_groups_of_one_are_as_many_clusters_as_conversations(tmp_path: Path) -> None:
    """A group that is called like some conversation is not that conversation."""
    out = str(tmp_path)

    def group(i: int) -> str | None:
        return f"c{i + 1:04d}" if i % 2 else None

    overall = compared(out, two_runs(out, rows(group=group), rows(TOGETHER, group))).overall
    assert overall["clusters"] == COUNT
    assert overall["design_effect"] == pytest.approx(1, abs=0.2)


def test_the_baseline_says_what_the_groups_are(tmp_path: Path) -> None:
    out = str(tmp_path)

    def other(i: int) -> str:
        return f"h{i}"

    result = compared(out, two_runs(out, rows(), rows(TOGETHER, other)))
    assert result.overall["clusters"] == GROUPS
    assert set(diffs_of(tmp_path)["conversation_group"].to_pylist()) == {
        in_fives(i) for i in range(GROUPS)
    }


def test_figures_without_groups(tmp_path: Path) -> None:
    """Those of every release so far; and a run whose files have no column for groups is one."""
    out = str(tmp_path)
    runs = [
        write_run(out, decided, run_id=run_id, build=build, parts=3)
        for decided, run_id, build in (
            (items(90), "base", "baseline"),
            (items(90, flipped=range(30, 40)), "cand", "single_pass"),
            (items(90, flipped=[40]), "noise", "baseline"),
        )
    ]
    for file in tmp_path.glob("decisions/**/run_id=base/*.parquet"):
        table = pq.read_table(file, partitioning=None)
        pq.write_table(table.drop_columns("conversation_group"), file)
    overall = compared(out, runs[:2], noise=runs[2]).overall
    assert {name: overall[name] for name in EARLIER} == pytest.approx(EARLIER, rel=1e-12)
    assert overall["clusters"] == overall["conversations"] == 90


EARLIER = {
    "design_effect": 1.0,
    "flip_rate_cluster_low": 0.060988691673689435,
    "flip_rate_cluster_high": 0.19391894712913949,
    "above_floor_low": 0.027995468917486777,
    "above_floor_high": 0.1835775701258911,
    "delta_accuracy_low": -0.19391894712913949,
    "delta_accuracy_high": -0.04570252985363883,
    "delta_brier_low": 0.00020499998587183665,
    "delta_brier_high": 0.0007111550665002549,
    "delta_log_loss_low": 0.00020500027225352837,
    "delta_log_loss_high": 0.0007111560599724747,
    "delta_ece_low": -0.1702505502539604,
    "delta_ece_high": -0.05125000000000001,
}
