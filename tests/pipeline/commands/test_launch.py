"""`onepass launch`: shows, writes, or sends."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from google.cloud import storage
from typer.testing import CliRunner

from pipeline.cli import app
from tests.dataflow.jobs import dataflow_job
from tests.dataflow.rest import Service, service
from tests.gcs import beam_uses, bucket, gcs_url
from tests.pipeline.sample_jobs import conversation

__all__ = ["bucket", "gcs_url"]

TEMPLATE = "gs://bucket/templates/onepass.json"


@pytest.fixture
def job(
    tmp_path: Path, bucket: storage.Bucket, gcs_url: str, monkeypatch: pytest.MonkeyPatch
) -> str:
    beam_uses(gcs_url, monkeypatch)
    lines = [json.dumps(conversation(number)) for number in range(5)]
    bucket.blob("conversations/a.jsonl").upload_from_string("\n".join(lines))
    dataflow_job(
        tmp_path,
        input=f"gs://{bucket.name}/conversations/*.jsonl",
        output=f"gs://{bucket.name}/out",
        options={"staging_location": f"gs://{bucket.name}/staging"},
    )
    return str(tmp_path / "nightly.yaml")


def test_a_dry_run_shows_everything_and_sends_nothing(job: str, bucket: storage.Bucket) -> None:
    result = CliRunner().invoke(app, ["launch", job, "--template", TEMPLATE, "--dry-run"])
    assert result.exit_code == 0, result.output
    for part in ("would upload gs://", "would post to https://dataflow.googleapis.com",
                 '"jobName": "onepass-nightly"', "no_use_multiple_sdk_containers",
                 "5 conversations", "FlexRS"):  # fmt: skip
        assert part in result.output
    assert not list(bucket.list_blobs(prefix="staging/"))


def test_a_dry_run_works_where_the_input_cannot_be_read(tmp_path: Path) -> None:
    dataflow_job(tmp_path)
    args = ["launch", str(tmp_path / "nightly.yaml"), "--template", TEMPLATE, "--dry-run"]
    result = CliRunner().invoke(app, [*args, "--json"])
    assert result.exit_code == 0, result.output
    assert json.loads(result.output)["body"]["launchParameter"]["jobName"] == "onepass-nightly"


def test_parameters_of_the_template_go_with_the_launch(job: str) -> None:
    args = ["launch", job, "--template", TEMPLATE, "--dry-run", "--json"]
    result = CliRunner().invoke(app, [*args, "--parameter", "time_zone=America/Toronto"])
    sent = json.loads(result.output)["body"]["launchParameter"]["parameters"]
    assert sent["time_zone"] == "America/Toronto"
    wrong = CliRunner().invoke(app, [*args, "--parameter", "colour=red"])
    assert wrong.exit_code == 2


def test_a_request_for_a_schedule_is_written_and_its_files_are_there(
    job: str, bucket: storage.Bucket, tmp_path: Path
) -> None:
    target = tmp_path / "request.json"
    args = ["launch", job, "--template", TEMPLATE, "--request-file", str(target)]
    result = CliRunner().invoke(app, args)
    assert result.exit_code == 0, result.output
    request = json.loads(target.read_text())
    assert request["url"].endswith("/projects/test-project/locations/us-east4/flexTemplates:launch")
    path = request["body"]["launchParameter"]["parameters"]["job"]
    assert bucket.blob(path.removeprefix(f"gs://{bucket.name}/")).exists()


def sent_to(found: Service, job: str) -> list[str]:
    stated = yaml.safe_load(Path(job).read_text())
    stated["options"] |= {"dataflow_endpoint": found.url, "no_auth": True}
    Path(job).write_text(yaml.safe_dump(stated))
    return ["launch", job, "--template", TEMPLATE]


def test_a_launch_tells_where_the_job_is(job: str) -> None:
    with service() as found:
        result = CliRunner().invoke(app, sent_to(found, job))
    assert result.exit_code == 0, result.output
    assert len(found.launches) == 1
    assert "jobs/us-east4/2026-11-29_id?project=test-project" in result.output


def test_a_bucket_that_is_not_there_is_told(job: str, tmp_path: Path) -> None:
    stated = yaml.safe_load(Path(job).read_text())
    stated["options"]["staging_location"] = "gs://no-such-bucket/staging"
    Path(job).write_text(yaml.safe_dump(stated))
    target = tmp_path / "request.json"
    args = ["launch", job, "--template", TEMPLATE, "--request-file", str(target)]
    result = CliRunner().invoke(app, args)
    assert result.exit_code == 1
    assert "cannot be written (InvalidResponse); check that the bucket" in result.output
    assert not target.exists()


def test_a_refused_launch_fails_with_the_reason(job: str) -> None:
    with service() as found:
        found.failures = [(409, "already exists")]
        result = CliRunner().invoke(app, sent_to(found, job))
    assert result.exit_code == 1
    assert "a job named onepass-nightly is running" in result.output
