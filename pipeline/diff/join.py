"""Joining the same decisions of several runs, in memory, one unit at a time.

    load(sources) -> one Rows per side -> join(sides) -> Block

A `Block` has one row per (conversation, rubric, version, question) found on any side, sorted by
these keys, and answers column by column what each side holds there.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from pipeline import storage
from pipeline.diff.units import Source
from pipeline.output.tables import DECISIONS, OPTION_PROBABILITIES

KEYS = DECISIONS.keys
VERSION = KEYS.index("rubric_version")

_GROUP = "conversation_group"
_DECISION_COLUMNS = (
    *KEYS,
    _GROUP,
    "question_type",
    "decision",
    "decision_index",
    "probability",
    "margin",
    "expected_score",
    "gold",
    "correct",
    "dialect",
    "prompt_sha256",
    "canvas_sha256",
    "single_pass",
    "batch_reads",
)
_OPTION_COLUMNS = (*KEYS, "option", "option_index", "probability")

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


class DuplicateDecisionError(ValueError):
    """A run holds the same decision twice, so there is no one answer to compare."""


@dataclass(frozen=True, slots=True)
class Rows:
    """What one side brings: its decisions, and the options of those decisions."""

    decisions: pa.Table
    options: pa.Table


def load(sources: Iterable[Source], sides: int) -> list[Rows]:
    """Read the sources; returns one `Rows` per side, empty where a side has none."""
    decisions: list[list[pa.Table]] = [[] for _ in range(sides)]
    options: list[list[pa.Table]] = [[] for _ in range(sides)]
    for source in sources:
        decisions[source.side].append(_read(source.decisions, source.row_group, _DECISION_COLUMNS))
        options[source.side].append(_read(source.options, source.row_group, _OPTION_COLUMNS))
    no_decisions = _empty(DECISIONS.schema, _DECISION_COLUMNS)
    no_options = _empty(OPTION_PROBABILITIES.schema, _OPTION_COLUMNS)
    return [
        Rows(pa.concat_tables([no_decisions, *d]), pa.concat_tables([no_options, *o]))
        for d, o in zip(decisions, options, strict=True)
    ]


def _empty(schema: pa.Schema, columns: Sequence[str]) -> pa.Table:
    # Files may or may not mark columns as required; the join does not care.
    return pa.schema([pa.field(name, schema.field(name).type) for name in columns]).empty_table()


def _read(path: str, row_group: int | None, columns: Sequence[str]) -> pa.Table:
    file = pq.ParquetFile(io.BytesIO(storage.read_bytes(path)))
    if row_group is None:
        table = file.read(columns=list(columns), use_threads=False)
    else:
        table = file.read_row_group(row_group, columns=list(columns), use_threads=False)
    if _GROUP in columns and _GROUP not in table.column_names:  # a run of an earlier release
        table = table.append_column(_GROUP, pa.nulls(table.num_rows, pa.string()))
    return pa.table({name: table.column(name) for name in columns})


@dataclass(slots=True)
class Block:
    """The joined rows of one unit.

    Attributes:
        keys: one column per key, one row per decision found on any side, sorted.
        sides: what each side brought.
        places: per side, (rows,) row of `sides[i].decisions`, or -1 where it has none.
    """

    keys: pa.Table
    sides: Sequence[Rows]
    places: Sequence[Ints]
    _matrices: list[tuple[Floats, Ints]] = field(repr=False)
    _names: pa.Array = field(repr=False)

    def __len__(self) -> int:
        return int(self.keys.num_rows)

    def has(self, side: int) -> Bools:
        """(rows,) whether the side has the decision."""
        return np.asarray(self.places[side] >= 0, np.bool_)

    def only(self, rows: Bools) -> Block:
        """The block without the other rows."""
        return Block(
            self.keys.filter(pa.array(rows)),
            self.sides,
            [place[rows] for place in self.places],
            [(probabilities[rows], names[rows]) for probabilities, names in self._matrices],
            self._names,
        )

    def column(self, side: int, name: str) -> pa.Array:
        """A column of the side's decisions in row order; null where it has no row."""
        indices = pa.array(self.places[side], mask=self.places[side] < 0)
        taken = self.sides[side].decisions.column(name).take(indices)
        return taken.combine_chunks()

    def numbers(self, side: int, name: str) -> Floats:
        """A numeric column as floats; NaN where null."""
        return np.asarray(
            pc.cast(self.column(side, name), pa.float64()).to_numpy(zero_copy_only=False),
            np.float64,
        )

    def probabilities(self, side: int) -> Floats:
        """(rows, options) probabilities by option index; 0 beyond a question's options."""
        return self._matrices[side][0]

    def option_names(self, side: int) -> Ints:
        """(rows, options) codes of option names, equal across sides; -1 where there is none."""
        return self._matrices[side][1]

    def name_code(self, name: str) -> int:
        """Code, as in `option_names`, of one option name; -2 when no option's."""
        code = pc.index(self._names, pa.scalar(name, pa.string())).as_py()
        return -2 if code < 0 else int(code)

    def name_codes(self, names: pa.Array) -> Ints:
        """Codes, as in `option_names`, of an array of option names; -1 when no option's."""
        return _codes(names, self._names)

    def codes(self, *keys: str) -> tuple[Ints, list[tuple[str, ...]]]:
        """Group the rows by some keys: (rows,) group number, and each group's key values."""
        code = np.zeros(len(self), np.int64)
        for key in keys:
            encoded = self.keys.column(key).combine_chunks().dictionary_encode()
            code = code * max(len(encoded.dictionary), 1) + encoded.indices.to_numpy()
        _, first, inverse = np.unique(code, return_index=True, return_inverse=True)
        taken = self.keys.select(list(keys)).take(pa.array(first))
        columns = [taken.column(key).to_pylist() for key in keys]
        return inverse.astype(np.int64), list(zip(*columns, strict=True))


