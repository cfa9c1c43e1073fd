"""The plan of a job against what a run of the same job counts."""

from __future__ import annotations

import json
import math
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from pipeline.cli import app
from pipeline.commands.plan import show_plan
from pipeline.estimating.estimates import engine_hours, estimates, monthly_choices
from pipeline.estimating.machines import load_machines
from pipeline.estimating.plan import plan_job
from pipeline.estimating.steps import StepCount
from pipeline.jobs.config import LoadedJob
from rubrics.model import load_rubric
from tests.pipeline.sample_jobs import CHAINED, conversation, decide, make_job, rows, write_shard

MACHINES = load_machines()


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> LoadedJob:
    """Two rubrics, one with stages; broken, doubled and too long records among good ones."""
    folder = tmp_path_factory.mktemp("plan")
    long = conversation(99)
    long["messages"][0]["content"] *= 400
    write_shard(folder / "in/a.jsonl", [*(conversation(i) for i in range(25)), "broken", long])
    write_shard(
        folder / "in/b.jsonl", [conversation(3), *(conversation(200 + i) for i in range(9))]
    )
    return make_job(
        folder,
        [load_rubric("triage"), CHAINED],
        {"single_pass_reads": True, "max_num_seqs": 4, "max_model_len": 1024},
        records_per_part=10,
        samples=2,
    )


def test_the_plan_foretells_the_run(job: LoadedJob) -> None:
    plan = plan_job(job)
    run = decide(job)
    row = run.row
    assert (plan.records, plan.parts) == (row["records"], row["parts"]) == (37, 4)
    assert plan.cases == row["decided_cases"] == 2 * 34
    assert plan.questions == row["decisions"]
    codes = Counter(error["code"] for error in rows(run, "errors"))
    assert plan.rejected == codes == {"invalid_json": 1, "duplicate_id": 1, "prompt_too_long": 2}
    lengths = sorted(plan.prompt_lengths)
    first_stage = {
        (r["conversation_id"], r["rubric_id"]): r["prompt_tokens"]
        for r in rows(run, "decisions")
        if r["question_id"] != "where" and r["prompt_tokens"] is not None
        and r["question_id"] in ("pain", *(q.id for q in job.rubrics[0].questions))
    }  # fmt: skip
    assert lengths == sorted(first_stage.values())


def test_reads_are_the_runs_when_no_question_is_ruled_out(job: LoadedJob) -> None:
    plain = LoadedJob(job.job, job.build, job.rubrics[:1])
    plan, row = plan_job(plain), decide(plain).row
    assert plan.conditional_questions == 0
    assert plan.steps.reads == row["reads"] == sum(plan.widths.values())
    assert plan.steps.prompt_tokens == row["prompt_tokens"]
    assert plan.steps.canvas_tokens == row["canvas_tokens"]


def test_questions_that_may_be_ruled_out_make_the_plan_an_upper_bound(job: LoadedJob) -> None:
    chained = LoadedJob(job.job, job.build, job.rubrics[1:])
    plan, row = plan_job(chained), decide(chained).row
    assert plan.conditional_questions == 2
    assert row["reads"] < plan.steps.reads


def test_a_limit_plans_the_first_records(job: LoadedJob) -> None:
    limited = LoadedJob(job.job.model_copy(update={"limit": 12}), job.build, job.rubrics)
    plan, row = plan_job(limited), decide(limited).row
    assert (plan.records, plan.cases) == (row["records"], row["decided_cases"]) == (12, 24)


def test_histogram_covers_every_prompt(job: LoadedJob) -> None:
    plan = plan_job(job)
    bars = plan.histogram()
    assert len(bars) <= 12
    assert sum(count for _, _, count in bars) == plan.cases
    for low, high, count in bars:
        assert count == sum(low <= length < high for length in plan.prompt_lengths)


def test_both_settings_of_the_flag_are_counted(job: LoadedJob) -> None:
    plan = plan_job(job)
    assert plan.steps.single_pass == plan.steps.reads
    assert plan.other.single_pass == 0
    assert plan.steps.steps < plan.other.steps


