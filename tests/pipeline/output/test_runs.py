from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from pipeline.output.runs import RunKey, RunNotFoundError, find_run, list_runs
from tests.pipeline.synthetic import STARTED, decision, write_run


def two_decisions() -> list:
    return [
        decision("c1", "topic", {"billing": 0.7, "symptoms": 0.3}, gold="billing"),
        decision("c2", "topic", {"billing": 0.2, "symptoms": 0.8}, gold="billing"),
    ]


def test_a_complete_run_is_found_with_its_files_and_row(tmp_path: Path) -> None:
    out = str(tmp_path)
    write_run(out, two_decisions(), run_id="r1", parts=2)
    run = find_run(out, "r1")
    assert run.status == "complete"
    assert run.key == RunKey("2026-01-02", "baseline", "r1")
    assert [Path(f).name for f in run.files("decisions")] == [
        "part-shard-00000.parquet",
        "part-shard-00001.parquet",
    ]
    assert sum(pq.read_metadata(f).num_rows for f in run.files("decisions")) == 2
    assert run.row["started_at"] == STARTED
    assert run.row["seconds"] == 60.0
    (row,) = pq.read_table(run.files("runs")[0], partitioning=None).to_pylist()
    assert row == run.row


def test_runs_are_picked_by_id_prefix_build_and_latest(tmp_path: Path) -> None:
    out = str(tmp_path)
    later = STARTED + timedelta(hours=1)
    write_run(out, two_decisions(), run_id="alpha", build="fp32", started_at=later)
    write_run(out, two_decisions(), run_id="beta", build="flag_off")
    assert [r.run_id for r in list_runs(out)] == ["beta", "alpha"]
    assert find_run(out, "latest").run_id == "alpha"
    assert find_run(out, "flag_off").run_id == "beta"
    assert find_run(out, "al").run_id == "alpha"


def test_an_unfinished_run_is_named_as_such_and_never_latest(tmp_path: Path) -> None:
    out = str(tmp_path)
    write_run(out, two_decisions(), run_id="done")
    later = STARTED + timedelta(hours=1)
    write_run(out, two_decisions(), run_id="open", finish=False, started_at=later)
    assert find_run(out, "latest").run_id == "done"
    assert [r.run_id for r in list_runs(out)] == ["done"]
    assert [r.status for r in list_runs(out, status=None)] == ["complete", "unfinished"]
    with pytest.raises(RunNotFoundError, match="unfinished; finish it with"):
        find_run(out, "open")


def test_an_unknown_name_lists_what_there_is(tmp_path: Path) -> None:
    out = str(tmp_path)
    with pytest.raises(RunNotFoundError, match="complete runs: none"):
        find_run(out, "latest")
    write_run(out, two_decisions(), run_id="run-a")
    write_run(out, two_decisions(), run_id="run-b")
    with pytest.raises(RunNotFoundError, match=r"several runs start with 'run'.*run-a"):
        find_run(out, "run")
    with pytest.raises(RunNotFoundError, match="no complete run called 'x'"):
        find_run(out, "x")
