"""The seed's cost figures, from its prices and rates, and the arithmetic beyond them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from pipeline.bench.cost import break_even, measured, run
from pipeline.bench.results import BenchResult
from pipeline.estimating.machines import load_machines


@pytest.fixture(scope="module")
def summary() -> dict[str, Any]:
    return run(load_machines(), [100_000, 1_000_000]).summary


def test_the_seeds_price_of_an_always_on_replica(summary: dict[str, Any]) -> None:
    found = {r["replica"]: round(r["dollars_per_1000"]["100000"], 2) for r in summary["always_on"]}
    assert found == {"c4-standard-24": 9.96, "2xl4": 16.74, "c3-highcpu-44": 17.93, "a100": 47.54}


def test_the_seeds_ratios(summary: dict[str, Any]) -> None:
    month = {r["replica"]: r["dollars_per_month"] for r in summary["always_on"]}
    assert round(100 * (1 - month["c4-standard-24"] / month["c3-highcpu-44"])) == 44
    assert round(100 * (1 - month["c4-standard-24"] / month["a100"])) == 79
    million = next(r for r in summary["always_on"] if r["replica"] == "c4-standard-24")
    full = next(r for r in summary["busy"] if r["load"] == "full")
    assert full["dollars_per_1000"] == 0.078
    assert round(million["dollars_per_1000"]["1000000"] / full["dollars_per_1000"]) == 13


def test_the_seeds_prices_at_concurrency_10(summary: dict[str, Any]) -> None:
    found = {
        r["replica"]: r["dollars_per_1000"]
        for r in summary["busy"]
        if r["load"] == "concurrency 10"
    }
    assert found["c4-standard-24"] == 0.088
    assert (found["2xl4"], found["a100"]) == (0.027, 0.046)
    assert round(1 - found["c4-standard-24"] / found["c3-highcpu-44"], 2) == 0.39


def test_break_even_is_where_the_bills_cross() -> None:
    volume = break_even(100, 10, 250, 100)
    assert volume == 20
    # At 20 two replicas still do for 200 dollars; the next decision needs a third.
    assert break_even(100, 10, 250, 20) is None
    assert break_even(100, 10, 100, 20) == 10


def test_a_gpu_pays_off_only_above_what_four_cpu_replicas_carry(summary: dict[str, Any]) -> None:
    rows = {(r["cheaper"], r["dearer"]): r["decisions_per_month"] for r in summary["break_even"]}
    c4 = next(r for r in summary["busy"] if r["load"] == "full")["decisions_per_month"]
    assert rows["c4-standard-24", "a100"] == pytest.approx(4 * c4)
    assert rows["c4-standard-24", "c3-highcpu-44"] is None


def test_batch_costs_less_than_a_replica_at_the_seeds_volume(summary: dict[str, Any]) -> None:
    batch = {r["machine"]: r for r in summary["batch"]}
    c4 = batch["c4-standard-24"]
    assert c4["dollars_per_1000_flexrs"] < c4["dollars_per_1000"] < 9.96
    assert c4["hours_per_100000"] == pytest.approx(100_000 / c4["decisions_per_second"] / 3600)


def test_a_measured_rate_gets_the_replicas_price() -> None:
    throughput = BenchResult(
        bench="throughput",
        date=datetime(2026, 11, 30, tzinfo=UTC),
        size="full",
        environment={},
        configuration={},
        samples=[],
        summary={
            "rows": [
                {
                    "set": "original",
                    "arm": "flag on",
                    "concurrency": 10,
                    "decisions_per_second": 996 / 730 / 3600 * 1000,
                }
            ]
        },
    )
    (row,) = measured(load_machines(), throughput, "c4-standard-24")
    assert row["dollars_per_1000"] == pytest.approx(1.0)
    with pytest.raises(KeyError, match="has no price"):
        measured(load_machines(), throughput, "c9")
