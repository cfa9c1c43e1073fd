"""A job as a launch request: valid for the service, complete by itself, and sent once."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from google.cloud import dataflow_v1beta3, storage

from pipeline.cloud.launching import LaunchError, LaunchRequest, job_name, launch_request, submit
from pipeline.cloud.workers import worker_options
from pipeline.estimating.machines import load_machines
from pipeline.jobs.config import load_job
from tests.dataflow.jobs import dataflow_job
from tests.dataflow.rest import Service, service
from tests.gcs import beam_uses, bucket, gcs_url

__all__ = ["bucket", "gcs_url"]

TEMPLATE = "gs://bucket/templates/onepass.json"


@pytest.fixture
def endpoint() -> Iterator[Service]:
    with service() as found:
        yield found


def request_for(folder: Path, **options: Any) -> LaunchRequest:
    loaded = dataflow_job(folder, options=options)
    return launch_request(loaded, worker_options(loaded, load_machines()), TEMPLATE)


def parameter(request: LaunchRequest) -> dict[str, Any]:
    found: dict[str, Any] = request.body["launchParameter"]
    return found


def test_the_service_knows_every_field(tmp_path: Path) -> None:
    request = request_for(
        tmp_path,
        flexrs_goal="COST_OPTIMIZED",
        autoscaling_algorithm="NONE",
        worker_zone="us-east4-a",
        subnetwork="regions/us-east4/subnetworks/batch",
    )
    text = json.dumps({"launchParameter": parameter(request), "validateOnly": False})
    parsed = dataflow_v1beta3.LaunchFlexTemplateRequest.from_json(text)
    sent = parsed.launch_parameter.environment
    assert sent.machine_type == "c4-standard-24"
    assert sent.max_workers == 4
    assert sent.disk_size_gb == 200
    assert list(sent.additional_experiments) == ["no_use_multiple_sdk_containers"]
    assert sent.ip_configuration.name == "WORKER_IP_PRIVATE"
    assert sent.flexrs_goal.name == "FLEXRS_COST_OPTIMIZED"
    assert sent.autoscaling_algorithm.name == "AUTOSCALING_ALGORITHM_NONE"
    assert sent.additional_user_labels == {"program": "onepass", "team": "quality"}


def test_what_is_sent(tmp_path: Path) -> None:
    request = request_for(tmp_path)
    assert request.url == (
        "https://dataflow.googleapis.com/v1b3/projects/test-project/locations/us-east4"
        "/flexTemplates:launch"
    )
    assert parameter(request)["containerSpecGcsPath"] == TEMPLATE
    assert parameter(request)["jobName"] == "onepass-nightly"
    job_path = parameter(request)["parameters"]["job"]
    assert job_path in request.uploads
    assert job_path.startswith("gs://bucket/staging/jobs/")
    assert not [
        word for word in ("key", "token", "password", "secret") if word in str(request.body)
    ]


def test_a_job_goes_with_everything_it_names(
    tmp_path: Path, bucket: storage.Bucket, gcs_url: str, monkeypatch: pytest.MonkeyPatch,
    endpoint: Service,
) -> None:  # fmt: skip
    beam_uses(gcs_url, monkeypatch)
    loaded = dataflow_job(tmp_path, options={"staging_location": f"gs://{bucket.name}/staging"})
    options = {**worker_options(loaded, load_machines()), "dataflow_endpoint": endpoint.url}
    request = launch_request(loaded, options, TEMPLATE)
    job = submit(request, no_auth=True)

    assert job == {"id": "2026-11-29_id", "name": "onepass-nightly"}
    assert endpoint.launches == [json.loads(json.dumps(request.body))]
    there = load_job(parameter(request)["parameters"]["job"])
    assert there.build == loaded.build
    assert there.rubrics == loaded.rubrics
    same = there.job.model_copy(update={"build": loaded.job.build, "rubrics": loaded.job.rubrics})
    assert same == loaded.job


def test_the_place_of_a_job_follows_its_content(tmp_path: Path) -> None:
    first = request_for(tmp_path)
    assert request_for(tmp_path).uploads == first.uploads
    (tmp_path / "other").mkdir()
    changed = dataflow_job(tmp_path / "other", seed=7)
    second = launch_request(changed, worker_options(changed, load_machines()), TEMPLATE)
    assert parameter(second)["parameters"] != parameter(first)["parameters"]
    assert {"seed": 42}.items() <= yaml.safe_load(list(first.uploads.values())[-1]).items()


def test_a_busy_service_is_asked_again(
    tmp_path: Path, endpoint: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pipeline.cloud.launching.time.sleep", lambda seconds: None)
    endpoint.failures = [(503, "try later"), (429, "quota")]
    submit(sendable(request_for(tmp_path), endpoint), no_auth=True)
    assert len(endpoint.paths) == 3
    assert len(endpoint.launches) == 1


def test_a_service_that_cannot_be_reached_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pipeline.cloud.launching.time.sleep", lambda seconds: None)
    request = LaunchRequest("http://localhost:9/launch", {"launchParameter": {}}, {})
    with pytest.raises(LaunchError, match=r"localhost:9/launch cannot be reached \(Connection"):
        submit(request, no_auth=True)


def test_a_machine_without_credentials_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _forget_credentials(tmp_path, monkeypatch)
    with pytest.raises(LaunchError, match="no Google credentials; log in with `gcloud"):
        submit(LaunchRequest("http://localhost:9/launch", {}, {}))


def _forget_credentials(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GOOGLE_APPLICATION_CREDENTIALS", raising=False)
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(folder))
    monkeypatch.setenv("NO_GCE_CHECK", "true")


@pytest.mark.parametrize(
    ("status", "remedy"),
    [
        (401, "gcloud auth application-default login"),
        (403, r"act as worker@test-project\.iam"),
        (404, "check project, region and template gs://bucket/templates/onepass.json"),
        (409, "a job named onepass-nightly is running"),
        (400, r"see dataflow/README\.md"),
    ],
)
def test_a_refusal_is_explained(
    status: int, remedy: str, tmp_path: Path, endpoint: Service
) -> None:
    endpoint.failures = [(status, "because of this")]
    with pytest.raises(
        LaunchError, match=f"Dataflow answered {status} .*because of this; .*{remedy}"
    ):
        submit(sendable(request_for(tmp_path), endpoint), no_auth=True)


def sendable(request: LaunchRequest, endpoint: Service) -> LaunchRequest:
    """The request to the stand-in, without uploads."""
    path = request.url.removeprefix("https://dataflow.googleapis.com")
    return LaunchRequest(endpoint.url + path, request.body, {})


@pytest.mark.parametrize(
    ("name", "expected"),
    [("nightly", "onepass-nightly"), ("Über_Nacht.2", "onepass-ber-nacht-2"), ("a" * 60, "onepass-" + "a" * 30)],  # noqa: E501
)  # fmt: skip
def test_job_names_are_ones_dataflow_takes(name: str, expected: str) -> None:
    assert job_name(name) == expected
