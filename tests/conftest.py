"""What holds for every test."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def _no_preloads_left_behind() -> Iterator[None]:
    """vLLM preloads libraries into the children of a process that started an engine; later tests'
    own processes must start as a user's do."""
    before = os.environ.get("LD_PRELOAD")
    yield
    if before is None:
        os.environ.pop("LD_PRELOAD", None)
    else:
        os.environ["LD_PRELOAD"] = before
