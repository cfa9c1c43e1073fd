"""Paired changes, percentiles, and when a speedup may be reported."""

from __future__ import annotations

import math
import random

import pytest

from engine.reads import ReadResult
from pipeline.bench.comparison import agreement, paired_change, percentiles, verdict


def samples(change: float, noise: float, requests: int = 24, passes: int = 4) -> list[dict]:
    rng = random.Random(7)
    found = []
    for number in range(passes):
        for request in range(requests):
            base = 0.2 + 0.05 * request
            for arm, factor in (("baseline", 1.0), ("flag on", 1 + change)):
                seconds = base * factor * math.exp(rng.gauss(0, noise))
                found.append(
                    {
                        "set": "original",
                        "request": str(request),
                        "pass": number,
                        "arm": arm,
                        "seconds": seconds,
                    }
                )
    return found


def test_an_exact_change_is_found_with_no_width() -> None:
    change = paired_change(samples(-0.2, 0.0), "flag on", "baseline")
    assert change["change"] == pytest.approx(-0.2, abs=1e-6)
    assert change["low"] == pytest.approx(-0.2, abs=1e-6)
    assert change["high"] == pytest.approx(-0.2, abs=1e-6)
    assert change["pairs"] == 96


def test_the_interval_holds_a_noisy_change_and_excludes_zero() -> None:
    change = paired_change(samples(-0.1, 0.02), "flag on", "baseline")
    assert change["low"] < -0.1 < change["high"] < 0


def test_noise_alone_is_not_a_change() -> None:
    change = paired_change(samples(0.0, 0.05), "flag on", "baseline")
    assert change["low"] < 0 < change["high"]


def test_requests_of_one_arm_only_do_not_count() -> None:
    found = samples(-0.2, 0.0, requests=2, passes=1)
    assert paired_change(found[:3], "flag on", "baseline")["pairs"] == 1
    with pytest.raises(ValueError, match="no request"):
        paired_change(found[:1], "flag on", "baseline")


def test_a_speedup_must_exceed_the_repeat_in_every_pass() -> None:
    assert verdict([(-0.2, 0.01), (-0.1, -0.02)])["reported"]
    found = verdict([(-0.2, 0.01), (-0.01, -0.02), (0.3, 0.0)])
    assert not found["reported"]
    assert "[1, 2]" in found["reason"]


def test_percentiles_of_a_known_distribution() -> None:
    found = percentiles([float(value) for value in range(101)])
    assert found == {"p50": 50.0, "p95": 95.0, "p99": 99.0, "mean": 50.0}


def test_agreement_counts_slots_and_takes_the_largest_difference() -> None:
    def result(*probabilities: float) -> ReadResult:
        return ReadResult("r", {0: {i: math.log(p) for i, p in enumerate(probabilities)}})

    found = agreement(
        [result(0.6, 0.4), result(0.51, 0.49)], [result(0.6, 0.4), result(0.45, 0.55)]
    )
    assert found["slots"] == 2
    assert found["same_decision"] == 1
    assert found["largest_probability_difference"] == pytest.approx(0.06)
