"""`onepass bench`, from the command line; --quick runs of everything that needs an engine."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from pipeline.bench.results import read_result
from pipeline.cli import app


def bench(*arguments: str, code: int = 0) -> str:
    result = CliRunner().invoke(app, ["bench", *arguments])
    assert result.exit_code == code, result.output
    return result.output


def test_cost_needs_no_engine(tmp_path: Path) -> None:
    output = tmp_path / "cost.json"
    printed = bench("cost", "--json", "--output", str(output))
    assert json.loads(printed)["bench"] == "cost"
    assert read_result(output).summary["always_on"]


def test_cost_prices_throughput_results_only(tmp_path: Path) -> None:
    output = tmp_path / "cost.json"
    bench("cost", "--output", str(output))
    assert "not a throughput one" in bench(
        "cost", "--result", str(output), "--output", str(tmp_path / "again.json"), code=2
    )


def test_unknown_names_are_refused_before_anything_starts() -> None:
    assert "formats are original" in bench("latency", "--format", "jev", code=2)
    assert "use onepass, stock" in bench("peers", "--peer", "ray", code=2)
    assert "use items, workload" in bench("steps", "--reads", "jevbench", code=2)


@pytest.mark.engine
@pytest.mark.parametrize("command", ["steps", "latency", "throughput", "batches", "roofline"])
def test_quick_runs_of_engines(command: str, tmp_path: Path) -> None:
    output = tmp_path / f"{command}.json"
    bench(command, "--quick", "--output", str(output))
    result = read_result(output)
    assert (result.bench, result.size) == (command, "quick")
    assert result.samples
    assert result.summary
    assert result.configuration["model"] == "tiny"
    if command == "steps":
        (serial,) = (
            row
            for row in result.summary["steps"]
            if (row["set"], row["mode"]) == ("items", "one at a time")
        )
        assert (serial["off"], serial["on"], serial["counts_agree"]) == (16, 8, True)


@pytest.mark.engine
def test_quick_run_of_peers(tmp_path: Path) -> None:
    output = tmp_path / "peers.json"
    bench("peers", "--quick", "--output", str(output))
    summary = read_result(output).summary
    rows = {row["peer"]: row for row in summary["peers"]}
    assert set(rows) == {"onepass", "stock", "reference", "beam", "systemone"}
    assert {row["decisions"] for row in rows.values()} == {16}
    assert all(row["memory_gib"] > 0.1 for row in rows.values())
    assert set(summary["agreement"]) == {"stock", "reference", "beam"}
    for found in summary["agreement"].values():
        assert found["same_decision"] == found["slots"] == 16
        assert found["largest_probability_difference"] < 1e-4
