"""What the pages tell people to type exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import typer

from dataflow.bigquery.__main__ import app as bigquery
from pipeline.cli import app as onepass

FOLDER = Path(__file__).parents[2] / "dataflow"
COMMANDS = {
    "onepass": typer.main.get_command(onepass),
    "python -m dataflow.bigquery": typer.main.get_command(bigquery),
}


def lines(page: Path) -> list[str]:
    blocks = re.findall(r"^```\n(.*?)^```", page.read_text(), re.M | re.S)
    text = "".join(blocks).replace("\\\n", " ")
    return [line for line in text.splitlines() if line.startswith(tuple(COMMANDS))]


@pytest.mark.parametrize("page", [FOLDER / "README.md", FOLDER / "bigquery/README.md"], ids=str)
def test_every_command_and_option_exists(page: Path) -> None:
    found = lines(page)
    assert len(found) >= 2
    for line in found:
        program = next(name for name in COMMANDS if line.startswith(name))
        name = line.removeprefix(program).split()[0]
        group = COMMANDS[program]
        command = group.commands[name]  # type: ignore[attr-defined]
        known = {option for parameter in command.params for option in parameter.opts}
        assert set(re.findall(r"(--[a-z-]+)", line)) <= known, line


def test_every_file_named_exists() -> None:
    text = (FOLDER / "README.md").read_text()
    names = re.findall(
        r"`((?:configs|dataflow|bigquery|terraform|image)/[\w./-]*|\w+\.(?:py|json|txt))`", text
    )
    assert len(names) > 6
    for name in names:
        assert (FOLDER / name).exists() or (FOLDER.parent / name).exists(), name


def test_every_variable_set_is_one() -> None:
    variables = (FOLDER / "terraform/variables.tf").read_text()
    for name in re.findall(r"-var '?(\w+)=", (FOLDER / "README.md").read_text()):
        assert f'variable "{name}"' in variables
