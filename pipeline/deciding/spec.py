"""What a worker needs to know about a run; small, and safe to send to other processes."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass

from tokenizers import Tokenizer

from engine.builds import Build
from engine.checkpoints import Checkpoint, resolve
from pipeline.deciding.planning import PlanSettings
from pipeline.output.runs import RunKey
from rubrics.compiler import CompiledRubric, Dialect, compile_rubric
from rubrics.encoding import TextEncoder
from rubrics.errors import RubricError
from rubrics.model import Rubric


@dataclass(frozen=True)
class DecideSpec:
    """One run as its workers see it.

    Attributes:
        vocab_size: of the model; canvas noise is drawn below it.
        job_sha256: of everything in job and build that can move a decision.
        resume_from: earlier runs whose finished parts may be taken over, best first.
    """

    output: str
    key: RunKey
    build: Build
    rubrics: tuple[Rubric, ...]
    dialect: Dialect
    settings: PlanSettings
    vocab_size: int
    job_sha256: str
    resume_from: tuple[RunKey, ...] = ()


_compiled: dict[str, Mapping[str, CompiledRubric]] = {}
_compiling = threading.Lock()


def compiled_rubrics(spec: DecideSpec) -> Mapping[str, CompiledRubric]:
    """The run's compiled rubrics by id; compiled once per process."""
    with _compiling:
        if spec.job_sha256 not in _compiled:
            checkpoint = resolve(spec.build.model, weights=False)
            _compiled.clear()  # a process serves one run at a time
            _compiled[spec.job_sha256] = compile_rubrics(
                spec.rubrics, checkpoint, spec.build, spec.dialect
            )
        return _compiled[spec.job_sha256]


def compile_rubrics(
    rubrics: tuple[Rubric, ...], checkpoint: Checkpoint, build: Build, dialect: Dialect
) -> dict[str, CompiledRubric]:
    """Every rubric under the checkpoint's tokenizer; raises `RubricError` with all problems."""
    encoder = TextEncoder(Tokenizer.from_file(str(checkpoint.path / "tokenizer.json")))
    compiled, problems = {}, []
    for rubric in rubrics:
        try:
            compiled[rubric.id] = compile_rubric(
                rubric, encoder, dialect=dialect, canvas_length=build.canvas_length
            )
        except RubricError as error:
            problems += error.problems
    if problems:
        raise RubricError(problems)
    return compiled
