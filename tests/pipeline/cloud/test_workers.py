"""Options of Dataflow workers: what is completed, and everything that is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pipeline.cloud.workers import worker_options
from pipeline.estimating.machines import load_machines
from pipeline.jobs.running import pipeline_options
from pipeline.yaml_files import ConfigError
from tests.dataflow.jobs import dataflow_job

MACHINES = load_machines()


def test_one_process_few_threads_and_a_disk_for_the_weights(tmp_path: Path) -> None:
    options = worker_options(dataflow_job(tmp_path), MACHINES)
    assert options["experiments"] == ["no_use_multiple_sdk_containers"]
    assert options["number_of_worker_harness_threads"] == 4
    assert options["machine_type"] == "c4-standard-24"
    assert options["disk_size_gb"] == 200
    assert "disk_type" not in options  # C4 takes Hyperdisk only; Dataflow chooses it
    assert options["sdk_location"] == "container"


def test_a_job_run_without_a_template_has_the_same_workers(tmp_path: Path) -> None:
    loaded = dataflow_job(tmp_path)
    found = pipeline_options(loaded).get_all_options()
    completed = worker_options(loaded, MACHINES)
    assert {name: found[name] for name in completed} == completed


def test_c3_gets_a_persistent_ssd(tmp_path: Path) -> None:
    job = dataflow_job(tmp_path, options={"machine_type": "c3-standard-44"})
    disk = worker_options(job, MACHINES)["disk_type"]
    assert disk == "compute.googleapis.com/projects//zones//diskTypes/pd-ssd"


def test_what_the_job_states_stays(tmp_path: Path) -> None:
    stated = {"experiments": ["shuffle_mode=service"], "disk_size_gb": 500, "disk_type": "hyper"}
    options = worker_options(dataflow_job(tmp_path, options=stated), MACHINES)
    expected = {**stated, "experiments": ["shuffle_mode=service", "no_use_multiple_sdk_containers"]}
    assert {name: options[name] for name in stated} == expected


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"project": None}, "options.project: is missing; Dataflow needs it"),
        ({"project": "PROJECT"}, "options.project: PROJECT still says PROJECT; write yours"),
        ({"project": "My Project"}, "options.project: My Project is not a project id"),
        ({"temp_location": "gs://BUCKET/temp"}, "options.temp_location: gs://BUCKET/temp still"),
        ({"sdk_container_image": None}, "options.sdk_container_image: is missing"),
        ({"temp_location": "/tmp/x"}, "options.temp_location: /tmp/x is local"),
        ({"machine_type": "n1-standard-4"}, "n1-standard-4 is not in configs/machines.yaml; use"),
        ({"disk_type": "compute.googleapis.com/projects//zones//diskTypes/pd-ssd"}, "Hyperdisk"),
        ({"resource_hints": ["min_ram=100GB"]}, "would choose the machine by them"),
        ({"experiments": ["use_multiple_sdk_containers"]}, "one model per vCPU"),
    ],
)  # fmt: skip
def test_what_cannot_work_is_refused(options: dict[str, Any], problem: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as error:
        worker_options(dataflow_job(tmp_path, options=options), MACHINES)
    assert len(error.value.problems) == 1
    assert problem in error.value.problems[0]


def test_a_machine_without_amx_is_refused_when_the_build_requires_it(tmp_path: Path) -> None:
    machines = MACHINES.model_copy(
        update={"families": {"c4": MACHINES.families["c4"].model_copy(update={"amx": False})}}
    )
    with pytest.raises(ConfigError, match="c4-standard-24 has no AMX, which build fast requires"):
        worker_options(dataflow_job(tmp_path), machines)


def test_all_problems_come_together(tmp_path: Path) -> None:
    bare = dict.fromkeys(("project", "region", "temp_location", "machine_type"))
    with pytest.raises(ConfigError) as error:
        worker_options(dataflow_job(tmp_path, options=bare), MACHINES)
    assert len(error.value.problems) == 4


def test_the_model_of_a_build_copied_from_here_is_to_be_filled_in(tmp_path: Path) -> None:
    job = dataflow_job(tmp_path)
    build = job.build.model_copy(update={"model": "gs://BUCKET/models/m"})
    with pytest.raises(ConfigError, match=r"build fast: model: gs://BUCKET/models/m still says"):
        worker_options(replace(job, build=build), MACHINES)
