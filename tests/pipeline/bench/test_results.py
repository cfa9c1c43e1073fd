"""Result files, summaries of made-up samples, and the page that shows them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pipeline.bench import cost, latency, throughput
from pipeline.bench.results import BenchResult, Recorder, read_result
from pipeline.bench.roofline import predictions
from pipeline.bench.tables import tables
from pipeline.estimating.machines import load_machines
from pipeline.report.bench_page import bench_page


def latency_samples(faster: float) -> list[dict[str, Any]]:
    factors = {"baseline": 1.0, "baseline again": 1.01, "flag off": 1.0, "flag on": 1 - faster}
    return [
        {
            "set": name,
            "request": str(request),
            "arm": arm,
            "pass": number,
            "seconds": (0.5 + request / 10) * factor,
            "cpu_seconds": (1.0 + request / 5) * factor,
            "engine_seconds": (0.5 + request / 10) * factor * 0.98,
            "steps": 1 if arm == "flag on" else 2,
            "prompt_tokens": 200,
            "prompt_tokens_computed": 200,
        }
        for name in ("original", "compact")
        for request in range(6)
        for number in range(2)
        for arm, factor in factors.items()
    ]


def recorded(bench: Any, configuration: dict[str, Any], summary: dict[str, Any]) -> BenchResult:
    recorder = Recorder(bench, "full", {"model": "tiny", "dtype": "float32", **configuration})
    return recorder.finish(summary)


@pytest.fixture
def latency_result() -> BenchResult:
    samples = latency_samples(0.2)
    result = recorded(
        "latency",
        {"target_seconds": 1.0, "sets": {"original": {}, "compact": {}}},
        latency.summarise(samples, ["original", "compact"], 2, 1.0),
    )
    return result.model_copy(update={"samples": samples})


def test_latency_summary(latency_result: BenchResult) -> None:
    summary = latency_result.summary
    rows = summary["latency"]["original"]
    assert rows["baseline"]["over_target"] == 0
    assert rows["flag on"]["p50"] == pytest.approx(0.8 * rows["baseline"]["p50"])
    assert rows["flag on"]["share_outside_steps"] == pytest.approx(0.02)
    (change,) = (
        c
        for c in summary["changes"]
        if (c["set"], c["pass"], c["arm"]) == ("all", "all", "flag on")
    )
    assert change["change"] == pytest.approx(-0.2, abs=1e-6)
    assert summary["speedup"] == {"reported": True, "reason": None}
    assert summary["saved"]["original"]["removed_steps"] == 12
    assert summary["saved"]["original"]["seconds_per_removed_step"] == pytest.approx(0.15)


def test_a_speedup_below_the_repeats_difference_is_not_reported() -> None:
    summary = latency.summarise(latency_samples(0.005), ["original", "compact"], 2, 1.0)
    assert not summary["speedup"]["reported"]


def test_throughput_summary_finds_gain_and_saturation() -> None:
    samples = [
        {
            "set": "original",
            "concurrency": level,
            "arm": arm,
            "pass": 0,
            "seconds": 10 / rate,
            "reads": 10,
            "decisions": 40,
            "steps": 10,
            "latencies": [level / rate] * 10,
        }
        for arm, factor in (("flag off", 1.0), ("flag on", 1.1))
        for level, rate in ((1, 1 * factor), (5, 3.95 * factor), (10, 4 * factor))
    ]
    summary = throughput.summarise(samples)
    assert {round(g["throughput"], 6) for g in summary["gains"]} == {0.1}
    assert {s["concurrency"] for s in summary["saturation"]} == {5}
    assert summary["rows"][0]["decisions_per_second"] == pytest.approx(4.0)


def test_results_come_back_from_their_file(tmp_path: Path, latency_result: BenchResult) -> None:
    path = latency_result.write(latency_result.default_path(tmp_path))
    assert path.name.startswith("latency-tiny-")
    assert read_result(path) == latency_result
    assert not list(tmp_path.glob("*.part"))


def test_the_page_holds_figures_tables_and_the_seeds_numbers(latency_result: BenchResult) -> None:
    priced = cost.run(load_machines(), [100_000, 1_000_000])
    page = bench_page([latency_result, priced])
    assert page.count("<svg") == 2
    assert "the seed, C4, 24 vCPUs" in page
    assert "$47.54" in page
    assert "src=" not in page
    assert "http-equiv" not in page
    titles = [table.title for result in (latency_result, priced) for table in tables(result)]
    assert all(str(title) in page for title in titles)


def test_floors_of_the_released_model_lie_below_what_was_measured() -> None:
    rows = {(r["what"], r["machine"]): r for r in predictions()}
    typical = rows["a typical decision with the flag on", "c4-standard-24"]
    fastest, slowest = typical["floor_seconds"]
    assert fastest < 0.54
    assert fastest < slowest
    a100 = rows["a typical decision with the flag on", "a100"]
    assert a100["floor_seconds"][1] < fastest
