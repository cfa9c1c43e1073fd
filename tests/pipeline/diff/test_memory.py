from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest


def measured(folder: Path, decisions: int, *flags: str) -> dict[str, float]:
    """Figures of a comparison in a process of its own, so that the peak is its own."""
    script = [sys.executable, "-m", "tests.pipeline.big_runs"]
    subprocess.run([*script, "write", str(folder), str(decisions), *flags], check=True)
    done = subprocess.run(
        [*script, "compare", str(folder)], check=True, capture_output=True, text=True
    )
    found: dict[str, float] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("flags", [(), ("--shifted",)])
def test_memory_does_not_grow_with_the_number_of_pairs(
    tmp_path: Path, flags: tuple[str, ...]
) -> None:
    """Four times the decisions, in four times the parts; `--shifted` makes every row move."""
    few = measured(tmp_path / "few", 10_000, *flags)
    many = measured(tmp_path / "many", 40_000, *flags)
    assert (few["pairs"], many["pairs"]) == (10_000, 40_000)
    assert many["peak_mib"] < few["peak_mib"] + 50
