"""Probabilities that products act at: a change across one matters, whichever option is the best.

`triage/urgent/yes=0.8` stands for "act when P(yes) of triage/urgent is at least 0.8".
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from pipeline.output.runs import Run
from pipeline.yaml_files import ConfigError


@dataclass(frozen=True, slots=True)
class Threshold:
    """One option's probability from which on something is done."""

    rubric_id: str
    question_id: str
    option: str
    probability: float

    def __str__(self) -> str:
        return f"{self.rubric_id}/{self.question_id}/{self.option}={self.probability:g}"


def parse_thresholds(texts: Sequence[str], runs: Sequence[Run]) -> tuple[Threshold, ...]:
    """`RUBRIC/QUESTION/OPTION=P` of options that every run asks for; raises ConfigError."""
    found, problems = [], []
    for text in texts:
        try:
            threshold = _parsed(text)
            for run in runs:
                _check(threshold, run)
            found.append(threshold)
        except ValueError as error:
            problems.append(f"--threshold {text}: {error}")
    if problems:
        raise ConfigError(problems)
    return tuple(dict.fromkeys(found))


def _parsed(text: str) -> Threshold:
    name, _, value = text.rpartition("=")
    parts = name.split("/", 2)
    try:
        probability = float(value)
    except ValueError:
        probability = math.nan
    if len(parts) < 3 or not all(parts) or math.isnan(probability):
        raise ValueError("write RUBRIC/QUESTION/OPTION=P, such as triage/urgent/yes=0.8")
    if not 0 < probability <= 1:
        raise ValueError(f"P is {value}; it must be above 0 and at most 1")
    rubric_id, question_id, option = parts
    return Threshold(rubric_id, question_id, option, probability)


def _check(threshold: Threshold, run: Run) -> None:
    asked = {
        f"{rubric['id']}/{question['id']}": [option["name"] for option in question["options"]]
        for rubric in run.fingerprint["job"].get("rubrics", [])
        for question in rubric["questions"]
    }
    name = f"{threshold.rubric_id}/{threshold.question_id}"
    if name not in asked:
        known = ", ".join(asked) or "none"
        raise ValueError(f"run {run.run_id} has no question {name}; it has {known}")
    if threshold.option not in asked[name]:
        raise ValueError(
            f"question {name} of run {run.run_id} has no option {threshold.option}; "
            f"use {', '.join(asked[name])}"
        )
