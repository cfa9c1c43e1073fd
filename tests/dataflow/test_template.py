"""`metadata.json`: every parameter of a job, in the service's own schema, with tight patterns."""

from __future__ import annotations

import json
import re
import runpy
import sys
from pathlib import Path
from typing import Any

import pytest
from google.cloud import dataflow_v1beta3

import dataflow
from dataflow.launcher import OVERRIDES, _parser
from pipeline.jobs.config import Job

FOLDER = Path(dataflow.__file__).parent
METADATA: dict[str, Any] = json.loads((FOLDER / "metadata.json").read_text(encoding="utf-8"))
PARAMETERS = {parameter["name"]: parameter for parameter in METADATA["parameters"]}


def test_the_service_knows_every_field() -> None:
    parsed = dataflow_v1beta3.TemplateMetadata.from_json(json.dumps(METADATA))
    assert [p.name for p in parsed.parameters] == list(PARAMETERS)
    assert not parsed.streaming


def test_every_key_of_a_job_is_a_parameter_and_every_parameter_is_read() -> None:
    assert set(OVERRIDES) == set(Job.model_fields) - {"name", "runner", "options"}
    assert set(PARAMETERS) == {"job", "time_zone", "resume", *OVERRIDES}
    read = {action.dest for action in _parser()._actions} - {"help"}
    assert read == set(PARAMETERS)


def test_everything_but_the_job_may_be_left_out() -> None:
    assert [name for name, p in PARAMETERS.items() if not p["isOptional"]] == ["job"]


@pytest.mark.parametrize("parameter", PARAMETERS.values(), ids=lambda p: p["name"])
def test_parameters_explain_themselves(parameter: dict[str, Any]) -> None:
    assert parameter["label"]
    assert parameter["helpText"].endswith(".")
    assert parameter["groupName"]
    assert parameter.get("regexes") or parameter["paramType"] == "ENUM"


def options_of(name: str) -> set[str]:
    return {option["value"] for option in PARAMETERS[name]["enumOptions"]}


def test_choices_are_the_jobs() -> None:
    for name in ("dialect", "on_too_long"):
        annotation = Job.model_fields[name].annotation
        assert options_of(name) == set(annotation.__args__)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("job", ["gs://b/jobs/x.yaml", "nightly"], ["", "/local/x.yaml", "gs://b/x.json"]),
        ("input", ["gs://b/in/*.jsonl", "gs://b/a, gs://c/b"], ["/local", "gs://b/a,,"]),
        ("output", ["gs://b/out"], ["out"]),
        ("samples", ["1", "32"], ["0", "33", "1.5"]),
        ("seed", ["0", "42"], ["-1"]),
        ("limit", ["1", "5000"], ["0", "x"]),
        ("max_error_rate", ["0", "0.01", "1", "1.0", ".5"], ["2", "-0.1", "1.1", ""]),
        ("records_per_part", ["1", "100000"], ["0", "1000000"]),
        ("run_date", ["2026-11-29"], ["2026-13-01", "29.11.2026"]),
        ("time_zone", ["UTC", "America/Toronto", "Etc/GMT+5"], ["", "x y"]),
        ("resume", ["true", "false"], ["True", "1"]),
        ("rubrics", ["triage", "triage,gs://b/r.yaml"], ["", "a,,b"]),
        ("build", ["single_pass", "gs://b/build.yaml"], ["/x.yaml", ""]),
    ],
)
def test_patterns(name: str, good: list[str], bad: list[str]) -> None:
    patterns = PARAMETERS[name]["regexes"]
    for value in good:
        assert all(re.fullmatch(pattern, value) for pattern in patterns), value
    for value in bad:
        assert not all(re.fullmatch(pattern, value) for pattern in patterns), value


def test_the_launchers_file_starts_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["main.py", "--job", "no-such-job"])
    with pytest.raises(SystemExit, match="job no-such-job: none ships by that name"):
        runpy.run_path(str(FOLDER / "main.py"), run_name="__main__")
