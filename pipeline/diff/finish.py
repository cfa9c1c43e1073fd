"""The last step: sums to `diff_summary` and the record that says the comparison is finished."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from pipeline import storage
from pipeline.diff.factors import attribute
from pipeline.diff.job import Job
from pipeline.diff.result import CalibrationBin, Comparison, Point, Refusal
from pipeline.diff.summary import Names, summarise
from pipeline.diff.sums import OVERALL, WITH_GOLD, Group, GroupSums, bins
from pipeline.diff.survey import Survey, refusals
from pipeline.output.writing import write_table
from pipeline.statistics.bootstrap import ClusterSums
from pipeline.statistics.calibration import BINS


def finish(
    job: Job,
    surveyed: Survey,
    groups: Mapping[Group, GroupSums],
    agreement: ClusterSums,
    flips: Sequence[dict[str, Any]],
    points: Sequence[tuple[int, float, float, str | None]],
) -> None:
    """Write the summary and the record, or the record of a refusal."""
    refused = refusals(surveyed, job.names, job.allow)
    if refused:
        _write(job, Refusal(refused=refused))
        return
    names = Names(
        job.names[0],
        job.names[1],
        None if job.noise is None else job.names[job.noise],
        None if job.fp32 is None else job.names[job.fp32],
    )
    threshold = surveyed.threshold(job.noise, job.fp32)
    rows = summarise(groups, names, threshold)
    write_table(job.output, job.key, "diff_summary", "part-summary", rows)
    is_overall = [(row["rubric_id"], row["question_id"]) == OVERALL for row in rows]
    comparison = Comparison(
        id=job.key.run_id,
        made_at=datetime.now(UTC).isoformat(),
        sides=list(job.sides),
        overall=rows[is_overall.index(True)],
        questions=[row for row, overall in zip(rows, is_overall, strict=True) if not overall],
        flips_total=rows[is_overall.index(True)]["flips"],
        flips=list(flips),
        points=[
            Point(margin=margin, movement=movement, changed=found is not None, flip_class=found)
            for _, margin, movement, found in points
        ],
        calibration=_calibration(groups[OVERALL]),
        attribution=attribute(agreement, job.names, [side.facts for side in job.sides]),
        allowed=sorted(job.allow),
        differing=refusals(surveyed, job.names, ()),
        thresholds=[str(threshold) for threshold in job.thresholds],
    )
    _write(job, comparison)


def _calibration(sums: GroupSums) -> list[list[CalibrationBin]]:
    if sums.columns != WITH_GOLD:
        return []
    sides = []
    for side in (0, 1):
        count, probability, right = bins(sums.clusters.totals(), side)
        sides.append(
            [
                CalibrationBin(
                    low=b / BINS,
                    count=int(count[b]),
                    probability=float(probability[b] / count[b]),
                    right=float(right[b] / count[b]),
                )
                for b in range(BINS)
                if count[b]
            ]
        )
    return sides


def _write(job: Job, record: Comparison | Refusal) -> None:
    storage.write_atomic(job.record, record.model_dump_json(indent=1).encode())
