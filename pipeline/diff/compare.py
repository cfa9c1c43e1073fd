"""The comparison as one Beam pipeline, for any runner.

    units -> join -> survey ------------------------.    may these runs be compared?
          \\-> leftovers by bucket -> join -> survey -+    what is a near tie?
                                                     v
    units -> join -> measure -> `diffs`, sums, worst flips       (nothing when refused)
          \\-> leftovers by bucket -> join -> measure
    sums -> finish -> `diff_summary`, record

Elements are names of files; rows live inside one step, a part at a time. The join runs twice
because what the first pass finds decides what the second one writes, and keeping the joined rows
in between would keep all of them.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.pvalue import AsDict, AsSingleton, PCollection

from pipeline import storage
from pipeline.diff import steps
from pipeline.diff.finish import finish
from pipeline.diff.job import Job
from pipeline.diff.result import Comparison, Refusal
from pipeline.diff.shown import FLIPS_SHOWN, POINTS_SHOWN, Smallest, severity
from pipeline.diff.sums import MergeSums
from pipeline.diff.survey import Survey
from pipeline.diff.units import Unit
from pipeline.statistics.bootstrap import ClusterSums


def compare(
    job: Job, units: list[Unit], options: PipelineOptions | None = None
) -> Comparison | Refusal:
    """Run the comparison and wait.

    The tables are complete when a `Comparison` comes back; a `Refusal` leaves nothing behind.
    Whatever the runner raises when a step fails goes on to the caller, and there is no record.
    """
    _discard(job)
    try:
        with beam.Pipeline(options=options) as pipeline:
            build(pipeline, job, units)
        record = storage.read_bytes(job.record)
    finally:
        _remove(job.spill)
    if "refused" in record[:20].decode(errors="replace"):
        _discard(job)
        return Refusal.model_validate_json(record)
    return Comparison.model_validate_json(record)


def build(pipeline: beam.Pipeline, job: Job, units: list[Unit]) -> None:
    """Add the comparison to a pipeline."""
    surveys = MergeSums(Survey.empty(len(job.sides)))
    run_pairs = len(job.sides) * (len(job.sides) - 1) // 2
    parts = pipeline | "Units" >> beam.Create(units)
    first = parts | "Survey" >> beam.ParDo(steps.SurveyUnit(job)).with_outputs()
    moved = first[steps.LEFTOVERS] | "Survey buckets" >> beam.GroupByKey()
    second = moved | "Survey moved" >> beam.ParDo(steps.SurveyBucket(job)).with_outputs()
    surveyed = AsSingleton(_sum("surveys", first, second, steps.SURVEYS, surveys))
    first = parts | "Measure" >> beam.ParDo(steps.MeasureUnit(job), surveyed).with_outputs()
    moved = first[steps.LEFTOVERS] | "Measure buckets" >> beam.GroupByKey()
    second = (
        moved | "Measure moved" >> beam.ParDo(steps.MeasureBucket(job), surveyed).with_outputs()
    )
    agreement, worst = MergeSums(ClusterSums(1 + run_pairs)), Smallest(FLIPS_SHOWN, severity)
    _ = (
        pipeline
        | "Once" >> beam.Create([job])
        | "Finish"
        >> beam.Map(
            finish,
            surveyed,
            AsDict(_sum_by_key("groups", first, second, steps.GROUPS, MergeSums())),
            AsSingleton(_sum("agreement", first, second, steps.AGREEMENT, agreement)),
            AsSingleton(_sum("flips", first, second, steps.FLIPS, worst)),
            AsSingleton(_sum("points", first, second, steps.POINTS, Smallest(POINTS_SHOWN))),
        )
    )


# Each branch is combined before they are flattened: a flatten in between would keep the runner from
# combining while it reads, and it would hold an element for every part.


def _sum(name: str, first: Any, second: Any, tag: str, combine: beam.CombineFn) -> PCollection:
    return (
        first[tag] | f"Add {name}" >> beam.CombineGlobally(combine),
        second[tag] | f"Add moved {name}" >> beam.CombineGlobally(combine),
    ) | f"Add all {name}" >> _Together(beam.CombineGlobally(combine))


def _sum_by_key(
    name: str, first: Any, second: Any, tag: str, combine: beam.CombineFn
) -> PCollection:
    return (
        first[tag] | f"Add {name}" >> beam.CombinePerKey(combine),
        second[tag] | f"Add moved {name}" >> beam.CombinePerKey(combine),
    ) | f"Add all {name}" >> _Together(beam.CombinePerKey(combine))


class _Together(beam.PTransform):  # type: ignore[misc]
    """Flatten, then combine."""

    def __init__(self, combine: beam.PTransform) -> None:
        super().__init__()
        self._combine = combine

    def expand(self, parts: Any) -> PCollection:
        return parts | beam.Flatten() | self._combine


def _discard(job: Job) -> None:
    """Remove what an earlier attempt at this comparison left."""
    for table in ("diffs", "diff_summary"):
        _remove(job.key.folder(job.output, table))
    _remove(job.record)
    _remove(job.spill)


def _remove(path: str) -> None:
    if not storage.is_remote(path):
        Path(path).unlink(missing_ok=True) if Path(path).is_file() else shutil.rmtree(
            path, ignore_errors=True
        )
        return
    from apache_beam.io.filesystems import FileSystems

    found = storage.find(storage.join(path, "**")) + ([path] if storage.exists(path) else [])
    if found:
        FileSystems.delete(found)
