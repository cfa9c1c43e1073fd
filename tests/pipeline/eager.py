"""Run a transform at once and look at what comes out."""

from __future__ import annotations

import uuid
from typing import Any

import apache_beam as beam

_found: dict[str, list[Any]] = {}


def _keep(element: Any, run: str) -> None:
    _found[run].append(element)


def elements(transform: Any) -> list[Any]:
    """The elements of a root transform's output, through the runner a job uses.

    The runner works in this process and pickles `_keep` by name, so the list is this module's.
    """
    run = uuid.uuid4().hex
    _found[run] = []
    with beam.Pipeline("FnApiRunner") as pipeline:
        pipeline | transform | "Keep" >> beam.Map(_keep, run)
    return _found.pop(run)
