"""The decide pipeline: shards in, tables out.

    FindParts -> TakeOver ---------------------------------- parts taken over -> markers -+
                    +--> ReadParts -> PlanParts -> RunInference -> WriteParts -> markers -+
                                                                                 Finish <-+

Everything between the reading of a part and its marker is one fused stage: a part is written as
soon as it is decided, so a killed run keeps what it finished.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import apache_beam as beam
from apache_beam.ml.inference.base import RunInference

from pipeline.deciding.answering import DecidedPart
from pipeline.deciding.inference import DecisionModelHandler, EngineSource
from pipeline.deciding.planning import PlannedPart, plan_part
from pipeline.deciding.progress import Progress, report
from pipeline.deciding.spec import DecideSpec, compiled_rubrics
from pipeline.input.parts import Part, PartRecords
from pipeline.input.reading import FindParts, ReadParts
from pipeline.output.finishing import RunStart, finish_run
from pipeline.output.resuming import part_digest, take_over
from pipeline.output.writing import PART_TABLES, PartMarker, write_marker, write_table


class RunFailedError(RuntimeError):
    """The run's counts do not reconcile or too many cases failed; its manifest says so."""


@dataclass(eq=False)  # Beam writes to transforms as it applies them
class Decide(beam.PTransform):  # type: ignore[misc]
    """Root transform: decides the conversations of `patterns`; gives the run's manifest.

    Attributes:
        patterns: files or globs of shards, local or `gs://`.
        records_per_part: lines or rows decided and written together.
        limit: only the first records of the input.
        source: where workers get their engine.
        raise_when_failed: fail the pipeline with the run, for runners nobody waits for.
    """

    spec: DecideSpec
    start: RunStart
    patterns: Sequence[str]
    records_per_part: int
    max_error_rate: float
    limit: int | None = None
    source: EngineSource = field(default_factory=EngineSource)
    raise_when_failed: bool = False

    def find_parts(self) -> FindParts:
        """The transform that divides the input; raises InputError when there is none."""
        return FindParts(
            self.patterns,
            records_per_part=self.records_per_part,
            limit=self.limit,
            rubric_ids=[rubric.id for rubric in self.spec.rubrics],
        )

    def expand(self, pbegin: Any) -> Any:
        parts = pbegin | "FindParts" >> self.find_parts()
        known = parts | "TakeOver" >> beam.ParDo(_TakeOver(self.spec)).with_outputs(
            "taken", main="wanted"
        )
        written = (
            known.wanted
            | "ReadParts" >> ReadParts([rubric.id for rubric in self.spec.rubrics])
            | "PlanParts" >> beam.ParDo(_PlanParts(self.spec))
            | "Decide"
            >> RunInference(
                DecisionModelHandler(self.spec, self.source),
                model_identifier=f"onepass-{self.spec.key.run_id}",
            )
            | "WriteParts" >> beam.ParDo(_WriteParts(self.spec))
        )
        markers = (known.taken, written) | beam.Flatten()
        return (
            pbegin
            | "Once" >> beam.Create([None])
            | "Finish"
            >> beam.ParDo(
                _Finish(self.spec, self.start, self.max_error_rate, self.raise_when_failed),
                markers=beam.pvalue.AsList(markers),
                scanned=beam.pvalue.AsDict(parts | beam.Map(lambda p: (p.file_stem, p.records))),
            )
        )


class _TakeOver(beam.DoFn):  # type: ignore[misc]
    """Part -> itself, or on output `taken` the marker of its copy from an earlier run."""

    def __init__(self, spec: DecideSpec) -> None:
        self._spec = spec

    def process(self, part: Part) -> Iterator[Any]:
        report(Progress(records_found=part.records))
        marker = take_over(part, self._spec)
        yield part if marker is None else beam.pvalue.TaggedOutput("taken", marker)


class _PlanParts(beam.DoFn):  # type: ignore[misc]
    """PartRecords -> PlannedPart; here the text of conversations ends."""

    def __init__(self, spec: DecideSpec) -> None:
        self._spec = spec

    def process(self, read: PartRecords) -> Iterator[PlannedPart]:
        yield plan_part(
            read.part.file_stem,
            part_digest(read.part, self._spec),
            read.records,
            compiled_rubrics(self._spec),
            self._spec.settings,
        )


class _WriteParts(beam.DoFn):  # type: ignore[misc]
    """DecidedPart -> its tables, then its marker."""

    def __init__(self, spec: DecideSpec) -> None:
        self._spec = spec

    def process(self, decided: DecidedPart) -> Iterator[PartMarker]:
        output, key = self._spec.output, self._spec.key
        files = tuple(
            write_table(output, key, table, decided.part, decided.tables[table])
            for table in PART_TABLES
        )
        marker = PartMarker(
            decided.part,
            decided.digest,
            files,
            decided.counts,
            decided.engine,
            decided.engine_fingerprint,
        )
        write_marker(output, key, marker)
        yield marker


class _Finish(beam.DoFn):  # type: ignore[misc]
    """All markers -> the run's manifest."""

    def __init__(
        self, spec: DecideSpec, start: RunStart, max_error_rate: float, raise_when_failed: bool
    ) -> None:
        self._spec = spec
        self._start = start
        self._max_error_rate = max_error_rate
        self._raise_when_failed = raise_when_failed

    def process(
        self, _: None, markers: Sequence[PartMarker], scanned: Mapping[str, int]
    ) -> Iterator[dict[str, Any]]:
        manifest = finish_run(
            self._spec.output,
            self._start,
            markers,
            scanned,
            max_error_rate=self._max_error_rate,
        )
        if self._raise_when_failed and manifest["problems"]:
            raise RunFailedError(
                f"run {self._spec.key.run_id} failed: " + "; ".join(manifest["problems"])
            )
        yield manifest
