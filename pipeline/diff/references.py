"""The runs a command line names: by id, build, folder; and whether they can play their part."""

from __future__ import annotations

import re

from pipeline.diff.facts import differing_factors, facts
from pipeline.output.runs import Run, find_run

# OUTPUT/_runs/ID or OUTPUT/TABLE/run_date=.../build=.../run_id=ID
_FOLDER = re.compile(
    r"^(?P<output>.+?)/(?:_runs/|[a-z_]+/run_date=[^/]+/build=[^/]+/run_id=)(?P<id>[^/]+)/*$"
)


class RoleError(ValueError):
    """A run cannot play the part it was given."""


def resolve(output: str, name: str) -> Run:
    """The complete run that `name` refers to.

    `name` is a run id (or its beginning), a build (its latest run), `latest`, or the folder of a
    run, which may lie under another output. Raises `RunNotFoundError`.
    """
    folder = _FOLDER.match(name)
    if folder:
        return find_run(folder["output"], folder["id"])
    return find_run(output, name)


def check_noise(baseline: Run, noise: Run) -> None:
    """Raise `RoleError` unless `noise` repeats the baseline's build."""
    if noise.run_id == baseline.run_id:
        raise RoleError(
            f"run {noise.run_id} is the baseline itself; a noise floor needs a second run of the "
            "same build"
        )
    differing = differing_factors(facts(baseline), facts(noise))
    if differing:
        raise RoleError(
            f"run {noise.run_id} is no repeat of the baseline {baseline.run_id}: they differ in "
            f"{', '.join(differing)}; run the baseline's build again"
        )


def check_fp32(fp32: Run) -> None:
    """Raise `RoleError` unless the run was made in float32."""
    dtype = fp32.row["dtype"]
    if dtype != "float32":
        raise RoleError(
            f"run {fp32.run_id} is not an fp32 run: its dtype is {dtype}; run a build with "
            "dtype: float32"
        )
