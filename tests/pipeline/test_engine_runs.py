"""The main job as users run it: the command, the real engine, the embedded model."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from pipeline.output.runs import Run, list_runs
from tests.conftest import ALL_CORES
from tests.pipeline.sample_jobs import rows

pytestmark = [pytest.mark.engine, pytest.mark.timeout(1500)]
"""Half a minute each on two idle cores; the limit is for busy ones."""

ROOT = Path(__file__).parents[2]
DEMO = ROOT / "configs" / "demo" / "conversations"
PARTS_OF = 8


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "pipeline.cli", *arguments]


def onepass(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """The command on every core, as users run it."""
    return subprocess.run(
        command(*arguments),
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=1400,
        input=stdin,
        preexec_fn=lambda: os.sched_setaffinity(0, ALL_CORES),
    )


def job_file(folder: Path, output: Path, **build: Any) -> str:
    """The demonstration's job in small parts, with a build of its own."""
    shipped = yaml.safe_load((ROOT / "configs/builds/single_pass.yaml").read_text())
    (folder / "tested.yaml").write_text(yaml.safe_dump(shipped | build))
    job = {
        "build": str(folder / "tested.yaml"),
        "rubrics": ["triage"],
        "input": str(DEMO / "*.jsonl"),
        "output": str(output),
        "records_per_part": PARTS_OF,
    }
    (folder / "job.yaml").write_text(yaml.safe_dump(job))
    return str(folder / "job.yaml")


def content(run: Run) -> list[dict[str, Any]]:
    """All rows of a run but for the time of each decision."""
    found = [r for t in ("decisions", "option_probabilities", "errors") for r in rows(run, t)]
    return [{k: v for k, v in row.items() if k != "decided_at"} for row in found]


def texts() -> Iterator[str]:
    """What people say in the demonstration's conversations."""
    for shard in DEMO.glob("*.jsonl"):
        for line in shard.read_text(encoding="utf-8").splitlines():
            yield from (message["content"] for message in json.loads(line)["messages"])


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("undisturbed")
    result = onepass("run", job_file(folder, folder / "out"))
    assert result.returncode == 0, result.stderr
    (run,) = list_runs(str(folder / "out"))
    return run


def test_the_demonstration(tmp_path: Path) -> None:
    output = tmp_path / "out"
    result = onepass("demo", "--output", str(output))
    assert result.returncode == 0, result.stderr
    (run,) = list_runs(str(output))
    assert f"Run {run.run_id} complete" in result.stdout
    row = run.row
    assert (
        row["records"]
        == row["decided_cases"]
        == sum(len(f.read_text().splitlines()) for f in DEMO.glob("*.jsonl"))
    )
    assert row["errors"] == 0
    assert row["reads"] == row["single_pass"] == row["decided_cases"]
    groups: dict[tuple[str, str], float] = {}
    for option in rows(run, "option_probabilities"):
        key = (option["conversation_id"], option["question_id"])
        groups[key] = groups.get(key, 0.0) + option["probability"]
    assert len(groups) == row["decisions"]
    assert all(math.isclose(total, 1, abs_tol=1e-9) for total in groups.values())
    told = result.stdout + result.stderr
    assert not [t for t in texts() if t in told]
    for noise in ("INFO", "WARNING", "Traceback"):
        assert noise not in told
    shown = onepass(
        "query", "SELECT count(*) AS n FROM decisions", "--output", str(output), "--json"
    )
    assert json.loads(shown.stdout) == {"n": row["decisions"]}


def test_ask_reads_standard_input_and_prints_json() -> None:
    result = onepass("ask", "triage", "-", "--json", stdin="I have had a headache for 3 days.")
    assert result.returncode == 0, result.stderr
    decisions = {d["question_id"]: d for d in json.loads(result.stdout)["decisions"]}
    assert decisions["topic"]["decision"] == "symptoms"
    assert decisions["topic"]["single_pass"] is True


def test_killed_and_resumed_is_the_same_as_undisturbed(undisturbed: Run, tmp_path: Path) -> None:
    output = tmp_path / "out"
    job = job_file(tmp_path, output)
    process = subprocess.Popen(command("run", job), cwd=ROOT, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 600
        while not list(output.glob("_runs/*/parts/*.json")):
            assert process.poll() is None, "the run ended before it could be killed"
            assert time.monotonic() < deadline
            time.sleep(0.002)
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    result = onepass("run", job, "--resume")
    assert result.returncode == 0, result.stderr
    (run,) = list_runs(str(output))
    assert 1 <= run.row["resumed_parts"] < run.row["parts"]
    assert content(run) == content(undisturbed)


@pytest.mark.parametrize("shared", [False, True])
def test_two_processes_write_the_same_rows(undisturbed: Run, tmp_path: Path, shared: bool) -> None:
    job = job_file(tmp_path, tmp_path / "out", share_model_across_processes=shared)
    flags = ("--direct_running_mode=multi_processing", "--direct_num_workers=2")
    result = onepass("run", job, *flags)
    assert result.returncode == 0, result.stderr
    (run,) = list_runs(str(tmp_path / "out"))
    assert content(run) == content(undisturbed)
