"""The commands of the main job, short of the real engine."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import typer
from rich.console import Console
from typer.testing import CliRunner

from pipeline.cli import app
from pipeline.commands.ask import bar, decide_text, show
from pipeline.commands.run import run_job, show_result
from pipeline.deciding.inference import EngineSource
from pipeline.output.runs import list_runs
from pipeline.yaml_files import ConfigError
from tests.pipeline.deciding.test_decide import dies_in_the_third_part, two_shards
from tests.pipeline.sample_jobs import FAKE, conversation, make_job, noon, rows, write_shard

ROOT = Path(__file__).parents[2]


def recorder() -> Console:
    return Console(record=True, width=200, force_terminal=False, file=open(os.devnull, "w"))


def onepass(*arguments: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """The command as a user types it."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, "-m", "pipeline.cli", *arguments],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )


def test_a_run_ends_with_counts_speed_and_where_to_look(tmp_path: Path) -> None:
    two_shards(tmp_path)
    console = recorder()
    run = run_job(make_job(tmp_path, records_per_part=8), console=console, source=FAKE)
    show_result(run, console)
    told = console.export_text()
    assert f"Run {run.run_id} complete" in told
    assert "62 records in 8 parts, 60 cases: 60 decided, 2 errors" in told
    assert "60 reads in 120 engine steps, 0% in a single pass" in told
    assert f"onepass query --output {tmp_path / 'out'}" in told
    (statement,) = [line for line in told.splitlines() if "duckdb -c" in line]
    import duckdb

    found = duckdb.sql(statement.split('"')[1]).fetchall()
    assert len(found) == run.row["decisions"]


def test_a_failed_run_says_why(tmp_path: Path) -> None:
    two_shards(tmp_path)
    console = recorder()
    run = run_job(make_job(tmp_path, max_error_rate=0.01), console=console, source=FAKE)
    show_result(run, console)
    told = console.export_text()
    assert run.status == "failed"
    assert "failed in" in told
    assert "2 of 62 outcomes are errors (3.23%), above max_error_rate 1.00%" in told


def test_a_run_that_dies_tells_how_to_go_on(tmp_path: Path) -> None:
    two_shards(tmp_path)
    job = make_job(tmp_path, records_per_part=8)
    console = recorder()
    with pytest.raises(typer.Exit) as stopped:
        run_job(job, console=console, source=EngineSource(dies_in_the_third_part, noon))
    assert stopped.value.exit_code == 1
    told = console.export_text()
    assert "the fake engine was killed" in told
    assert "--resume" in told
    assert "Traceback" not in told
    console = recorder()
    assert run_job(job, console=console, resume=True, source=FAKE).status == "complete"
    assert "No earlier run" not in console.export_text()


def test_resuming_nothing_says_so(tmp_path: Path) -> None:
    write_shard(tmp_path / "in" / "a.jsonl", [conversation(1)])
    console = recorder()
    run_job(make_job(tmp_path), console=console, resume=True, source=FAKE)
    assert "No earlier run of this job to resume" in console.export_text()


def test_flags_that_beam_would_drop_are_refused(tmp_path: Path) -> None:
    write_shard(tmp_path / "in" / "a.jsonl", [conversation(1)])
    with pytest.raises(ConfigError, match=r"--direct_num_worker=2: neither an option"):
        run_job(
            make_job(tmp_path),
            console=recorder(),
            beam_flags=["--direct_num_worker=2"],
            source=FAKE,
        )
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["run", "no_such_job"], "no_such_job"),
        (["run", "demo", "--build", "no_such_build"], "no_such_build"),
        (["run", "demo", "--input", "/nowhere/*.jsonl"], "no file matches"),
        (["run", "demo", "--limit", "0"], "--limit"),
        (["run", "demo", "--limt=3"], "--limt=3: neither an option"),
        (["ask", "no_such_rubric", "hello"], "no_such_rubric"),
        (["no_such_command"], "no_such_command"),
    ],
)
def test_wrong_usage_exits_with_2_and_names_it(
    tmp_path: Path, arguments: list[str], told: str
) -> None:
    result = onepass(*arguments, cwd=tmp_path)
    assert result.returncode == 2, result.stderr
    assert told in result.stderr
    assert "Traceback" not in result.stderr
    assert not (tmp_path / "out").exists()


def test_every_problem_of_a_job_is_told_at_once(tmp_path: Path) -> None:
    job = tmp_path / "job.yaml"
    job.write_text("build: nope\nrubrics: [missing]\ninput: none/*.jsonl\noutput: o\nsampels: 3\n")
    result = onepass("run", str(job), cwd=tmp_path)
    assert result.returncode == 2
    for thing in ("nope", "missing", "none/*.jsonl", "sampels"):
        assert thing in result.stderr


def test_ask_decides_one_text_and_shows_bars() -> None:
    decided = decide_text(
        "triage", "I have had a headache for 3 days", build=str(TINY_BUILD), source=FAKE
    )
    console = recorder()
    show(decided, console)
    told = console.export_text()
    for row in decided.tables["option_probabilities"]:
        assert row["option"] in told
        assert f"{row['probability']:.3f}" in told
    assert "█" in told
    assert math.fsum(
        r["probability"]
        for r in decided.tables["option_probabilities"]
        if r["question_id"] == "topic"
    ) == pytest.approx(1)


def test_ask_says_what_is_wrong_with_a_text() -> None:
    decided = decide_text("triage", "  \n", build=str(TINY_BUILD), source=FAKE)
    assert [e["code"] for e in decided.tables["errors"]] == ["empty_conversation"]


TINY_BUILD = ROOT / "configs" / "builds" / "single_pass.yaml"


@pytest.mark.parametrize(("share", "shown"), [(0, ""), (0.5, "██"), (1, "████"), (0.53, "██▏")])
def test_bars(share: float, shown: str) -> None:
    assert bar(share, 4) == shown


def test_ctrl_c_stops_the_run_and_leaves_whole_files_only(tmp_path: Path) -> None:
    two_shards(tmp_path)
    output = tmp_path / "out"
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.pipeline.slow_run", str(tmp_path), str(output)],
        cwd=ROOT,
        # Shells let what they start in the background ignore it, and children inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    deadline = time.monotonic() + 120
    while not list(output.glob("_runs/*/parts/*.json")):
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=60) != 0
    files = [f for f in output.rglob("*") if f.is_file()]
    assert not [f for f in files if f.name.startswith(".")]
    assert [r.status for r in list_runs(str(output), status=None)] == ["unfinished"]


def test_results_as_json_hold_the_row_and_the_files(tmp_path: Path) -> None:
    write_shard(tmp_path / "in" / "a.jsonl", [conversation(1)])
    from pipeline.commands.run import _as_json

    run = run_job(make_job(tmp_path), console=recorder(), source=FAKE)
    told = json.loads(json.dumps(_as_json(run)))
    assert told["run_id"] == run.run_id
    assert told["row"]["decisions"] == len(rows(run, "decisions")) == 4
    assert {f["table"] for f in told["files"]} == {
        "decisions",
        "option_probabilities",
        "errors",
        "runs",
    }


def test_help_names_every_command() -> None:
    told = CliRunner().invoke(app, ["--help"]).output
    for command in ("demo", "ask", "run", "query", "rubric"):
        assert command in told


def test_standard_input_that_is_not_utf8_is_wrong_usage() -> None:
    result = CliRunner().invoke(app, ["ask", "triage", "-"], input=b"a \xff")
    assert result.exit_code == 2
    assert "not UTF-8 from byte 2 on" in result.output
