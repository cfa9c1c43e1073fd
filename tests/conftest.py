"""A core of its own for each process that pytest-xdist runs tests in, and for what it starts.

Engines of several processes that spread their threads over the same cores wait for each other most
of the time.
"""

from __future__ import annotations

import os

import pytest

ALL_CORES = sorted(os.sched_getaffinity(0))


def pytest_configure() -> None:
    worker = os.environ.get("PYTEST_XDIST_WORKER", "")
    if worker:
        number = int(worker.removeprefix("gw"))
        os.sched_setaffinity(0, {ALL_CORES[number % len(ALL_CORES)]})


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files that start engines first: they take longest, and short ones fill what is left."""
    with_engine = {item.path for item in items if item.get_closest_marker("engine")}
    items.sort(key=lambda item: item.path not in with_engine)
