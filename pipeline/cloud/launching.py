"""A job as a request to Dataflow: what is uploaded, what is sent, and what comes back.

A Flex Template is launched with the path of a job file. That file and all it refers to (build,
rubrics) are uploaded to a folder named after their content, so that a schedule keeps running what
was reviewed, whatever happens to the files it was made from.
"""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

from pipeline import storage
from pipeline.jobs.config import Job, LoadedJob

_SERVICE = "https://dataflow.googleapis.com"
_SCOPE = "https://www.googleapis.com/auth/cloud-platform"
_LOGIN = "log in with `gcloud auth application-default login`"
_ATTEMPTS = 4
_PASSING = (429, 500, 502, 503, 504)

# Beam option -> field of the request's environment.
_ENVIRONMENT = {
    "num_workers": "numWorkers",
    "max_num_workers": "maxWorkers",
    "machine_type": "machineType",
    "disk_size_gb": "diskSizeGb",
    "temp_location": "tempLocation",
    "staging_location": "stagingLocation",
    "service_account_email": "serviceAccountEmail",
    "sdk_container_image": "sdkContainerImage",
    "network": "network",
    "subnetwork": "subnetwork",
    "worker_region": "workerRegion",
    "worker_zone": "workerZone",
    "dataflow_kms_key": "kmsKeyName",
    "experiments": "additionalExperiments",
}
_ENUMS = {
    "flexrs_goal": (
        "flexrsGoal",
        {"COST_OPTIMIZED": "FLEXRS_COST_OPTIMIZED", "SPEED_OPTIMIZED": "FLEXRS_SPEED_OPTIMIZED"},
    ),
    "autoscaling_algorithm": (
        "autoscalingAlgorithm",
        {"NONE": "AUTOSCALING_ALGORITHM_NONE", "THROUGHPUT_BASED": "AUTOSCALING_ALGORITHM_BASIC"},
    ),
    "use_public_ips": ("ipConfiguration", {True: "WORKER_IP_PUBLIC", False: "WORKER_IP_PRIVATE"}),
}  # fmt: skip


PARAMETERS = (
    *(name for name in Job.model_fields if name not in ("name", "runner", "options")),
    "time_zone",
    "resume",
)
"""What a launch may say besides its job: keys of a job, where it is today, whether to resume."""


class LaunchError(RuntimeError):
    """Dataflow did not take the job; the message says why, and what to do."""


@dataclass(frozen=True)
class LaunchRequest:
    """Everything a launch does.

    Attributes:
        url: where the body is posted.
        body: the request of `flexTemplates.launch`.
        uploads: path -> content of the files the job consists of.
    """

    url: str
    body: Mapping[str, Any]
    uploads: Mapping[str, bytes] = field(repr=False)


def launch_request(
    loaded: LoadedJob,
    options: Mapping[str, Any],
    template: str,
    parameters: Mapping[str, str] | None = None,
) -> LaunchRequest:
    """The request that launches `loaded` through the Flex Template at `template` (`gs://`).

    `options` are the job's, completed by `pipeline.cloud.workers.worker_options`; `parameters` are
    further ones of the template, out of `PARAMETERS`.
    """
    folder = str(options.get("staging_location") or options["temp_location"]).rstrip("/")
    job_path, uploads = _bundle(loaded, f"{folder}/jobs")
    service = str(options.get("dataflow_endpoint") or _SERVICE).rstrip("/")
    place = f"projects/{options['project']}/locations/{options['region']}"
    body = {
        "launchParameter": {
            "jobName": job_name(loaded.job.name),
            "containerSpecGcsPath": template,
            "parameters": {**(parameters or {}), "job": job_path},
            "environment": _environment(options),
        },
        "validateOnly": False,
    }
    return LaunchRequest(f"{service}/v1b3/{place}/flexTemplates:launch", body, uploads)


def job_name(name: str) -> str:
    """A name Dataflow accepts. It is the same every time: of one name only one job may be active,
    so a run that takes too long is not overtaken by the next.

    >>> job_name("Nightly_2")
    'onepass-nightly-2'
    """
    return "onepass-" + re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:30].rstrip("-")


def upload(request: LaunchRequest) -> None:
    """Put the job's files where the request says they are; raises `LaunchError`."""
    from google.api_core.exceptions import GoogleAPIError
    from google.cloud.storage.exceptions import InvalidResponse

    for path, content in request.uploads.items():
        try:
            storage.write_atomic(path, content)
        except (GoogleAPIError, InvalidResponse, OSError) as error:
            raise LaunchError(
                f"{path} cannot be written ({type(error).__name__}); check that the bucket of "
                f"staging_location exists and that you may write to it, or {_LOGIN}"
            ) from error


