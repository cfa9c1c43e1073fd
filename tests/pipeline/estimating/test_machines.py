"""Prices: the figures of the League post, and Dataflow's arithmetic done by hand."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from pipeline.estimating.machines import load_machines

MACHINES = load_machines()
ALWAYS_ON = MACHINES.always_on


@pytest.mark.parametrize(
    ("replica", "stated"),
    [("c4-standard-24", 9.96), ("2xl4", 16.74), ("c3-highcpu-44", 17.93), ("a100", 47.54)],
)
def test_always_on_cost_at_100_000_decisions_a_month(replica: str, stated: float) -> None:
    assert round(ALWAYS_ON.dollars_per_1000(replica, 100_000), 2) == stated


def test_the_other_figures_of_the_post_agree() -> None:
    month = {name: r.dollars_per_month for name, r in ALWAYS_ON.replicas.items()}
    assert round(1 - month["c4-standard-24"] / month["c3-highcpu-44"], 2) == 0.44
    assert round(1 - month["c4-standard-24"] / month["a100"], 2) == 0.79
    busy = {(b.replica, b.load): b for b in ALWAYS_ON.busy}
    full = busy["c4-standard-24", "full"]
    idle = ALWAYS_ON.dollars_per_1000("c4-standard-24", 1_000_000)
    assert round(idle / full.dollars_per_1000) == 13
    c4, c3 = (busy[name, "concurrency 10"] for name in ("c4-standard-24", "c3-highcpu-44"))
    assert round(1 - c4.dollars_per_1000 / c3.dollars_per_1000, 2) == 0.39
    assert ALWAYS_ON.decisions_per_second(full) == pytest.approx(996 / 730 / 3600 / 0.078 * 1000)


def test_the_throughput_model_gives_back_the_figures_it_is_derived_from() -> None:
    c4, c3 = (MACHINES.throughput.machines[name] for name in ("c4-standard-24", "c3-standard-44"))
    assert c4.seconds(1, 344) == pytest.approx(0.54, rel=0.01)  # a read at concurrency 1
    assert 1 / c4.seconds(1 / 16, 344) == pytest.approx(4.86, rel=0.01)  # full load
    assert 1 / c3.seconds(1 / 10, 344) == pytest.approx(4.74, rel=0.01)
    for tokens, low, high in ((188, 0.21, 0.25), (1250, 0.12, 0.13)):
        assert low - 0.005 < 0.145 / (c3.seconds(1, tokens) + 0.145) < high + 0.015
    # Not an input of the derivation: C4 at concurrency 10 costs $0.088 per 1,000.
    ten = next(b for b in ALWAYS_ON.busy if b.load == "concurrency 10")
    assert 1 / c4.seconds(1 / 10, 344) == pytest.approx(
        ALWAYS_ON.decisions_per_second(ten), rel=0.07
    )


def test_a_worker_hour_on_dataflow() -> None:
    c4 = MACHINES.dollars_per_hour("c4-standard-48")
    assert c4 == pytest.approx(48 * 0.056 + 180 * 0.003557 + 200 * 0.000298)
    flexrs = MACHINES.dollars_per_hour("c4-standard-48", flexrs=True)
    assert flexrs == pytest.approx(0.6 * (48 * 0.056 + 180 * 0.003557) + 200 * 0.000298)
    with pytest.raises(KeyError, match=r"'n1-standard-1' is not in machines\.yaml; it has c3-"):
        MACHINES.dollars_per_hour("n1-standard-1")


def test_names_that_lead_nowhere_are_all_reported(tmp_path: Path) -> None:
    text = (Path(__file__).parents[3] / "configs/machines.yaml").read_text()
    broken = tmp_path / "machines.yaml"
    broken.write_text(
        text.replace("family: c3,", "family: c9,").replace("source: beam", "source: x")
    )
    with pytest.raises(ValidationError, match="family 'c9' is not defined; source 'x' is not"):
        load_machines(broken)
