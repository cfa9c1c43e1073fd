"""What the README shows is what there is."""

from __future__ import annotations

import re
from pathlib import Path

import yaml
from typer.main import get_command

from pipeline.cli import app
from pipeline.jobs.config import Job
from pipeline.output.tables import TABLES
from rubrics.model import Rubric

README = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")


def example(first_line: str) -> str:
    """The indented block of the README that starts with this line."""
    lines = README.splitlines()
    start = lines.index(f"    {first_line}")
    block = []
    for line in lines[start:]:
        if line and not line.startswith("    "):
            break
        block.append(line[4:])
    return "\n".join(block)


def test_every_command_it_names_exists_and_none_is_missing() -> None:
    there = {n for n, c in get_command(app).commands.items() if not c.hidden}  # type: ignore[attr-defined]
    assert set(re.findall(r"onepass ([a-z]+)", README)) == there


def test_its_job_is_a_job() -> None:
    job = Job.model_validate({"name": "job", **yaml.safe_load(example("# job.yaml"))})
    assert job == Job.model_validate(
        {"name": "job", "build": job.build, "rubrics": job.rubrics, "input": job.input}
        | {"output": job.output}
    ), "the values shown are the defaults"


def test_its_rubric_is_a_rubric() -> None:
    rubric = Rubric.model_validate(yaml.load(example("id: triage"), yaml.BaseLoader))
    assert [q.id for q in rubric.questions] == ["topic", "urgent"]


def test_it_names_every_table() -> None:
    assert all(f"`{name}`" in README for name in TABLES)