def submit(request: LaunchRequest, *, no_auth: bool = False) -> dict[str, Any]:
    """Upload, launch, and return the job as Dataflow describes it; raises `LaunchError`.

    Tried again while the service is briefly unavailable; the job's name keeps a request that was
    taken without an answer from running twice.
    """
    upload(request)
    response = _post(_session(no_auth), request)
    if response.status_code != 200:
        raise LaunchError(_explain(response.status_code, response.text, request))
    job: dict[str, Any] = response.json()["job"]
    return job


def _post(session: Any, request: LaunchRequest) -> Any:
    from google.auth.exceptions import GoogleAuthError
    from requests import RequestException

    problem = ""
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            response = session.post(request.url, json=dict(request.body), timeout=60)
        except RequestException as error:
            problem = f"{request.url} cannot be reached ({type(error).__name__}); check the network"
        except GoogleAuthError as error:
            raise LaunchError(f"Google refuses these credentials ({error}); {_LOGIN}") from None
        else:
            problem = ""
            if response.status_code not in _PASSING:
                return response
        if attempt < _ATTEMPTS:
            time.sleep(2**attempt)
    if problem:
        raise LaunchError(problem)
    return response


def _session(no_auth: bool) -> Any:
    if no_auth:
        import requests

        return requests.Session()
    import google.auth
    from google.auth.exceptions import DefaultCredentialsError
    from google.auth.transport.requests import AuthorizedSession

    try:
        credentials, _ = google.auth.default(scopes=[_SCOPE])
    except DefaultCredentialsError:
        raise LaunchError(f"this machine has no Google credentials; {_LOGIN}") from None
    return AuthorizedSession(credentials)  # type: ignore[no-untyped-call]


def _explain(status: int, text: str, request: LaunchRequest) -> str:
    try:
        said = json.loads(text)["error"]["message"]
    except (ValueError, KeyError, TypeError):
        said = "no explanation"
    parameter = request.body["launchParameter"]
    remedy = {
        401: _LOGIN,
        403: "you need roles/dataflow.developer, and to act as "
        f"{parameter['environment'].get('serviceAccountEmail', 'the worker service account')}",
        404: f"check project, region and template {parameter['containerSpecGcsPath']}",
        409: f"a job named {parameter['jobName']} is running; wait for it or cancel it",
    }.get(status, "see dataflow/README.md")
    return f"Dataflow answered {status} to {request.url}: {said}; {remedy}"


def _environment(options: Mapping[str, Any]) -> dict[str, Any]:
    found = {
        name: options[option]
        for option, name in _ENVIRONMENT.items()
        if options.get(option) is not None
    }
    for option, (name, values) in _ENUMS.items():
        if options.get(option) is not None:
            found[name] = values[options[option]]  # type: ignore[index]
    labels = [label.partition("=") for label in options.get("labels") or ()]
    found["additionalUserLabels"] = {"program": "onepass", **{k: v for k, _, v in labels}}
    return found


def _bundle(loaded: LoadedJob, folder: str) -> tuple[str, dict[str, bytes]]:
    """(path of the job file, path -> content): the job with everything it names."""
    job, build = loaded.job, loaded.build
    named = {f"builds/{build.name}.yaml": build.model_dump(mode="json", exclude={"name"})}
    for number, rubric in enumerate(loaded.rubrics):  # ids may hold what a file name may not
        named[f"rubrics/{number:02}.yaml"] = rubric.model_dump(mode="json", exclude_none=True)
    stated = job.model_dump(mode="json", exclude={"name"}, exclude_none=True)
    digest = hashlib.sha256(_yaml([stated, named])).hexdigest()[:16]
    home = f"{folder}/{digest}"
    stated["build"] = f"{home}/builds/{build.name}.yaml"
    stated["rubrics"] = [f"{home}/{name}" for name in named if name.startswith("rubrics/")]
    path = f"{home}/{job.name}.yaml"
    files = {f"{home}/{name}": _yaml(content) for name, content in named.items()}
    return path, {**files, path: _yaml(stated)}


def _yaml(content: Any) -> bytes:
    return yaml.safe_dump(content, sort_keys=True, allow_unicode=True).encode()
