"""The real engine with weights, conversations and tables in a bucket: the same decisions as on the
local disk, in as many engine steps as the plan foretells."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import engine.tiny
from pipeline import storage as files
from pipeline.deciding.inference import EngineSource, start_engine
from pipeline.estimating.plan import plan_job
from pipeline.jobs.config import LoadedJob
from pipeline.output.runs import Run
from rubrics.model import load_rubric
from tests.gcs import beam_uses, client_for, emulator
from tests.pipeline.sample_jobs import conversation, decide, make_job, noon, rows, table_bytes

pytestmark = pytest.mark.engine

REAL = EngineSource(start_engine, noon)
CONVERSATIONS = [conversation(number) for number in range(24)]


@pytest.fixture(scope="module")
def bucket(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """gs:// folder with the embedded model and a shard; weights are staged to their own folder."""
    with emulator() as url, pytest.MonkeyPatch.context() as monkeypatch:
        found = client_for(url).create_bucket("real")
        for path in Path(engine.tiny.__file__).parent.iterdir():
            if path.suffix in (".json", ".safetensors"):
                found.blob(f"models/tiny/{path.name}").upload_from_filename(str(path))
        lines = "\n".join(json.dumps(record) for record in CONVERSATIONS)
        found.blob("in/a.jsonl").upload_from_string(lines + "\n")
        beam_uses(url, monkeypatch)
        monkeypatch.setenv("ONEPASS_WEIGHTS", str(tmp_path_factory.mktemp("weights")))
        yield "gs://real"


def job(folder: Path, place: str, model: str) -> LoadedJob:
    build = {
        "model": model,
        "single_pass_reads": True,
        "max_num_seqs": 4,
        "max_model_len": 1024,
        "max_num_batched_tokens": 330,  # so tight that prompts are cut and canvases wait
    }
    return make_job(
        folder,
        [load_rubric("triage")],
        build,
        input=f"{place}/in/*.jsonl",
        output=f"{place}/out",
        records_per_part=16,
    )


@pytest.fixture(scope="module")
def remote(bucket: str, tmp_path_factory: pytest.TempPathFactory) -> tuple[LoadedJob, Run]:
    loaded = job(tmp_path_factory.mktemp("remote"), bucket, f"{bucket}/models/tiny")
    return loaded, decide(loaded, source=REAL)


def test_tables_in_the_bucket_are_those_on_the_disk(
    remote: tuple[LoadedJob, Run], tmp_path: Path
) -> None:
    (tmp_path / "in").mkdir()
    lines = "\n".join(json.dumps(record) for record in CONVERSATIONS)
    (tmp_path / "in/a.jsonl").write_text(lines + "\n")
    local = decide(job(tmp_path, str(tmp_path), "tiny"), source=REAL)
    _, run = remote
    there = {
        f"{table}/{path.rsplit('/', 1)[-1]}": files.read_bytes(path)
        for table in ("decisions", "option_probabilities", "errors")
        for path in run.files(table)
    }
    assert there == table_bytes(local)
    assert {row["conversation_id"] for row in rows(local, "decisions")} == {
        record["id"] for record in CONVERSATIONS
    }
    facts = ("model_sha256", "tokenizer_sha256")
    assert [run.row[fact] for fact in facts] == [local.row[fact] for fact in facts]


def test_the_plan_foretells_steps_and_tokens(remote: tuple[LoadedJob, Run]) -> None:
    loaded, run = remote
    plan, row = plan_job(loaded), run.row
    foretold: dict[str, Any] = {
        "reads": plan.steps.reads,
        "steps": plan.steps.steps,
        "single_pass": plan.steps.single_pass,
        "two_step_token_budget": plan.steps.two_step["token_budget"],
        "prompt_tokens": plan.steps.prompt_tokens,
        "prompt_tokens_computed": plan.steps.computed_tokens,
        "canvas_tokens": plan.steps.canvas_tokens,
    }
    assert {name: row[name] for name in foretold} == foretold
    assert 0 < row["two_step_token_budget"] < row["reads"]