def test_hours_and_dollars_by_hand() -> None:
    steps = StepCount(steps=1000, reads=16_000, computed_tokens=5_000_000, canvas_tokens=500_000)
    seconds = 0.356 * 1000 + 0.00053 * 5_500_000
    assert engine_hours(steps, "c4-standard-24", MACHINES) == pytest.approx(seconds / 3600)
    found = {(e.machine_type, e.workers): e for e in estimates(steps, 4, MACHINES)}
    assert {workers for name, workers in found if name == "c4-standard-24"} == {1, 2, 4}
    two = found["c4-standard-24", 2]
    hours = 12 / 60 + seconds / 3600 / 2
    assert two.hours == pytest.approx(hours)
    assert two.dollars == pytest.approx(2 * hours * (24 * 0.056 + 90 * 0.003557 + 200 * 0.000298))
    assert two.flexrs_dollars < two.dollars
    [three] = [e for e in estimates(steps, 3, MACHINES) if (e.machine_type, e.workers) == ("c4-standard-24", 2)]  # noqa: E501  # fmt: skip
    assert three.hours == pytest.approx(12 / 60 + seconds / 3600 * 2 / 3)  # one worker has two


def test_nightly_against_always_on() -> None:
    """100,000 decisions a month: League's $9.96 per 1,000 on C4, and $17.93 on C3."""
    steps = StepCount(steps=250, reads=100_000 // 30, computed_tokens=1_000_000)
    found = {choice.machine_type: choice for choice in monthly_choices(steps, 8, MACHINES)}
    assert round(found["c4-standard-24"].always_on_dollars_per_1000, 2) == 9.96
    assert round(found["c3-highcpu-44"].always_on_dollars_per_1000, 2) == 17.93
    assert found["c4-standard-24"].nightly_dollars < found["c4-standard-24"].always_on_dollars / 5
    assert 0 < found["c4-standard-24"].share_of_capacity < 0.05
    many = StepCount(steps=2_000_000, reads=30_000_000, computed_tokens=10_000_000)
    busy = {choice.machine_type: choice for choice in monthly_choices(many, 8, MACHINES)}
    hours = engine_hours(many, "c4-standard-24", MACHINES)
    assert busy["c4-standard-24"].replicas == math.ceil(hours * 30 / 730) > 1
    assert busy["c4-standard-24"].always_on_dollars == 996 * busy["c4-standard-24"].replicas


def test_the_command(tmp_path: Path) -> None:
    write_shard(tmp_path / "in/a.jsonl", [conversation(i) for i in range(5)])
    (tmp_path / "build.yaml").write_text("single_pass_reads: true\n")
    job = tmp_path / "job.yaml"
    job.write_text(
        f"build: {tmp_path}/build.yaml\nrubrics: [triage]\n"
        f"input: {tmp_path}/in/*.jsonl\noutput: {tmp_path}/out\n"
    )
    result = CliRunner().invoke(app, ["plan", str(job), "--json"])
    assert result.exit_code == 0, repr(result.exception)
    data = json.loads(result.output)
    assert (data["conversations"], data["steps"]["reads"]) == (5, data["steps"]["single_pass"])
    assert data["assumptions"]
    assert {e["machine_type"] for e in data["estimates"]} == set(MACHINES.throughput.machines)
    text = CliRunner().invoke(app, ["plan", str(job)]).output
    for part in ("5 conversations", "one engine step: 100.0% of reads", "FlexRS", "assumed:"):
        assert part in text
    assert not (tmp_path / "out").exists()


def test_a_plan_that_would_fail_says_so(job: LoadedJob) -> None:
    plan = plan_job(job)
    assert plan.error_rate == pytest.approx(4 / 72)
    for allowed, warned in ((0.05, True), (0.06, False)):
        console = Console(record=True, width=200)
        show_plan(replace(plan, max_error_rate=allowed), console)
        assert ("the run would fail: 5.56% are rejected" in console.export_text()) == warned
