"""The second pass over one block: its rows of `diffs`, and what it adds to every sum."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.diff.join import Block, Bools, Floats, Ints
from pipeline.diff.sums import FIRST_BIN, OVERALL, PER_SIDE, WITH_GOLD, Group, GroupSums, Sum
from pipeline.diff.survey import BASELINE, CANDIDATE, differs, follows_flip
from pipeline.diff.thresholds import Threshold
from pipeline.output.tables import DIFFS
from pipeline.statistics import calibration, distances
from pipeline.statistics.bootstrap import ClusterSums, cluster_hash, quantised, sums_by_cluster

_GROUP_MARK = "\x1f"  # no id holds it, so a group is never taken for a conversation


@dataclass(frozen=True, slots=True)
class Roles:
    """What the sides beyond baseline and candidate are for, by their place.

    Attributes:
        noise: repeat of the baseline.
        fp32: the baseline's reads in float32.
        near_tie_margin: margins up to this are near ties; None when neither role is filled.
        thresholds: probabilities that products act at.
        columns: WITHOUT_GOLD or WITH_GOLD.
    """

    noise: int | None
    fp32: int | None
    near_tie_margin: float | None
    thresholds: tuple[Threshold, ...]
    columns: int


class Clusters:
    """What the bootstrap resamples: a conversation's group, or else the conversation.

    Attributes:
        conversation: (rows,) number of each row's conversation.
    """

    def __init__(self, block: Block, groups: pa.Array) -> None:
        self.conversation, _ = block.codes("conversation_id")
        ids = block.keys.column("conversation_id").combine_chunks()
        marked = pc.binary_join_element_wise(_GROUP_MARK, groups, "")
        encoded = pc.coalesce(marked, ids).dictionary_encode()
        known = encoded.dictionary.to_pylist()
        self._code = np.asarray(encoded.indices.to_numpy(), np.int64)
        self._hashes = np.array([cluster_hash(name) for name in known], np.uint64)
        # Conversations are whole in one part, groups need not be.
        self._spread = np.array([name.startswith(_GROUP_MARK) for name in known], np.bool_)

    def sums(self, rows: Ints, values: Floats) -> ClusterSums:
        """Sums of `values` (one row for each of `rows`) by cluster."""
        present, sums = sums_by_cluster(self._code[rows], values)
        return ClusterSums(values.shape[1]).add(self._hashes[present], sums, self._spread[present])


class Measured:
    """One block, measured: every array has one element per row of the block."""

    def __init__(self, block: Block, roles: Roles) -> None:
        self.block, self.roles = block, roles
        sides = (BASELINE, CANDIDATE)
        self.held = [block.has(s) for s in range(len(block.sides))]
        self.decided = [
            block.name_codes(block.column(s, "decision")) for s in range(len(block.sides))
        ]
        self.both = self.held[BASELINE] & self.held[CANDIDATE]
        asked = [self.decided[s] >= 0 for s in sides]
        self.asked_both = self.both & asked[0] & asked[1]
        self.pairs = self.both & (asked[0] | asked[1])
        self.changed = self.both & (self.decided[BASELINE] != self.decided[CANDIDATE])
        self.margins = [block.numbers(s, "margin") for s in sides]
        first, second = (block.probabilities(s) for s in sides)
        self.total_variation = distances.total_variation(first, second)
        self.jensen_shannon = distances.jensen_shannon(first, second)
        self.largest_change = distances.largest_change(first, second)
        self.gap_movement = distances.gap_movement(first, second)
        self.gold, self.group = (
            pc.coalesce(*(block.column(s, name) for s in sides))
            for name in ("gold", "conversation_group")
        )
        self.clusters = Clusters(block, self.group)
        self.flip_class = self._classify()
        self.acted_on, self.crossed = self._crossings()

    def _classify(self) -> list[str | None]:
        elsewhere = differs(self.block, CANDIDATE, "prompt_sha256") | ~self.asked_both
        cascade = self.changed & elsewhere & follows_flip(self.block, CANDIDATE)
        classes: list[str | None] = [None] * len(self.block)
        threshold = self.roles.near_tie_margin
        margin = np.maximum(self.margins[BASELINE], self.margins[CANDIDATE])
        for row in np.flatnonzero(self.changed):
            if cascade[row]:
                classes[row] = "cascade"
            elif threshold is not None:
                # A margin that is not there (not asked on one side) is no near tie.
                classes[row] = "near_tie" if margin[row] <= threshold else "substantive"
        return classes

    def _crossings(self) -> tuple[Bools, Bools]:
        """(rows,) pairs with a threshold, and those of which one side alone reaches it."""
        acted_on, crossed = np.zeros((2, len(self.block)), np.bool_)
        for threshold in self.roles.thresholds:
            rows = self.pairs.copy()
            for key in ("rubric_id", "question_id"):
                same = pc.equal(self.block.keys.column(key), getattr(threshold, key))
                rows &= np.asarray(same, np.bool_)
            reached = []
            for side in (BASELINE, CANDIDATE):
                # A question that was not asked has no options, so it reaches nothing.
                place = self.block.option_names(side) == self.block.name_code(threshold.option)
                reached.append(
                    (place & (self.block.probabilities(side) >= threshold.probability)).any(axis=1)
                )
            acted_on |= rows
            crossed |= rows & (reached[0] != reached[1])
        return acted_on, crossed

    def diffs(self) -> pa.Table:
        """Rows of the `diffs` table, sorted by its keys."""
        columns = {name: self.block.keys.column(name) for name in DIFFS.keys}
        sides = {"baseline": BASELINE, "candidate": CANDIDATE}
        for prefix, side in sides.items():
            for name in ("decision", "probability", "margin", "single_pass", "batch_reads"):
                columns[f"{prefix}_{name}"] = self.block.column(side, name)
            columns[f"{prefix}_correct"] = self.block.column(side, "correct")
        for name, role in (("noise", self.roles.noise), ("fp32", self.roles.fp32)):
            columns[f"{name}_decision"] = (
                pa.nulls(len(self.block), pa.string())
                if role is None
                else self.block.column(role, "decision")
            )
        one_side = np.where(self.held[BASELINE], "baseline_only", "candidate_only")
        columns["status"] = pa.array(np.where(self.both, "both", one_side).astype(object))
        columns["question_type"] = pc.coalesce(
            *(self.block.column(s, "question_type") for s in sides.values())
        )
        columns["changed"] = pa.array(self.changed, mask=~self.both)
        columns["crossed"] = pa.array(self.crossed, mask=~self.acted_on)
        columns["flip_class"] = pa.array(self.flip_class, pa.string())
        for name, values in (
            ("total_variation", self.total_variation),
            ("jensen_shannon", self.jensen_shannon),
            ("max_abs_delta", self.largest_change),
            ("gap_movement", self.gap_movement),
        ):
            columns[name] = pa.array(values, mask=~self.asked_both)
        columns["delta_expected_score"] = pc.subtract(
            *(self.block.column(s, "expected_score") for s in (CANDIDATE, BASELINE))
        )
        columns["gold"], columns["conversation_group"] = self.gold, self.group
        ordered = {c.name: columns[c.name] for c in DIFFS.columns}
        return pa.table(ordered).cast(DIFFS.schema)

    def groups(self) -> Iterator[tuple[Group, GroupSums]]:
        """Sums per question, then overall."""
        rows = self._rows()
        question, groups = self.block.codes("rubric_id", "question_id")
        order = np.argsort(question, kind="stable")
        starts = np.searchsorted(question[order], np.arange(len(groups) + 1))
        for number, group in enumerate(groups):
            mine = order[starts[number] : starts[number + 1]]
            rubric_id, question_id = group
            yield (rubric_id, question_id), self._sum(mine, rows)
        if len(self.block):
            everything = np.arange(len(self.block))
            overall = self._sum(everything, rows)
            overall.table.clear()  # options of different questions do not make one table
            yield OVERALL, overall

    def agreement(self) -> ClusterSums:
        """Per cluster: decisions that all runs have, and flips of every pair of runs."""
        everywhere = np.logical_and.reduce(self.held)
        asked = np.logical_or.reduce([codes >= 0 for codes in self.decided])
        rows = np.flatnonzero(everywhere & asked)
        columns = [np.ones(len(rows))]
        for first, second in combinations(range(len(self.held)), 2):
            columns.append((self.decided[first] != self.decided[second])[rows].astype(float))
        return self.clusters.sums(rows, np.stack(columns, axis=1))

    def _sum(self, rows: Ints, values: Floats) -> GroupSums:
        sums = GroupSums(self.roles.columns)
        held, both = self.held, self.both
        sums.baseline_only = int(np.count_nonzero((held[BASELINE] & ~both)[rows]))
        sums.candidate_only = int(np.count_nonzero((held[CANDIDATE] & ~both)[rows]))
        sums.threshold_pairs = int(np.count_nonzero(self.acted_on[rows]))
        sums.threshold_crossings = int(np.count_nonzero(self.crossed[rows]))
        flips = rows[self.changed[rows]]
        sums.classes = Counter(self.flip_class[row] or "unclassified" for row in flips)
        named = self.block.option_names(BASELINE)[rows] >= 0
        sums.options = int(named.sum(axis=1).max(initial=0))
        paired = rows[self.pairs[rows]]
        places = [self._decision_index(side)[paired] for side in (BASELINE, CANDIDATE)]
        cells, counts = np.unique(np.stack(places, axis=1), axis=0, return_counts=True)
        sums.table = Counter(
            {(int(a), int(b)): int(n) for (a, b), n in zip(cells, counts, strict=True)}
        )
        asked = rows[self.asked_both[rows]]
        sums.asked_both = len(asked)
        sums.total_variation = float(quantised(self.total_variation[asked]).sum())
        sums.jensen_shannon = float(quantised(self.jensen_shannon[asked]).sum())
        sums.movement.add(self.total_variation[asked])
        sums.conversations = len(np.unique(self.clusters.conversation[paired]))
        sums.clusters.merge(self.clusters.sums(paired, values[paired]))
        return sums

    def _decision_index(self, side: int) -> Ints:
        index = self.block.column(side, "decision_index")
        return np.asarray(pc.fill_null(index, -1).to_numpy(zero_copy_only=False), np.int64)

    def _rows(self) -> Floats:
        """(rows, columns) of `Sum`; meaningful where the row is a pair."""
        values = np.zeros((len(self.block), self.roles.columns))
        values[:, Sum.PAIRS] = self.pairs
        values[:, Sum.FLIPS] = self.changed
        noise = self.roles.noise
        if noise is not None:
            here = self.pairs & self.held[noise]
            repeat = here & (self.decided[BASELINE] != self.decided[noise])
            values[:, Sum.NOISE_PAIRS] = here
            values[:, Sum.NOISE_FLIPS] = repeat
            values[:, Sum.CANDIDATE_ONLY] = here & self.changed & ~repeat
            values[:, Sum.NOISE_ONLY] = repeat & ~self.changed
        if self.roles.columns == WITH_GOLD:
            self._add_gold(values)
        return values

    def _add_gold(self, values: Floats) -> None:
        gold = self.block.name_codes(self.gold)
        stated = self.pairs & np.asarray(pc.is_valid(self.gold), np.bool_)
        right = [stated & self._right(side) for side in (BASELINE, CANDIDATE)]
        values[:, Sum.GOLD] = stated
        values[:, Sum.FIXES] = ~right[0] & right[1]
        values[:, Sum.BREAKS] = right[0] & ~right[1]
        values[:, Sum.BASELINE_RIGHT], values[:, Sum.CANDIDATE_RIGHT] = right
        among = self.block.option_names(BASELINE) == gold[:, None]
        scored = np.flatnonzero(stated & self.asked_both & (gold >= 0) & among.any(axis=1))
        if not scored.size:
            return  # a part may have no options at all
        values[scored, Sum.SCORED] = 1
        place = among[scored].argmax(axis=1)
        for side in (BASELINE, CANDIDATE):
            probabilities = self.block.probabilities(side)[scored]
            brier = calibration.brier(probabilities, place)
            loss = calibration.log_loss(probabilities, place)
            values[scored, Sum.BASELINE_BRIER + side] = quantised(brier)
            values[scored, Sum.BASELINE_LOG_LOSS + side] = quantised(loss)
            confidence = probabilities.max(axis=1)
            at = FIRST_BIN + side * PER_SIDE + calibration.bin_of(confidence)
            values[scored, at] = 1
            values[scored, at + calibration.BINS] = quantised(confidence)
            values[scored, at + 2 * calibration.BINS] = right[side][scored]

    def _right(self, side: int) -> Bools:
        equal = pc.equal(self.block.column(side, "decision"), self.gold)
        return np.asarray(pc.fill_null(equal, False).to_numpy(zero_copy_only=False), np.bool_)
