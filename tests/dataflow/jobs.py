"""Jobs for tests: a Dataflow job whose every file is in a temporary folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from pipeline.jobs.config import LoadedJob, load_job

OPTIONS: dict[str, Any] = {
    "project": "test-project",
    "region": "us-east4",
    "temp_location": "gs://bucket/temp",
    "staging_location": "gs://bucket/staging",
    "machine_type": "c4-standard-24",
    "sdk_container_image": "us-east4-docker.pkg.dev/test-project/onepass/onepass:0.1.0",
    "service_account_email": "worker@test-project.iam.gserviceaccount.com",
    "max_num_workers": 4,
    "use_public_ips": False,
    "labels": ["team=quality"],
}
BUILD = {"model": "tiny", "single_pass_reads": True, "require_amx": True}


def dataflow_job(
    folder: Path, *, options: dict[str, Any] | None = None, **changes: Any
) -> LoadedJob:
    """A loaded job; `options` change `OPTIONS` (None removes one), `changes` change the job."""
    build = folder / "fast.yaml"
    build.write_text(yaml.safe_dump(BUILD))
    stated = {**OPTIONS, **(options or {})}
    job = {
        "build": str(build),
        "rubrics": ["triage"],
        "input": "gs://bucket/conversations/*.jsonl",
        "output": "gs://bucket/out",
        "runner": "DataflowRunner",
        "options": {name: value for name, value in stated.items() if value is not None},
        **changes,
    }
    path = folder / "nightly.yaml"
    path.write_text(yaml.safe_dump(job))
    return load_job(path)
