"""The Terraform configuration: it hangs together, grants no more than the README says, and the
schedule sends exactly what `onepass launch` would."""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import hcl2
import pytest

from pipeline.cloud.launching import launch_request
from pipeline.cloud.workers import worker_options
from pipeline.estimating.machines import load_machines
from tests.dataflow.jobs import dataflow_job

FOLDER = Path(__file__).parents[2] / "dataflow/terraform"
FILES = sorted(FOLDER.glob("*.tf"))
README = FOLDER.parent / "README.md"
TERRAFORM = shutil.which("terraform")


def unquoted(value: Any) -> Any:
    """The parser keeps quotes around names and strings; nothing here means them."""
    if isinstance(value, dict):
        return {
            unquoted(key): unquoted(item)
            for key, item in value.items()
            if not str(key).startswith("__")
        }
    if isinstance(value, list):
        return [unquoted(item) for item in value]
    return value.strip('"') if isinstance(value, str) else value


def blocks(kind: str) -> dict[str, dict[str, Any]]:
    """ "TYPE.NAME" (or "NAME") -> body of every block of a kind."""
    found: dict[str, dict[str, Any]] = {}
    for path in FILES:
        for block in unquoted(hcl2.loads(path.read_text())).get(kind, []):
            for name, body in block.items():
                if kind == "resource":
                    found |= {f"{name}.{label}": inner for label, inner in body.items()}
                else:
                    found[name] = body
    return found


def test_every_reference_leads_somewhere() -> None:
    text = "\n".join(path.read_text() for path in FILES)
    variables = blocks("variable")
    assert set(re.findall(r"\bvar\.(\w+)", text)) == set(variables)
    assert all(body["description"] for body in variables.values())
    resources = blocks("resource")
    assert set(re.findall(r"\b(google_\w+\.\w+)\b", text)) <= set(resources)
    local_names = {name for locals_ in _locals() for name in locals_}
    assert set(re.findall(r"\blocal\.(\w+)", text)) == local_names


def _locals() -> list[dict[str, Any]]:
    parsed = [unquoted(hcl2.loads(path.read_text())) for path in FILES]
    return [body for document in parsed for body in document.get("locals", [])]


def grants() -> set[tuple[str, str, str]]:
    """(identity, role, where) of everything that is granted."""
    found = set()
    for name, body in blocks("resource").items():
        if "_iam_member" not in name:
            continue
        identity = re.search(r"google_service_account\.(\w+)\.member", body["member"])
        assert identity, f"{name} grants to {body['member']}"
        where = name.split(".")[0].removeprefix("google_").removesuffix("_iam_member")
        found.add((identity[1], body["role"], where))
    return found


def test_identities_hold_what_the_readme_says_and_no_more() -> None:
    rows = re.findall(
        r"^\| (worker|scheduler) \| `(roles/[\w.]+)` \| (.+?) \|", README.read_text(), re.M
    )
    names = {
        "project": "project",
        "bucket": "storage_bucket",
        "images": "artifact_registry_repository",
        "worker identity": "service_account",
    }
    stated = {
        (identity, role, next(kind for word, kind in names.items() if where.startswith(word)))
        for identity, role, where in rows
    }
    assert grants() == stated
    broad = ("roles/owner", "roles/editor", "roles/viewer", "admin")
    assert not [role for _, role, where in grants() if where == "project" and role.endswith(broad)]
    assert "service_account_key" not in "\n".join(blocks("resource"))


def test_the_bucket_is_not_public() -> None:
    bucket = blocks("resource")["google_storage_bucket.onepass"]
    assert bucket["public_access_prevention"] == "enforced"
    assert bucket["uniform_bucket_level_access"] is True


def test_the_schedule_posts_the_request_as_the_scheduler() -> None:
    target = blocks("resource")["google_cloud_scheduler_job.onepass"]["http_target"][0]
    assert target["http_method"] == "POST"
    assert target["uri"] == "${each.value.url}"
    assert target["body"] == "${base64encode(jsonencode(each.value.body))}"
    assert (
        "google_service_account.scheduler.email"
        in target["oauth_token"][0]["service_account_email"]
    )


def test_failed_stuck_erring_and_unstarted_runs_are_told() -> None:
    policies = {
        name.split(".")[1]: json.dumps(body)
        for name, body in blocks("resource").items()
        if name.startswith("google_monitoring_alert_policy.")
    }
    assert set(policies) == {"failed", "stuck", "errors", "not_started"}
    assert "job/is_failed" in policies["failed"]
    assert "job/elapsed_time" in policies["stuck"]
    assert "job/user_counter" in policies["errors"]
    assert all("local.channels" in policy for policy in policies.values())


@pytest.mark.skipif(TERRAFORM is None, reason="terraform is not on PATH")
def test_format_is_terraforms_own() -> None:
    command = [str(TERRAFORM), "fmt", "-check", "-recursive", str(FOLDER)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.skipif(TERRAFORM is None, reason="terraform is not on PATH")
def test_what_the_schedule_sends_is_what_a_launch_sends(tmp_path: Path) -> None:
    """Terraform itself evaluates the configuration's own expressions, without a provider."""
    loaded = dataflow_job(tmp_path)
    options = worker_options(loaded, load_machines())
    request = launch_request(loaded, options, "gs://bucket/t.json", {"time_zone": "UTC"})
    written = {"url": request.url, "body": request.body}
    (tmp_path / "request.json").write_text(json.dumps(written))
    shutil.copy(FOLDER / "variables.tf", tmp_path)
    text = (FOLDER / "schedule.tf").read_text()
    (tmp_path / "locals.tf").write_text(text[: text.index("resource ")])
    job = {"request": "request.json", "schedule": "0 2 * * *"}
    values = {"project": "test-project", "region": "us-east4", "bucket": "b", "alert_emails": [],
              "jobs": {"nightly": job}}  # fmt: skip
    (tmp_path / "t.tfvars.json").write_text(json.dumps(values))

    def evaluated(expression: str) -> str:
        expression = expression.replace("each.value", 'local.launches["nightly"]')
        done = subprocess.run(
            [str(TERRAFORM), "console", "-var-file=t.tfvars.json"],
            input=expression,
            capture_output=True,
            text=True,
            check=True,
            cwd=tmp_path,
            env={**os.environ, "TF_CLI_CONFIG_FILE": os.devnull},
        )
        return done.stdout.strip().strip('"')

    scheduler = blocks("resource")["google_cloud_scheduler_job.onepass"]
    body = scheduler["http_target"][0]["body"].removeprefix("${").removesuffix("}")
    assert json.loads(base64.b64decode(evaluated(body))) == written["body"]
    assert evaluated("each.value.url") == request.url
    conditions = [check["condition"] for check in scheduler["lifecycle"][0]["precondition"]]
    (place,) = [found for found in conditions if "var.region" in found]
    assert evaluated(place.removeprefix("${").removesuffix("}").replace("\\", "")) == "true"
