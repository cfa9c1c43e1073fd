"""`onepass bench`, from the command line; --quick runs of everything that needs an engine."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pipeline.bench.results import read_result
from tests.pipeline.command_line import onepass


def test_cost_needs_no_engine(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = tmp_path / "cost.json"
    assert onepass("bench", "cost", "--json", "--output", str(output)) == 0
    assert json.loads(capsys.readouterr().out)["bench"] == "cost"
    assert read_result(output).summary["always_on"]


def test_cost_prices_throughput_results_only(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output, again = tmp_path / "cost.json", tmp_path / "again.json"
    onepass("bench", "cost", "--output", str(output))
    assert onepass("bench", "cost", "--result", str(output), "--output", str(again)) == 2
    assert "not a throughput" in capsys.readouterr().err
    assert not again.exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("latency", "--format", "jev"), "formats are original"),
        (("peers", "--peer", "ray"), "use onepass, stock"),
        (("steps", "--reads", "jevbench"), "use items, workload"),
    ],
)
def test_unknown_names_are_refused_before_anything_starts(
    arguments: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert onepass("bench", *arguments) == 2
    assert message in " ".join(capsys.readouterr().err.split())


@pytest.mark.engine
@pytest.mark.parametrize(
    ("command", "options"),
    [
        ("steps", ()),
        ("latency", ("--no-flag-off",)),
        ("throughput", ()),
        ("batches", ()),
        ("roofline", ()),
    ],
)
def test_quick_runs_of_engines(command: str, options: tuple[str, ...], tmp_path: Path) -> None:
    output = tmp_path / f"{command}.json"
    assert onepass("bench", command, "--quick", *options, "--output", str(output)) == 0
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
@pytest.mark.peers
def test_quick_run_of_peers(tmp_path: Path) -> None:
    """Of those that are servers; what the others start, `batches` and the engine's tests do."""
    output = tmp_path / "peers.json"
    chosen = ("onepass", "beam", "systemone")
    arguments = [argument for name in chosen for argument in ("--peer", name)]
    assert onepass("bench", "peers", "--quick", *arguments, "--output", str(output)) == 0
    summary = read_result(output).summary
    rows = {row["peer"]: row for row in summary["peers"]}
    assert set(rows) == set(chosen)
    assert {row["decisions"] for row in rows.values()} == {16}
    assert all(row["memory_gib"] > 0.1 for row in rows.values())
    assert set(summary["agreement"]) == {"beam"}
    found = summary["agreement"]["beam"]
    assert found["same_decision"] == found["slots"] == 16
    assert found["largest_probability_difference"] < 1e-4
