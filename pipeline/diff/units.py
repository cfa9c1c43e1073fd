"""Which files are joined with which: parts of the same name, one unit of work each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from pipeline.output.runs import Run

TABLES_READ = ("decisions", "option_probabilities")


@dataclass(frozen=True, slots=True)
class Source:
    """Rows of one run: a file of each table, or one row group of each.

    Attributes:
        side: place of the run among the runs compared; 0 is the baseline.
        decisions: path of a Parquet file of `decisions`.
        options: path of a Parquet file of `option_probabilities`.
        row_group: the only row group to read; None reads the whole file.
    """

    side: int
    decisions: str
    options: str
    row_group: int | None = None


@dataclass(frozen=True, slots=True)
class Unit:
    """Sources that are joined together; `name` is also the name of the part written."""

    name: str
    sources: tuple[Source, ...]


def plan_units(runs: Sequence[Run]) -> list[Unit]:
    """One unit per part name, with that part of every run that has it.

    Runs over the same inputs have the same parts with the same conversations. Where they do not,
    the join finds out row by row; the plan needs no knowledge of the inputs.
    """
    parts: dict[str, list[Source]] = {}
    for side, run in enumerate(runs):
        decisions, options = (
            {PurePosixPath(path).stem: path for path in run.files(table)} for table in TABLES_READ
        )
        for name, path in decisions.items():
            parts.setdefault(name, []).append(Source(side, path, options[name]))
    return [Unit(name, tuple(sources)) for name, sources in sorted(parts.items())]
