"""From a job to a finished run: everything is checked before a model loads."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions

from engine.checkpoints import CheckpointError, resolve
from pipeline import storage
from pipeline.cloud.workers import worker_options
from pipeline.deciding.decide import Decide
from pipeline.deciding.inference import EngineSource
from pipeline.deciding.planning import PlanSettings, job_settings, prompt_limit
from pipeline.deciding.spec import DecideSpec, compile_rubrics
from pipeline.estimating.machines import load_machines
from pipeline.jobs.config import LoadedJob
from pipeline.output.finishing import RunStart, sha256_of, start_run
from pipeline.output.resuming import resumable_runs
from pipeline.output.runs import Run, RunKey, get_run
from pipeline.output.tables import RUNS
from pipeline.output.writing import PART_TABLES
from pipeline.yaml_files import ConfigError
from rubrics.compiler import CompiledRubric
from rubrics.errors import RubricError

LOCAL_RUNNER = "FnApiRunner"


@dataclass(frozen=True)
class PreparedRun:
    """A run that is known to be able to start."""

    loaded: LoadedJob
    start: RunStart
    transform: Decide

    @property
    def resumes(self) -> int:
        """How many earlier runs it can take parts over from."""
        return len(self.transform.spec.resume_from)


def prepare(
    loaded: LoadedJob, *, resume: bool = False, source: EngineSource | None = None
) -> PreparedRun:
    """Compile the rubrics, match the input and place the run; raises `ConfigError`.

    Args:
        loaded: the job with its build and rubrics.
        resume: take over parts that earlier runs of the same job finished.
        source: where workers get their engine; the real one unless given.
    """
    job, build = loaded.job, loaded.build
    settings = PlanSettings(job.samples, job.seed, job.on_too_long, build.max_model_len)
    try:
        checkpoint = resolve(build.model, weights=False)
        compiled = compile_rubrics(loaded.rubrics, checkpoint, build, job.dialect)
    except CheckpointError as error:
        raise ConfigError([f"build {build.name}: {error}"]) from error
    except RubricError as error:
        raise ConfigError(error.problems) from error
    if problems := _without_room(compiled, build.max_model_len):
        raise ConfigError(problems)
    now = datetime.now(UTC)
    run_date = (job.run_date or now.date()).isoformat()
    key = RunKey(run_date, build.name, f"{now:%Y%m%dT%H%M%S}-{uuid.uuid4().hex[:6]}")
    fingerprint = job_settings(build, loaded.rubrics, job.dialect, settings)
    job_sha256 = sha256_of(fingerprint)
    start = RunStart(key, job.name, now.isoformat(), job_sha256, fingerprint)
    spec = DecideSpec(
        output=job.output,
        key=key,
        build=build,
        rubrics=loaded.rubrics,
        dialect=job.dialect,
        settings=settings,
        vocab_size=checkpoint.vocab_size,
        job_sha256=job_sha256,
        resume_from=resumable_runs(job.output, job_sha256) if resume else (),
    )
    transform = Decide(
        spec=spec,
        start=start,
        patterns=job.input,
        records_per_part=job.records_per_part,
        max_error_rate=job.max_error_rate,
        limit=job.limit,
        source=source or EngineSource(),
        raise_when_failed=job.runner != LOCAL_RUNNER,
    )
    transform.find_parts()  # raises when there is no input
    return PreparedRun(loaded, start, transform)


def pipeline_options(loaded: LoadedJob, flags: Sequence[str] = ()) -> PipelineOptions:
    """Beam's options: the job's, then `flags` as on Beam's own command lines.

    Raises `ConfigError` when a Dataflow job states options its workers cannot have.
    """
    options: dict[str, Any] = {"runner": loaded.job.runner, **loaded.job.options}
    if loaded.job.runner == "DataflowRunner":
        options = worker_options(loaded, load_machines())
    return PipelineOptions(list(flags), **options)


def execute(prepared: PreparedRun, options: PipelineOptions) -> Run:
    """Run to the end and return what became of it: complete, failed or unfinished."""
    output, key = prepared.transform.spec.output, prepared.start.key
    start_run(output, prepared.start)
    try:
        with beam.Pipeline(options=options) as pipeline:
            _ = pipeline | prepared.transform
    finally:
        clean_up(output, key)
    return get_run(output, key)


def clean_up(output: str, key: RunKey) -> None:
    """Remove what interrupted writes of this run left behind."""
    storage.remove_leftovers(key.record_path(output))
    for table in (*PART_TABLES, RUNS.name):
        storage.remove_leftovers(key.folder(output, table))


def _without_room(compiled: dict[str, CompiledRubric], max_model_len: int) -> list[str]:
    """Rubrics whose questions alone fill the model."""
    return [
        f"rubric {rubric_id}: its questions take {len(rubric.shared_prefix_ids)} tokens and leave "
        f"no room for a conversation in max_model_len {max_model_len}; raise it or ask less"
        for rubric_id, rubric in compiled.items()
        if len(rubric.shared_prefix_ids) >= prompt_limit(rubric, max_model_len)
    ]