def join(sides: Sequence[Rows], *, across_versions: bool = False) -> Block:
    """Align the sides' decisions by their keys.

    With `across_versions`, rubric versions do not have to be equal; the first side that has the
    decision names the version. Raises `DuplicateDecisionError`.
    """
    values = [_sorted_values(sides, key) for key in KEYS]
    packed = [_pack(rows.decisions, values, across_versions) for rows in sides]
    universe = np.unique(np.concatenate(packed)) if packed else np.zeros(0, np.int64)
    places = []
    for rows, keys in zip(sides, packed, strict=True):
        at = np.searchsorted(universe, keys)
        place = np.full(len(universe), -1, np.int64)
        place[at] = np.arange(len(keys))
        if np.count_nonzero(place >= 0) < len(keys):
            raise _duplicate(rows.decisions, at)
        places.append(place)
    names = pc.unique(pa.concat_arrays(_chunks(rows.options, "option") for rows in sides))
    width = max((_width(rows.options) for rows in sides), default=0)
    matrices = [
        _matrix(rows.options, universe, values, across_versions, names, width) for rows in sides
    ]
    return Block(_key_table(sides, places), sides, places, matrices, names)


def _chunks(table: pa.Table, name: str) -> pa.Array:
    combined = table.column(name).combine_chunks()
    return combined if isinstance(combined, pa.Array) else pa.concat_arrays(combined.chunks)


def _sorted_values(sides: Sequence[Rows], key: str) -> pa.Array:
    values = pc.unique(pa.concat_arrays(_chunks(rows.decisions, key) for rows in sides))
    return values.take(pc.sort_indices(values))


def _codes(column: pa.Array, values: pa.Array) -> Ints:
    found = pc.fill_null(pc.index_in(column, value_set=values), -1)
    return np.asarray(found.to_numpy(zero_copy_only=False), np.int64)


def _pack(table: pa.Table, values: Sequence[pa.Array], across_versions: bool) -> Ints:
    """(rows,) one number per key whose order is the order of the keys; -1 for an unknown key."""
    packed = np.zeros(table.num_rows, np.int64)
    unknown = np.zeros(table.num_rows, np.bool_)
    for position, (key, known) in enumerate(zip(KEYS, values, strict=True)):
        if across_versions and position == VERSION:
            continue
        codes = _codes(_chunks(table, key), known)
        unknown |= codes < 0
        packed = packed * max(len(known), 1) + codes
    packed[unknown] = -1
    return packed


def _width(options: pa.Table) -> int:
    largest = pc.max(options.column("option_index")).as_py()
    return 0 if largest is None else int(largest) + 1


def _matrix(
    options: pa.Table,
    universe: Ints,
    values: Sequence[pa.Array],
    across_versions: bool,
    names: pa.Array,
    width: int,
) -> tuple[Floats, Ints]:
    probabilities = np.zeros((len(universe), width))
    codes = np.full((len(universe), width), -1, np.int64)
    keys = _pack(options, values, across_versions)
    known = keys >= 0
    row = np.searchsorted(universe, keys[known])
    index = np.asarray(_chunks(options, "option_index"), np.int64)[known]
    probability = _chunks(options, "probability").to_numpy(zero_copy_only=False)
    probabilities[row, index] = np.asarray(probability, np.float64)[known]
    codes[row, index] = _codes(_chunks(options, "option"), names)[known]
    return probabilities, codes


def _key_table(sides: Sequence[Rows], places: Sequence[Ints]) -> pa.Table:
    stacked = pa.concat_tables([rows.decisions.select(list(KEYS)) for rows in sides])
    offsets = np.cumsum([0, *(rows.decisions.num_rows for rows in sides)])
    row = np.full(len(places[0]) if places else 0, -1, np.int64)
    for place, offset in reversed(list(zip(places, offsets[:-1], strict=True))):
        row = np.where(place >= 0, place + offset, row)
    return stacked.take(pa.array(row))


def _duplicate(decisions: pa.Table, at: Ints) -> DuplicateDecisionError:
    order = np.argsort(at, kind="stable")
    repeated = order[1:][np.diff(at[order]) == 0][0]
    row = decisions.select(list(KEYS)).slice(int(repeated), 1).to_pylist()[0]
    names = ", ".join(f"{key} {value!r}" for key, value in row.items())
    return DuplicateDecisionError(f"one run holds two decisions for {names}; run it again")
