"""Small runs with known differences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pipeline.diff.compare import compare
from pipeline.diff.job import plan
from pipeline.diff.result import Comparison, Refusal
from pipeline.output.runs import Run
from tests.pipeline.synthetic import Decided, decision, write_run

JEVBENCH = 231


def items(count: int, flipped: Sequence[int] = (), **overrides: Any) -> list[Decided]:
    """One yes/no decision for each of `count` conversations, with gold "yes".

    The first third is right with 0.9, the second barely (0.501), the last wrong; `flipped`
    turns decisions around.
    """
    found = []
    for i in range(count):
        yes = (0.9, 0.501, 0.2)[i * 3 // count]
        if i in flipped:
            yes = 1 - yes
        found.append(
            decision(f"c{i:04d}", "relevant", {"yes": yes, "no": 1 - yes}, gold="yes", **overrides)
        )
    return found


def compared(output: str, runs: Sequence[Run], **options: Any) -> Comparison:
    """The comparison of runs that can be compared."""
    result = _compare(output, runs, **options)
    assert isinstance(result, Comparison), result
    return result


def refused(output: str, runs: Sequence[Run], **options: Any) -> str:
    """Why runs cannot be compared."""
    result = _compare(output, runs, **options)
    assert isinstance(result, Refusal), result
    return "\n".join(result.refused)


def _compare(output: str, runs: Sequence[Run], **options: Any) -> Comparison | Refusal:
    job, units = plan(runs, output=output, **options)
    return compare(job, units)


def two_runs(
    output: str, first: Sequence[Decided], second: Sequence[Decided], *, parts: int = 2
) -> list[Run]:
    """A baseline and a candidate."""
    return [
        write_run(output, first, run_id="base", build="baseline", parts=parts),
        write_run(output, second, run_id="cand", build="single_pass", parts=parts),
    ]
