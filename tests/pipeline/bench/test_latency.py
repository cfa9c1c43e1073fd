"""The order in which a request's arms are asked."""

from __future__ import annotations

import random
from collections import Counter
from itertools import islice, pairwise

import pytest

from pipeline.bench.latency import balanced_orders


@pytest.mark.parametrize(("names", "orders"), [("abc", 6), ("abcd", 24)])
def test_every_arm_is_equally_often_in_each_place_and_after_each_other(
    names: str, orders: int
) -> None:
    found = list(islice(balanced_orders(names, random.Random(42)), 2 * orders))
    places = Counter((place, name) for order in found for place, name in enumerate(order))
    neighbours = Counter(pair for order in found for pair in pairwise(order))
    assert set(places.values()) == {2 * orders // len(names)}
    assert len(places) == len(names) ** 2
    assert len(set(neighbours.values())) == 1
    assert len(neighbours) == len(names) * (len(names) - 1)


def test_a_second_round_takes_another_sequence() -> None:
    found = list(islice(balanced_orders("abcd", random.Random(42)), 48))
    assert set(found[:24]) == set(found[24:])
    assert found[:24] != found[24:]
