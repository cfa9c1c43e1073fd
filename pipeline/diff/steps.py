"""The steps of the pipeline that see rows."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator

import apache_beam as beam
from apache_beam.pvalue import TaggedOutput

from pipeline import storage
from pipeline.diff.job import Job
from pipeline.diff.join import Block, join, load
from pipeline.diff.leftovers import spill, split
from pipeline.diff.measure import Measured, Roles
from pipeline.diff.shown import sample_points, worst_flips
from pipeline.diff.sums import WITH_GOLD, WITHOUT_GOLD
from pipeline.diff.survey import Survey, refusals, survey
from pipeline.diff.units import Source, Unit
from pipeline.output.writing import parquet

LEFTOVERS, SURVEYS = "leftovers", "surveys"
GROUPS, AGREEMENT, FLIPS, POINTS = "groups", "agreement", "flips", "points"


class SurveyUnit(beam.DoFn):  # type: ignore[misc]
    """Unit -> its survey; conversations that some run lacks go to LEFTOVERS as (bucket, source)."""

    def __init__(self, job: Job) -> None:
        self._job = job

    def process(self, unit: Unit) -> Iterator[TaggedOutput]:
        block = yield from _complete(self._job, unit, "survey")
        yield TaggedOutput(SURVEYS, survey(block))


class SurveyBucket(beam.DoFn):  # type: ignore[misc]
    """(bucket, sources) -> its survey."""

    def __init__(self, job: Job) -> None:
        self._job = job

    def process(self, element: tuple[int, Iterable[Source]]) -> Iterator[TaggedOutput]:
        yield TaggedOutput(SURVEYS, survey(_join(self._job, element[1])))


class MeasureUnit(beam.DoFn):  # type: ignore[misc]
    """Unit -> a part of `diffs`, and sums; nothing at all when the runs are not to be compared."""

    def __init__(self, job: Job) -> None:
        self._job = job

    def process(self, unit: Unit, surveyed: Survey) -> Iterator[TaggedOutput]:
        if not refusals(surveyed, self._job.names, self._job.allow):
            block = yield from _complete(self._job, unit, "measure")
            yield from _measure(self._job, unit.name, block, surveyed)


class MeasureBucket(beam.DoFn):  # type: ignore[misc]
    """(bucket, sources) -> as `MeasureUnit`."""

    def __init__(self, job: Job) -> None:
        self._job = job

    def process(
        self, element: tuple[int, Iterable[Source]], surveyed: Survey
    ) -> Iterator[TaggedOutput]:
        bucket, sources = element
        name = f"part-moved-{bucket:05d}"
        yield from _measure(self._job, name, _join(self._job, sources), surveyed)


def _join(job: Job, sources: Iterable[Source]) -> Block:
    rows = load(sources, len(job.sides))
    return join(rows, across_versions="rubric" in job.allow)


def _complete(job: Job, unit: Unit, purpose: str) -> Generator[TaggedOutput, None, Block]:
    """Yields what is left over; returns the block of what is not."""
    block = _join(job, unit.sources)
    complete, rest = split(block)
    if rest.any():
        folder = storage.join(job.spill, purpose)
        for address in spill(block, rest, folder, unit.name, job.buckets):
            yield TaggedOutput(LEFTOVERS, address)
    return block.only(complete)


def _measure(job: Job, part: str, block: Block, surveyed: Survey) -> Iterator[TaggedOutput]:
    roles = Roles(
        noise=job.noise,
        fp32=job.fp32,
        near_tie_margin=surveyed.threshold(job.noise, job.fp32),
        thresholds=job.thresholds,
        columns=WITH_GOLD if surveyed.gold else WITHOUT_GOLD,
    )
    measured = Measured(block, roles)
    diffs = measured.diffs()
    if diffs.num_rows:
        storage.write_atomic(job.key.table_path(job.output, "diffs", part), parquet(diffs))
    for group in measured.groups():
        yield TaggedOutput(GROUPS, group)
    yield TaggedOutput(AGREEMENT, measured.agreement())
    yield TaggedOutput(FLIPS, worst_flips(diffs))
    yield TaggedOutput(POINTS, sample_points(measured))
