"""What every Dataflow worker needs, and what must not be asked of one.

One Python process per machine with few threads: one model, and no rival for the cores its engine
uses. The machine is the one the job names: hints about memory or cores would let Dataflow choose
another, without AMX.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pipeline.estimating.machines import Machines
from pipeline.jobs.config import LoadedJob
from pipeline.yaml_files import ConfigError

ONE_PROCESS = "no_use_multiple_sdk_containers"
_REQUIRED = ("project", "region", "temp_location", "machine_type", "sdk_container_image")
_PLACEHOLDERS = ("PROJECT", "REGION", "BUCKET")
_HARNESS_THREADS = 4
# An element is a part: reading the weights, loading them and deciding its records must fit, or the
# worker would be taken for stuck and killed.
_ELEMENT_MINUTES = 240


def worker_options(loaded: LoadedJob, machines: Machines) -> dict[str, Any]:
    """The job's Beam options, completed for Dataflow workers; raises `ConfigError`.

    What the job states stays, unless it cannot work: then it is a problem.
    """
    options = loaded.job.options
    problems = _problems(loaded, options, machines)
    if problems:
        raise ConfigError(problems)
    family = machines.family(str(options["machine_type"]))
    completed: dict[str, Any] = {
        "number_of_worker_harness_threads": _HARNESS_THREADS,
        "element_processing_timeout_minutes": _ELEMENT_MINUTES,
        "disk_size_gb": family.disk_size_gb,
        **options,
        "runner": "DataflowRunner",
        "experiments": [*dict.fromkeys([*strings(options.get("experiments")), ONE_PROCESS])],
        "sdk_location": "container",
    }
    if family.disk_type:
        completed.setdefault("disk_type", _disk_path(family.disk_type))
    return completed


def _problems(loaded: LoadedJob, options: Mapping[str, Any], machines: Machines) -> list[str]:
    where = f"job {loaded.job.name}: options."
    problems = [f"{where}{name}: is missing; Dataflow needs it" for name in _REQUIRED
                if not options.get(name)]  # fmt: skip
    problems += _placeholder_problems(loaded, options)
    project = options.get("project")
    if project and project not in _PLACEHOLDERS and not re.fullmatch(r"[a-z0-9.:-]+", str(project)):
        problems.append(f"{where}project: {project} is not a project id; write yours")
    temp = str(options.get("temp_location") or "gs://")
    if not temp.startswith("gs://"):
        problems.append(f"{where}temp_location: {temp} is local; use a gs:// folder")
    if options.get("resource_hints"):
        problems.append(
            f"{where}resource_hints: Dataflow would choose the machine by them and ignore "
            "machine_type; remove them"
        )
    if "use_multiple_sdk_containers" in strings(options.get("experiments")):
        problems.append(
            f"{where}experiments: use_multiple_sdk_containers would load one model per vCPU; "
            "remove it"
        )
    machine_type = options.get("machine_type")
    if machine_type:
        problems += _machine_problems(where, str(machine_type), loaded, options, machines)
    return problems


def _placeholder_problems(loaded: LoadedJob, options: Mapping[str, Any]) -> list[str]:
    """What was copied from the job and the build that ship and not filled in."""
    job = f"job {loaded.job.name}: "
    values = {f"{job}input": loaded.job.input, f"{job}output": loaded.job.output}
    values |= {f"{job}options.{name}": value for name, value in options.items()}
    values[f"build {loaded.build.name}: model"] = loaded.build.model
    return [
        f"{where}: {value} still says {found[0]}; write yours"
        for where, value in values.items()
        if (found := re.search(rf"\b({'|'.join(_PLACEHOLDERS)})\b", str(value)))
    ]


def _machine_problems(
    where: str,
    machine_type: str,
    loaded: LoadedJob,
    options: Mapping[str, Any],
    machines: Machines,
) -> list[str]:
    if machine_type not in machines.machines:
        known = ", ".join(sorted(machines.machines))
        return [
            f"{where}machine_type: {machine_type} is not in configs/machines.yaml; "
            f"use {known}, or add it there"
        ]
    problems = []
    name = machines.shape(machine_type).family
    if loaded.build.require_amx and not machines.families[name].amx:
        problems.append(
            f"{where}machine_type: {machine_type} has no AMX, which build {loaded.build.name} "
            "requires"
        )
    if name == "c4" and "pd-" in str(options.get("disk_type", "")):
        problems.append(
            f"{where}disk_type: C4 machines take Hyperdisk only; remove it or name a Hyperdisk"
        )
    return problems


def _disk_path(disk_type: str) -> str:
    """The form Dataflow wants; project and zone are filled in by the service."""
    return f"compute.googleapis.com/projects//zones//diskTypes/{disk_type}"


def strings(value: Any) -> list[str]:
    """A list of Beam's, however it was written: list, text with commas, or nothing."""
    if value is None:
        return []
    return value.split(",") if isinstance(value, str) else [str(item) for item in value]
