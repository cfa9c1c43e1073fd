"""The few rows a person looks at: the worst flips, and a sample of all pairs for the scatter."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.diff.measure import Measured
from pipeline.diff.survey import BASELINE
from pipeline.statistics.bootstrap import cluster_hash

FLIPS_SHOWN = 2000
POINTS_SHOWN = 1500

_RANK = {"substantive": 3, None: 2, "cascade": 1, "near_tie": 0}

Row = Mapping[str, Any]


def severity(flip: Row) -> tuple[Any, ...]:
    """Sort key, worst first: substantive before unknown before cascades before near ties, then by
    movement; keys of the decision settle what is left."""
    moved = flip["total_variation"]
    return (
        -_RANK[flip["flip_class"]],
        -(1.0 if moved is None else moved),
        flip["rubric_id"],
        flip["question_id"],
        flip["conversation_id"],
    )


def worst_flips(diffs: pa.Table) -> list[dict[str, Any]]:
    """Up to FLIPS_SHOWN changed rows of `diffs`, worst first."""
    flips = diffs.filter(pc.fill_null(diffs.column("changed"), False)).to_pylist()
    return heapq.nsmallest(FLIPS_SHOWN, flips, key=severity)


def sample_points(measured: Measured) -> list[tuple[int, float, float, str | None]]:
    """Up to POINTS_SHOWN pairs as (lot, baseline margin, gap movement, class).

    The class is None where the decision is the same and "" where a flip has no class. Lots are
    hashes of the keys: the smallest ones of all parts are a sample that no sharding changes.
    """
    rows = np.flatnonzero(measured.asked_both)
    keys = measured.block.keys
    names = [keys.column(k).to_pylist() for k in ("conversation_id", "rubric_id", "question_id")]
    margins = measured.margins[BASELINE]
    lots = [(cluster_hash("\x1f".join(column[r] for column in names)), int(r)) for r in rows]
    return [
        (
            lot,
            float(margins[r]),
            float(measured.gap_movement[r]),
            (measured.flip_class[r] or "") if measured.changed[r] else None,
        )
        for lot, r in heapq.nsmallest(POINTS_SHOWN, lots)
    ]


class Smallest(beam.CombineFn):  # type: ignore[misc]
    """The `n` smallest elements of lists, by a key."""

    def __init__(self, n: int, key: Any = None) -> None:
        self._n, self._key = n, key

    def create_accumulator(self) -> list[Any]:
        return []

    def add_input(self, accumulator: list[Any], element: list[Any]) -> list[Any]:
        return heapq.nsmallest(self._n, [*accumulator, *element], key=self._key)

    def merge_accumulators(self, accumulators: Iterable[list[Any]]) -> list[Any]:
        everything = [row for accumulator in accumulators for row in accumulator]
        return heapq.nsmallest(self._n, everything, key=self._key)

    def extract_output(self, accumulator: list[Any]) -> list[Any]:
        return accumulator
