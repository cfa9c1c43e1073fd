"""The launcher keeps the template's contract: parameters in, a job graph out, no waiting."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest

from dataflow.launcher import launch, main, today
from pipeline.cloud.launching import launch_request, upload
from pipeline.cloud.workers import worker_options
from pipeline.estimating.machines import load_machines
from pipeline.jobs.config import LoadedJob
from pipeline.output.runs import list_runs
from pipeline.yaml_files import ConfigError
from tests.dataflow.jobs import dataflow_job
from tests.dataflow.rest import service
from tests.gcs import beam_uses, client_for, gcs_url
from tests.pipeline.sample_jobs import FAKE, conversation

__all__ = ["gcs_url"]


@pytest.fixture(scope="module")
def place(gcs_url: str) -> Iterator[str]:
    """gs:// folder with a shard of conversations; Beam talks to the emulator."""
    bucket = client_for(gcs_url).create_bucket("launcher-tests")
    lines = [json.dumps(conversation(number)) for number in range(20)]
    bucket.blob("conversations/a.jsonl").upload_from_string("\n".join(lines))
    with pytest.MonkeyPatch.context() as monkeypatch:
        beam_uses(gcs_url, monkeypatch)
        yield f"gs://{bucket.name}"


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory, place: str) -> dict[str, Any]:
    return job_graph(tmp_path_factory.mktemp("graph"), place)


def uploaded(folder: Path, place: str, **options: Any) -> tuple[LoadedJob, str]:
    """A job in the bucket, as `onepass launch` puts it there, and the path of its file."""
    stated = {"temp_location": f"{place}/temp", "staging_location": f"{place}/staging", **options}
    loaded = dataflow_job(
        folder,
        input=f"{place}/conversations/*.jsonl",
        output=f"{place}/out",
        options=stated,
    )
    request = launch_request(loaded, worker_options(loaded, load_machines()), "gs://t/t.json")
    upload(request)
    return loaded, request.body["launchParameter"]["parameters"]["job"]


def job_graph(folder: Path, place: str, *flags: str, **options: Any) -> dict[str, Any]:
    """The job as the launcher writes it for the service to run."""
    _, path = uploaded(folder, place, **options)
    target = folder / "job.json"
    launch(["--job", path, f"--template_location={target}", "--no_auth", *flags], FAKE)
    found: dict[str, Any] = json.loads(target.read_text())
    return found


def test_workers_are_what_they_must_be(graph: dict[str, Any]) -> None:
    environment = graph["environment"]
    (pool,) = environment["workerPools"]
    assert pool["machineType"] == "c4-standard-24"
    assert pool["diskSizeGb"] == 200
    assert not pool.get("diskType")
    # Resource hints would show as a second environment, and let Dataflow choose the machine.
    (image,) = pool["sdkHarnessContainerImages"]
    assert image["containerImage"].endswith("/onepass:0.1.0")
    assert "no_use_multiple_sdk_containers" in environment["experiments"]
    assert "use_multiple_sdk_containers" not in environment["experiments"]
    assert "min_ram" not in json.dumps(graph)
    assert environment["serviceAccountEmail"].startswith("worker@")
    options = environment["sdkPipelineOptions"]["options"]
    assert options["number_of_worker_harness_threads"] == 4
    assert options["element_processing_timeout_minutes"] == 240
    assert options["sdk_location"] == "container"


def test_what_is_said_at_launch_counts_over_the_job(tmp_path: Path, place: str) -> None:
    stated = {"experiments": ["of_the_job"]}
    flags = ("--machine_type=c3-standard-44", "--max_num_workers=2", "--experiments=enable_foo")
    parameters = ("--run_date=2026-11-28", "--limit=7", f"--output={place}/elsewhere")
    environment = job_graph(tmp_path, place, *flags, *parameters, **stated)["environment"]
    (pool,) = environment["workerPools"]
    assert pool["machineType"] == "c3-standard-44"
    assert pool["diskType"] == "compute.googleapis.com/projects//zones//diskTypes/pd-ssd"
    assert pool["autoscalingSettings"]["maxNumWorkers"] == 2
    assert {"of_the_job", "enable_foo", "no_use_multiple_sdk_containers"} <= set(
        environment["experiments"]
    )
    # The run is known from now on, and unfinished until its workers are done.
    (run,) = list_runs(f"{place}/elsewhere", status=None)
    assert (run.status, run.run_date, run.build) == ("unfinished", "2026-11-28", "fast")


def test_no_text_and_no_secret_is_in_the_graph(graph: dict[str, Any]) -> None:
    text = json.dumps(graph)
    assert "CANARY" not in text
    for word in ("private_key", "refresh_token", "access_token", "password"):
        assert word not in text


def test_a_launcher_without_a_template_submits(tmp_path: Path, place: str) -> None:
    with service() as found:
        _, path = uploaded(tmp_path, place, dataflow_endpoint=found.url, no_auth=True)
        result = launch(["--job", path], FAKE)
        result.wait_until_finish()
    (job,) = found.jobs
    assert job["environment"]["workerPools"][0]["machineType"] == "c4-standard-24"
    assert result.state == "DONE"


def test_every_problem_is_told_and_nothing_is_started(tmp_path: Path, place: str) -> None:
    _, path = uploaded(tmp_path, place)
    before = list_runs(f"{place}/out", status=None)
    with pytest.raises(SystemExit) as stop:
        main(["--job", path, "--samples", "99", "--output", "/tmp/local"])
    assert "samples" in str(stop.value)
    assert "output: /tmp/local is local" in str(stop.value)
    with pytest.raises(SystemExit, match="no file matches"):
        main(["--job", path, "--input", f"{place}/nothing/*.jsonl"])
    assert list_runs(f"{place}/out", status=None) == before


@pytest.mark.parametrize(
    ("time_zone", "expected"),
    [("UTC", date(2026, 11, 30)), ("America/Toronto", date(2026, 11, 29))],
)
def test_the_date_of_a_run_is_that_of_its_time_zone(time_zone: str, expected: date) -> None:
    assert today(time_zone, datetime(2026, 11, 30, 2, 0, tzinfo=UTC)) == expected


def test_a_time_zone_that_is_none_is_told() -> None:
    with pytest.raises(ConfigError, match="time_zone: there is no 'Mars/Base'"):
        today("Mars/Base")
