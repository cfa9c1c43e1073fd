"""What a comparison's workers need to know, and where its files lie."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pipeline import storage
from pipeline.diff.facts import facts
from pipeline.diff.leftovers import bucket_count
from pipeline.diff.result import Side, comparison_id, result_key
from pipeline.diff.thresholds import Threshold
from pipeline.diff.units import Unit, plan_units
from pipeline.output.comparisons import comparison_path
from pipeline.output.runs import Run, RunKey

_FIGURES = (
    "job",
    "seconds",
    "records",
    "cases",
    "decisions",
    "errors",
    "parts",
    "steps",
    "reads",
    "single_pass",
    "two_step_flag_off",
    "two_step_not_eligible",
    "two_step_token_budget",
    "two_step_model_length",
    "prompt_tokens",
    "prompt_tokens_computed",
    "prompt_tokens_cached",
    "canvas_tokens",
    "engine_seconds",
)


@dataclass(frozen=True)
class Job:
    """One comparison.

    Attributes:
        sides: facts about the runs, by place: baseline, candidate, then the others.
        output: folder that tables and record go to.
        key: places the tables; its run id is the comparison's id.
        noise, fp32: places of the repeat of the baseline and of the fp32 run.
        allow: differences waved through.
        thresholds: probabilities that products act at.
        buckets: over how many buckets leftover conversations are spread.
    """

    sides: tuple[Side, ...]
    output: str
    key: RunKey
    noise: int | None
    fp32: int | None
    allow: tuple[str, ...]
    thresholds: tuple[Threshold, ...]
    buckets: int

    @property
    def names(self) -> list[str]:
        """Run ids by place."""
        return [side.run_id for side in self.sides]

    @property
    def spill(self) -> str:
        """Folder of temporary files."""
        return storage.join(self.output, "_comparisons", f"{self.key.run_id}.spill")

    @property
    def record(self) -> str:
        """The file that says the comparison is finished."""
        return comparison_path(self.output, self.key.run_id)


def plan(
    runs: Sequence[Run],
    *,
    output: str,
    noise: Run | None = None,
    fp32: Run | None = None,
    allow: Sequence[str] = (),
    thresholds: Sequence[Threshold] = (),
) -> tuple[Job, list[Unit]]:
    """Plan a comparison of `runs` (baseline, candidate, others)."""
    everything = list(runs)
    roles = ["baseline", "candidate", *("other" for _ in runs[2:])]
    places: dict[str, int] = {}
    for role, run in (("noise", noise), ("fp32", fp32)):
        if run is None:
            continue
        places[role] = len(everything)
        everything.append(run)
        roles.append(role)
    job = Job(
        sides=tuple(_side(role, run) for role, run in zip(roles, everything, strict=True)),
        output=output,
        key=result_key(everything, comparison_id(everything, roles)),
        noise=places.get("noise"),
        fp32=places.get("fp32"),
        allow=tuple(allow),
        thresholds=tuple(thresholds),
        buckets=bucket_count(max(int(run.row["decisions"]) for run in everything)),
    )
    return job, plan_units(everything)


def _side(role: str, run: Run) -> Side:
    row: dict[str, Any] = run.row
    return Side(
        role=role,
        run_id=run.run_id,
        build=run.build,
        run_date=run.run_date,
        facts=facts(run),
        figures={name: row[name] for name in _FIGURES},
    )
