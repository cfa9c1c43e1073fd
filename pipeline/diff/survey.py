"""The first pass: can these runs be compared, and how much does a repeat run move?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.diff.join import Block, Bools
from pipeline.statistics.distances import gap_movement
from pipeline.statistics.histogram import Histogram

BASELINE, CANDIDATE = 0, 1

ALLOWED = {
    "rubric": {"rubric", "canvas", "prompt"},
    "dialect": {"dialect", "canvas", "prompt"},
    "canvas": {"canvas"},
    "prompt": {"prompt"},
}
"""What may differ when asked for, and what cannot but differ with it."""

NOISE_QUANTILE = 0.99
_TOLERANCE = 1e-6


@dataclass(slots=True)
class Survey:
    """What the first pass counts; surveys of parts add up with `merge`.

    Attributes:
        versions: per side, rubric id -> versions found.
        dialects: per side, rubric id -> dialects found.
        decisions: per side, decisions asked.
        pairs: decisions asked in the baseline or the candidate and present in both.
        differing: (what, side, rubric id) -> decisions whose prompt, canvas or options are not the
            baseline's.
        broken: per side, decisions whose probabilities are not finite or do not sum to 1.
        first_broken: per side, the keys of one of them.
        gold: pairs with gold.
        repeats: per side above the candidate, gap movement between the baseline and that side.
    """

    versions: list[dict[str, set[str]]]
    dialects: list[dict[str, set[str]]]
    decisions: list[int]
    broken: list[int]
    first_broken: list[str | None]
    repeats: list[Histogram]
    pairs: int = 0
    gold: int = 0
    differing: Counter[tuple[str, int, str]] = field(default_factory=Counter)

    @classmethod
    def empty(cls, sides: int) -> Survey:
        return cls(
            versions=[{} for _ in range(sides)],
            dialects=[{} for _ in range(sides)],
            decisions=[0] * sides,
            broken=[0] * sides,
            first_broken=[None] * sides,
            repeats=[Histogram() for _ in range(sides)],
        )

    def merge(self, other: Survey) -> Survey:
        """Add another survey; returns self."""
        for side in range(len(self.decisions)):
            for mine, theirs in (
                (self.versions[side], other.versions[side]),
                (self.dialects[side], other.dialects[side]),
            ):
                for rubric, values in theirs.items():
                    mine.setdefault(rubric, set()).update(values)
            self.decisions[side] += other.decisions[side]
            self.broken[side] += other.broken[side]
            found = [k for k in (self.first_broken[side], other.first_broken[side]) if k]
            self.first_broken[side] = min(found, default=None)
            self.repeats[side].merge(other.repeats[side])
        self.pairs += other.pairs
        self.gold += other.gold
        self.differing.update(other.differing)
        return self

    def threshold(self, *sides: int | None) -> float | None:
        """Margin up to which a flip is a near tie: the largest noise quantile of these sides, or
        None when no side is given."""
        measured = [self.repeats[s].quantile(NOISE_QUANTILE) for s in sides if s is not None]
        return max(measured, default=None)


def survey(block: Block) -> Survey:
    """Survey one block."""
    sides = len(block.sides)
    found = Survey.empty(sides)
    for side in range(sides):
        _count_side(block, side, found)
    both = block.has(BASELINE) & block.has(CANDIDATE)
    asked = _asked(block, BASELINE) | _asked(block, CANDIDATE)
    pairs = both & asked
    found.pairs = int(np.count_nonzero(pairs))
    found.gold = int(np.count_nonzero(pairs & _known(block.column(BASELINE, "gold"))))
    for side in range(1, sides):
        _compare(block, side, found)
    for side in range(2, sides):
        common = _asked(block, BASELINE) & _asked(block, side)
        moved = gap_movement(block.probabilities(BASELINE), block.probabilities(side))
        found.repeats[side].add(moved[common])
    return found


def _asked(block: Block, side: int) -> Bools:
    return _known(block.column(side, "decision"))


def _known(column: pa.Array) -> Bools:
    return np.asarray(pc.is_valid(column).to_numpy(zero_copy_only=False), np.bool_)


def _count_side(block: Block, side: int, found: Survey) -> None:
    columns = ("rubric_id", "rubric_version", "dialect")
    held = pa.table({name: block.column(side, name) for name in columns})
    held = held.filter(pa.array(block.has(side)))
    for name, target in (("rubric_version", found.versions), ("dialect", found.dialects)):
        for group in held.group_by(["rubric_id", name]).aggregate([]).to_pylist():
            target[side].setdefault(group["rubric_id"], set()).add(str(group[name]))
    asked = _asked(block, side)
    found.decisions[side] = int(np.count_nonzero(asked))
    total = block.probabilities(side).sum(axis=1)
    whole = np.isfinite(total) & (np.abs(total - 1) <= _TOLERANCE)
    whole &= np.isfinite(block.numbers(side, "probability"))
    broken = asked & ~whole
    found.broken[side] = int(np.count_nonzero(broken))
    if found.broken[side]:
        row = block.keys.slice(int(np.flatnonzero(broken)[0]), 1).to_pylist()[0]
        found.first_broken[side] = (
            f"conversation {row['conversation_id']!r}, question "
            f"{row['rubric_id']}/{row['question_id']}"
        )


def _compare(block: Block, side: int, found: Survey) -> None:
    """Count pairs of the baseline and `side` that were not asked the same thing."""
    both = block.has(BASELINE) & block.has(side)
    asked = both & _asked(block, BASELINE) & _asked(block, side)
    names = block.option_names(BASELINE) != block.option_names(side)
    differing = {
        "options": asked & names.any(axis=1),
        "canvas": both & differs(block, side, "canvas_sha256"),
        "prompt": both & differs(block, side, "prompt_sha256") & ~follows_flip(block, side),
    }
    rubric_ids = block.keys.column("rubric_id")
    for what, rows in differing.items():
        if rows.any():
            counts = rubric_ids.filter(pa.array(rows)).value_counts().to_pylist()
            found.differing.update({(what, side, c["values"]): c["counts"] for c in counts})


def differs(block: Block, side: int, name: str) -> Bools:
    """(rows,) a column of the baseline and of `side` are both known and not equal."""
    unequal = pc.not_equal(block.column(BASELINE, name), block.column(side, name))
    return np.asarray(pc.fill_null(unequal, False).to_numpy(zero_copy_only=False), np.bool_)


def follows_flip(block: Block, side: int) -> Bools:
    """(rows,) another question of the conversation and rubric, asked alike, was answered otherwise.

    Later questions quote earlier answers in their prompt, so one flip changes the prompts behind
    it; that is a consequence of the flip, not another experiment.
    """
    first, second = block.column(BASELINE, "decision"), block.column(side, "decision")
    flipped = pc.fill_null(pc.not_equal(first, second), False).to_numpy(zero_copy_only=False)
    root = flipped & ~differs(block, side, "prompt_sha256") & block.has(BASELINE) & block.has(side)
    group, _ = block.codes("conversation_id", "rubric_id")
    roots = np.bincount(group, weights=root, minlength=int(group.max(initial=-1)) + 1)
    return np.asarray(roots[group] - root > 0, np.bool_)


def refusals(found: Survey, names: Sequence[str], allow: Collection[str]) -> list[str]:
    """Every reason not to compare these runs, each naming the run, the value and the remedy.

    Args:
        found: the survey of all parts.
        names: run ids by side.
        allow: differences asked for, from `ALLOWED`.
    """
    allowed = {implied for what in allow for implied in ALLOWED[what]}
    problems = []
    for side, name in enumerate(names):
        if found.broken[side]:
            problems.append(
                f"run {name}: {found.broken[side]:,} decisions have probabilities that are not "
                f"finite or do not sum to 1, first {found.first_broken[side]}; decide them again"
            )
        if side == BASELINE:
            continue
        for what, sets in (("rubric", found.versions), ("dialect", found.dialects)):
            noun = "version" if what == "rubric" else "dialect"
            for rubric in sorted(sets[BASELINE].keys() & sets[side].keys()):
                mine, theirs = sets[BASELINE][rubric], sets[side][rubric]
                if mine != theirs and what not in allowed:
                    problems.append(
                        f"rubric {rubric}: {noun} {_list(mine)} in run {names[BASELINE]}, "
                        f"{_list(theirs)} in run {name}; compare runs of one {noun}, or say "
                        f"--allow {what}"
                    )
    for (what, side, rubric), count in sorted(found.differing.items()):
        if what == "options":
            problems.append(
                f"rubric {rubric}: {count:,} decisions have other options in run {names[side]} "
                f"than in run {names[BASELINE]}; their probabilities cannot be compared"
            )
        elif what not in allowed:
            problems.append(
                f"rubric {rubric}: {count:,} decisions were read from another {what} "
                f"({what}_sha256) in run {names[side]} than in run {names[BASELINE]}; make both "
                f"from the same input and rubric, or say --allow {what}"
            )
    if not found.pairs and not problems:
        problems.append(_nothing_shared(found, names))
    return problems


def _nothing_shared(found: Survey, names: Sequence[str]) -> str:
    sides = [
        f"run {names[s]} has {found.decisions[s]:,} of {_list(found.versions[s]) or 'no rubric'}"
        for s in (BASELINE, CANDIDATE)
    ]
    return (
        "the runs have no decision in common (same conversation, rubric and question): "
        f"{'; '.join(sides)}; compare runs over the same input"
    )


def _list(values: Collection[str]) -> str:
    return ", ".join(sorted(values))
