"""JevBench's metrics, per family and overall, from a run's tables and the imported items.

Probabilities come from `option_probabilities`; group, family and gold probabilities from the
imported shards. What cannot be measured is None, never 0.
"""

from __future__ import annotations

import io
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from pipeline.importers.folder import read_jsonl
from pipeline.importers.jevbench import QUESTION_ID
from pipeline.output.runs import Run
from pipeline.storage import read_bytes

ECE_BINS = 10
RESAMPLES = 2000
LOOSE, STRICT = 0.02, 0.001
"""How far a distribution's sum may be from 1 to be valid, and to be strictly valid."""


@dataclass(frozen=True)
class Item:
    """One item and what the run says about it.

    Attributes:
        levels: options of a score question in order, low first; None for other types.
        probabilities: option -> probability; empty when the run did not decide the item.
        gold_probabilities: option -> probability, for families that state them.
    """

    id: str
    family: str
    group: str
    gold: str
    probabilities: Mapping[str, float]
    levels: tuple[str, ...] | None = None
    gold_probabilities: Mapping[str, float] | None = None

    @property
    def decision(self) -> str:
        """The most probable option; of equals the first by name, as the benchmark breaks ties."""
        return min(self.probabilities, key=lambda name: (-self.probabilities[name], name))


@dataclass(frozen=True)
class Metrics:
    """Metrics of one family, or of all (`family` is `*`).

    Attributes:
        items, undecided: items, and those among them the run has no answer for.
        accuracy: share of decided items whose decision is the expected one; `accuracy_low` and
            `accuracy_high` bound it at 95%, resampling whole groups.
        valid, strictly_valid: share of distributions that sum to 1 within 2% and 0.1%.
        brier: mean over items of the squared distance from the expected answer, 0 to 2.
        ece: expected calibration error of the top answer, 10 bins of equal width.
        ordinal_error: mean distance in levels; score questions only.
        paraphrase_consistency: share of pairs (groups of two items of one expected answer and
            the same options) with one decision.
        total_variation: mean distance to the stated gold probabilities.
    """

    family: str
    items: int
    undecided: int
    accuracy: float | None
    accuracy_low: float | None
    accuracy_high: float | None
    valid: float | None
    strictly_valid: float | None
    brier: float | None
    ece: float | None
    ordinal_error: float | None
    paraphrase_consistency: float | None
    total_variation: float | None


def load_items(folder: Path, run: Run) -> list[Item]:
    """The items imported into `folder`, with the answers of `run`."""
    answers: dict[str, dict[str, tuple[int, float]]] = defaultdict(dict)
    for row in _rows(run, "option_probabilities", ["option", "option_index", "probability"]):
        answers[row["conversation_id"]][row["option"]] = (row["option_index"], row["probability"])
    scores = {
        row["conversation_id"]
        for row in _rows(run, "decisions", ["question_type"])
        if row["question_type"] == "score"
    }
    items = []
    for shard in sorted((folder / "conversations").glob("*.jsonl")):
        for _, record in read_jsonl(shard):
            answer = answers.get(record["id"], {})
            metadata = record["metadata"]
            items.append(
                Item(
                    id=record["id"],
                    family=metadata["family"],
                    group=record["group"] or record["id"],
                    gold=record["gold"][QUESTION_ID],
                    probabilities={name: p for name, (_, p) in answer.items()},
                    levels=tuple(sorted(answer, key=lambda name: answer[name][0]))
                    if record["id"] in scores
                    else None,
                    gold_probabilities=_gold_probabilities(metadata.get("gold_probs"), answer),
                )
            )
    return items


def measure(items: Sequence[Item]) -> list[Metrics]:
    """Metrics of all items, then of each family by name."""
    families = defaultdict(list)
    for item in items:
        families[item.family].append(item)
    return [_measure("*", items), *(_measure(name, families[name]) for name in sorted(families))]


def _measure(family: str, items: Sequence[Item]) -> Metrics:
    decided = [item for item in items if item.probabilities]
    sums = [abs(sum(item.probabilities.values()) - 1) for item in decided]
    low, high = _accuracy_interval(decided)
    return Metrics(
        family=family,
        items=len(items),
        undecided=len(items) - len(decided),
        accuracy=_mean(item.decision == item.gold for item in decided),
        accuracy_low=low,
        accuracy_high=high,
        valid=_mean(error <= LOOSE for error in sums),
        strictly_valid=_mean(error <= STRICT for error in sums),
        brier=_mean(
            sum((p - (name == item.gold)) ** 2 for name, p in item.probabilities.items())
            for item in decided
        ),
        ece=_calibration_error(decided),
        ordinal_error=_mean(
            abs(item.levels.index(item.decision) - item.levels.index(item.gold))
            for item in decided
            if item.levels
        ),
        paraphrase_consistency=_mean(
            first.decision == second.decision for first, second in _paraphrases(decided)
        ),
        total_variation=_mean(
            sum(abs(p - gold.get(name, 0.0)) for name, p in item.probabilities.items()) / 2
            for item in decided
            if (gold := item.gold_probabilities)
        ),
    )


def _accuracy_interval(items: Sequence[Item]) -> tuple[float | None, float | None]:
    """95% bounds of accuracy, resampling groups with all of their items."""
    groups: dict[str, list[bool]] = defaultdict(list)
    for item in items:
        groups[item.group].append(item.decision == item.gold)
    if len(groups) < 2:
        return None, None
    right = np.array([sum(group) for group in groups.values()])
    size = np.array([len(group) for group in groups.values()])
    drawn = np.random.default_rng(0).integers(len(groups), size=(RESAMPLES, len(groups)))
    rates = right[drawn].sum(axis=1) / size[drawn].sum(axis=1)
    low, high = np.quantile(rates, [0.025, 0.975])
    return float(low), float(high)


def _calibration_error(items: Sequence[Item]) -> float | None:
    """Gap between top probability and accuracy, averaged over bins by their share of items."""
    if not items:
        return None
    top = np.array([item.probabilities[item.decision] for item in items])
    right = np.array([item.decision == item.gold for item in items])
    bins = np.minimum((top * ECE_BINS).astype(int), ECE_BINS - 1)
    gaps = [abs(top[bins == b].sum() - right[bins == b].sum()) for b in np.unique(bins)]
    return float(sum(gaps) / len(items))


def _paraphrases(items: Iterable[Item]) -> list[tuple[Item, Item]]:
    groups: dict[str, list[Item]] = defaultdict(list)
    for item in items:
        groups[item.group].append(item)
    return [
        (group[0], group[1])
        for group in groups.values()
        if len(group) == 2
        and group[0].gold == group[1].gold
        and group[0].probabilities.keys() == group[1].probabilities.keys()
    ]


def _gold_probabilities(
    stated: Any, answer: Mapping[str, tuple[int, float]]
) -> Mapping[str, float] | None:
    """Stated as an object by option, or as a list in option order."""
    if isinstance(stated, list) and len(stated) == len(answer):
        return {name: float(stated[index]) for name, (index, _) in answer.items()}
    if isinstance(stated, dict):
        return {str(name): float(p) for name, p in stated.items()}
    return None


def _rows(run: Run, table: str, columns: list[str]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for path in run.files(table):
        found = pq.read_table(io.BytesIO(read_bytes(path)), columns=["conversation_id", *columns])
        rows += found.to_pylist()
    return rows


def _mean(values: Iterable[float]) -> float | None:
    numbers = [float(value) for value in values]
    return sum(numbers) / len(numbers) if numbers else None
