"""The decide pipeline, shards to tables, with the fake engine."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from engine.builds import Build
from engine.fake import FakeEngine
from pipeline.deciding.inference import EngineSource
from pipeline.jobs.running import prepare
from pipeline.output.runs import Run, list_runs
from pipeline.yaml_files import ConfigError
from rubrics.model import Rubric, load_rubric
from tests.pipeline.sample_jobs import (
    CHAINED,
    FAKE,
    conversation,
    decide,
    fake_engine,
    make_job,
    noon,
    rows,
    table_bytes,
    write_shard,
)

MULTI_PROCESSING = ("--direct_running_mode=multi_processing", "--direct_num_workers=2")


def two_shards(folder: Path) -> None:
    """62 records: 60 conversations, one broken line, one duplicate id."""
    write_shard(folder / "in" / "a.jsonl", [*(conversation(i) for i in range(30)), "broken"])
    write_shard(
        folder / "in" / "b.jsonl", [*(conversation(100 + i) for i in range(30)), conversation(3)]
    )


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Run]:
    """A folder with two shards, and a run over it."""
    folder = tmp_path_factory.mktemp("undisturbed")
    two_shards(folder)
    return folder, decide(make_job(folder, [load_rubric("triage"), CHAINED], records_per_part=8))


def test_counts_reconcile_and_every_group_sums_to_one(undisturbed: tuple[Path, Run]) -> None:
    _, run = undisturbed
    assert run.status == "complete"
    row = run.row
    assert (row["records"], row["cases"], row["decided_cases"], row["errors"]) == (62, 120, 120, 2)
    assert (row["parts"], row["resumed_parts"], row["decisions"]) == (8, 0, 480)
    decisions, options = rows(run, "decisions"), rows(run, "option_probabilities")
    assert (len(decisions), len(options)) == (row["decisions"], row["options"])
    keys = [(r["conversation_id"], r["rubric_id"], r["question_id"]) for r in decisions]
    assert len(set(keys)) == len(keys)
    groups: dict[Any, list[dict[str, Any]]] = {}
    for option in options:
        key = (option["conversation_id"], option["rubric_id"], option["question_id"])
        groups.setdefault(key, []).append(option)
    assert groups.keys() == {
        k for k, r in zip(keys, decisions, strict=True) if not r["skipped_because"]
    }
    for group in groups.values():
        assert abs(math.fsum(o["probability"] for o in group) - 1) < 1e-9
        assert sorted(o["option_index"] for o in group) == list(range(len(group)))
        assert len({o["option"] for o in group}) == len(group)
    assert {r["code"] for r in rows(run, "errors")} == {"invalid_json", "duplicate_id"}
    assert row["steps"] == row["reads"] * 2 == row["two_step_flag_off"] * 2


def test_no_text_reaches_any_file_of_the_run(undisturbed: tuple[Path, Run]) -> None:
    folder, _ = undisturbed
    files = [f for f in (folder / "out").rglob("*") if f.is_file()]
    assert len(files) > 20
    import pyarrow.parquet as pq

    for file in files:
        content = file.read_bytes()
        if file.suffix == ".parquet":
            content += repr(pq.read_table(file, partitioning=None).to_pylist()).encode()
        assert b"CANARY" not in content
        assert b"headache" not in content


def test_rows_do_not_depend_on_parts(undisturbed: tuple[Path, Run], tmp_path: Path) -> None:
    folder, run = undisturbed
    job = make_job(
        folder,
        [load_rubric("triage"), CHAINED],
        records_per_part=1000,
        output=str(tmp_path),
    )
    other = decide(job)
    assert other.row["parts"] == 2
    for table in ("decisions", "option_probabilities"):

        def content(run: Run, table: str = table) -> list[dict[str, Any]]:
            found = [{k: v for k, v in r.items() if k != "batch_reads"} for r in rows(run, table)]
            return sorted(found, key=lambda r: json.dumps(r, default=str))

        assert content(run) == content(other)


@pytest.mark.parametrize("shared", [False, True])
def test_two_worker_processes_write_the_same_bytes(
    undisturbed: tuple[Path, Run], tmp_path: Path, shared: bool
) -> None:
    folder, run = undisturbed
    job = make_job(
        folder,
        [load_rubric("triage"), CHAINED],
        {"share_model_across_processes": shared},
        records_per_part=8,
        output=str(tmp_path),
    )
    other = decide(job, flags=MULTI_PROCESSING)
    assert table_bytes(other) == table_bytes(run)
    assert other.row["steps"] == run.row["steps"]


def test_a_limit_takes_the_first_records(tmp_path: Path) -> None:
    two_shards(tmp_path)
    run = decide(make_job(tmp_path, limit=35, records_per_part=8))
    assert (run.row["records"], run.row["decided_cases"], run.row["errors"]) == (35, 34, 1)
    ids = {r["conversation_id"] for r in rows(run, "decisions")}
    assert ids == {f"c{i:03d}" for i in (*range(30), *range(100, 104))}


def test_records_choose_among_the_rubrics(tmp_path: Path) -> None:
    write_shard(
        tmp_path / "in" / "a.jsonl",
        [conversation(1, rubrics=["chained"]), conversation(2, rubrics=["nobody"])],
    )
    run = decide(make_job(tmp_path, [load_rubric("triage"), CHAINED]))
    assert {r["rubric_id"] for r in rows(run, "decisions")} == {"chained"}
    (error,) = rows(run, "errors")
    assert error["code"] == "unknown_rubric"


# What cannot run is refused before anything starts.


def test_no_input_is_refused_before_a_model_loads(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no file matches"):
        prepare(make_job(tmp_path), source=EngineSource(must_not_start, noon))
    assert not (tmp_path / "out").exists()


def must_not_start(build: Build) -> FakeEngine:
    raise AssertionError("an engine was started")


def test_rubrics_that_cannot_be_asked_are_refused_together(tmp_path: Path) -> None:
    two_shards(tmp_path)
    long = Rubric.model_validate(
        {
            "id": "long",
            "version": "1",
            "questions": [{"id": "q", "type": "noul", "text": "Is it so? " * 300}],
        }
    )
    with pytest.raises(ConfigError, match="leave no room for a conversation"):
        prepare(make_job(tmp_path, [long], {"max_model_len": 256}))


def test_an_unknown_model_is_refused(tmp_path: Path) -> None:
    two_shards(tmp_path)
    with pytest.raises(ConfigError, match="build tiny: model"):
        prepare(make_job(tmp_path, build={"model": str(tmp_path / "nowhere")}))


# Resuming.


def test_a_finished_run_is_taken_over_whole(undisturbed: tuple[Path, Run]) -> None:
    folder, run = undisturbed
    job = make_job(folder, [load_rubric("triage"), CHAINED], records_per_part=8)
    again = decide(job, resume=True, source=EngineSource(must_not_start, noon))
    assert again.run_id != run.run_id
    assert (again.row["parts"], again.row["resumed_parts"]) == (8, 8)
    assert table_bytes(again) == table_bytes(run)
    differ = {k for k in run.row if again.row[k] != run.row[k]}
    assert differ == {"started_at", "finished_at", "seconds", "resumed_parts"}


def test_only_new_and_changed_shards_are_computed(tmp_path: Path) -> None:
    two_shards(tmp_path)
    job = make_job(tmp_path, records_per_part=8)
    decide(job)
    write_shard(tmp_path / "in" / "c.jsonl", [conversation(500)])
    write_shard(tmp_path / "in" / "b.jsonl", [conversation(100 + i) for i in range(31)])
    run = decide(job, resume=True)
    # All of a, the unchanged beginning of b, but neither b's last part nor c.
    assert (run.row["parts"], run.row["resumed_parts"]) == (9, 7)
    assert run.status == "complete"


@pytest.mark.parametrize(
    "change",
    [
        {"seed": 7},
        {"samples": 2},
        {"dialect": "compact"},
        {"build": {"dtype": "float32"}},
        {"rubrics": [CHAINED]},
    ],
)
def test_another_job_takes_nothing_over(tmp_path: Path, change: dict[str, Any]) -> None:
    two_shards(tmp_path)
    decide(make_job(tmp_path))
    assert prepare(make_job(tmp_path), resume=True, source=FAKE).resumes == 1
    assert prepare(make_job(tmp_path, **change), resume=True, source=FAKE).resumes == 0


def test_a_damaged_part_is_computed_again(tmp_path: Path) -> None:
    two_shards(tmp_path)
    job = make_job(tmp_path, records_per_part=8)
    first = decide(job)
    damaged, missing = (Path(f) for f in first.files("decisions")[:2])
    content = table_bytes(first)
    damaged.write_bytes(damaged.read_bytes()[:-1])
    missing.unlink()
    run = decide(job, resume=True)
    assert (run.row["parts"], run.row["resumed_parts"]) == (8, 6)
    assert table_bytes(run) == content


def dies_in_the_third_part(build: Build) -> FakeEngine:
    engine = fake_engine(build)
    answer = engine.read

    def read(reads: Any) -> Any:
        if engine.counters().reads >= 16:
            engine.kill()
        return answer(reads)

    engine.read = read  # type: ignore[method-assign]
    return engine


def test_a_dead_engine_fails_the_run_and_keeps_what_was_finished(tmp_path: Path) -> None:
    two_shards(tmp_path)
    job = make_job(tmp_path, records_per_part=8)
    with pytest.raises(Exception, match="the fake engine was killed"):
        decide(job, source=EngineSource(dies_in_the_third_part, noon))
    assert [r.status for r in list_runs(job.job.output, status=None)] == ["unfinished"]
    run = decide(job, resume=True)
    assert run.row["resumed_parts"] >= 2
    assert run.row["decided_cases"] == 60


def test_killed_and_resumed_is_the_same_as_undisturbed(
    undisturbed: tuple[Path, Run], tmp_path: Path
) -> None:
    folder, run = undisturbed
    output = tmp_path / "out"
    for parts_before_the_kill in (1, 3, 6):
        # Each process takes over what those before it finished, and is killed in its turn.
        kill_after(folder, output, parts_before_the_kill)
    job = make_job(folder, [load_rubric("triage"), CHAINED], records_per_part=8, output=str(output))
    runs = list_runs(str(output), status=None)
    assert [r.status for r in runs] == ["unfinished"] * 3
    resumed = decide(job, resume=True)
    assert 6 <= resumed.row["resumed_parts"] < 8
    assert table_bytes(resumed) == table_bytes(run)
    assert len(resumed.files("decisions")) == len(set(resumed.files("decisions"))) == 8
    times = {"started_at", "finished_at", "seconds", "engine_seconds", "resumed_parts"}
    assert {k: v for k, v in resumed.row.items() if k not in times} == {
        k: v for k, v in run.row.items() if k not in times
    }


def kill_after(folder: Path, output: Path, parts: int) -> None:
    """Run the job in a process of its own and kill it once that many parts are whole."""
    command = [sys.executable, "-m", "tests.pipeline.slow_run", str(folder), str(output)]
    process = subprocess.Popen(command, cwd=Path(__file__).parents[3])
    try:
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            newest = max(output.glob("_runs/*"), default=None, key=lambda p: p.name)
            done = list(newest.glob("parts/*.json")) if newest else []
            if len(done) >= parts and str(process.pid) in pid_of(output):
                break
            assert process.poll() is None, "the run ended before it could be killed"
            time.sleep(0.005)
        else:
            pytest.fail("the run did not get far enough")
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()


def pid_of(output: Path) -> str:
    """Process id of the run that was started last, as it wrote it down."""
    file = output / "pid"
    return file.read_text() if file.exists() else ""
