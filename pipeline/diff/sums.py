"""What is added up per question (and overall) across parts, before any statistic."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

import apache_beam as beam
import numpy as np
from numpy.typing import NDArray

from pipeline.statistics.bootstrap import ClusterSums
from pipeline.statistics.calibration import BINS
from pipeline.statistics.histogram import Histogram

OVERALL = ("*", "*")
"""Group of all questions; every other group is (rubric_id, question_id)."""

Group = tuple[str, str]


class Sum(IntEnum):
    """Columns summed per cluster, with and without bootstrap weights."""

    PAIRS = 0
    FLIPS = 1
    NOISE_PAIRS = 2
    """Pairs that the repeat run has too; the next three are over these."""
    NOISE_FLIPS = 3
    CANDIDATE_ONLY = 4
    """Differ in the candidate and not in the repeat."""
    NOISE_ONLY = 5
    GOLD = 6
    """Pairs with gold; the rest are over these."""
    FIXES = 7
    BREAKS = 8
    BASELINE_RIGHT = 9
    CANDIDATE_RIGHT = 10
    SCORED = 11
    """Pairs with gold whose probabilities can be scored; the rest are over these."""
    BASELINE_BRIER = 12
    CANDIDATE_BRIER = 13
    BASELINE_LOG_LOSS = 14
    CANDIDATE_LOG_LOSS = 15


WITHOUT_GOLD = Sum.GOLD.value
FIRST_BIN = len(Sum)
PER_SIDE = 3 * BINS
"""Per side: how many decisions each bin holds, their probabilities, and how many are right."""
WITH_GOLD = FIRST_BIN + 2 * PER_SIDE


def bins(sums: NDArray[np.float64], side: int) -> tuple[NDArray[np.float64], ...]:
    """Count, probability and correctness per bin along the last axis of `sums`."""
    start = FIRST_BIN + side * PER_SIDE
    return tuple(
        sums[..., start + k * BINS : start + (k + 1) * BINS] for k in range(PER_SIDE // BINS)
    )


@dataclass(slots=True)
class GroupSums:
    """Sums of one question, or of all.

    Attributes:
        columns: width of `clusters`: WITHOUT_GOLD or WITH_GOLD.
        conversations: how many the pairs come from.
        baseline_only, candidate_only: decisions that one run lacks.
        threshold_pairs, threshold_crossings: pairs with a threshold, and those that crossed it.
        classes: flips by `flip_class`.
        options: largest number of options.
        table: (baseline option index, candidate's) -> pairs; -1 is "not asked".
        total_variation, jensen_shannon: sums over pairs asked in both.
        asked_both: how many those are.
        movement: distribution of total variation over them.
        clusters: sums by cluster, columns as in `Sum`.
    """

    columns: int
    conversations: int = 0
    baseline_only: int = 0
    candidate_only: int = 0
    threshold_pairs: int = 0
    threshold_crossings: int = 0
    classes: Counter[str] = field(default_factory=Counter)
    options: int = 0
    table: Counter[tuple[int, int]] = field(default_factory=Counter)
    total_variation: float = 0.0
    jensen_shannon: float = 0.0
    asked_both: int = 0
    movement: Histogram = field(default_factory=Histogram)
    clusters: ClusterSums = field(init=False)

    def __post_init__(self) -> None:
        self.clusters = ClusterSums(self.columns)

    def merge(self, other: GroupSums) -> GroupSums:
        """Add another's sums; returns self."""
        self.conversations += other.conversations
        self.baseline_only += other.baseline_only
        self.candidate_only += other.candidate_only
        self.threshold_pairs += other.threshold_pairs
        self.threshold_crossings += other.threshold_crossings
        self.classes.update(other.classes)
        self.options = max(self.options, other.options)
        self.table.update(other.table)
        self.total_variation += other.total_variation
        self.jensen_shannon += other.jensen_shannon
        self.asked_both += other.asked_both
        self.movement.merge(other.movement)
        self.clusters.merge(other.clusters)
        return self

    def matrix(self) -> NDArray[np.int64]:
        """Square table of decisions by option index; a last option "not asked" where it occurs."""
        extra = any(-1 in cell for cell in self.table)
        size = self.options + extra
        counts = np.zeros((size, size), np.int64)
        for (row, column), pairs in self.table.items():
            counts[row, column] += pairs  # -1 lands in the last row or column
        return counts


class MergeSums(beam.CombineFn):  # type: ignore[misc]
    """Adds up elements that have `merge`: `GroupSums`, `ClusterSums`, surveys.

    Without `empty` there must be at least one element, as there is for every key.
    """

    def __init__(self, empty: Any = None) -> None:
        self._empty = empty

    def create_accumulator(self) -> Any:
        return copy.deepcopy(self._empty)

    def add_input(self, accumulator: Any, element: Any) -> Any:
        # Elements are not ours to change; accumulators are.
        return copy.deepcopy(element) if accumulator is None else accumulator.merge(element)

    def merge_accumulators(self, accumulators: Iterable[Any]) -> Any:
        total = self.create_accumulator()
        for accumulator in accumulators:
            if accumulator is not None:
                total = self.add_input(total, accumulator)
        return total

    def extract_output(self, accumulator: Any) -> Any:
        return accumulator
