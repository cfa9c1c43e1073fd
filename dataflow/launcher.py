"""Runs in the Flex Template's launcher: the launch's parameters -> the job's graph.

Besides the parameters of `metadata.json` the launcher is handed Beam options as flags (project,
staging folder, machine type, ...). What is said at launch counts over what the job file says.
"""

from __future__ import annotations

import argparse
import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime
from typing import Any
from zoneinfo import ZoneInfo

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions

from pipeline.cloud.launching import PARAMETERS
from pipeline.cloud.workers import strings, worker_options
from pipeline.deciding.inference import EngineSource
from pipeline.estimating.machines import load_machines
from pipeline.jobs.config import Job, LoadedJob, load_job
from pipeline.jobs.running import prepare
from pipeline.output.finishing import start_run
from pipeline.yaml_files import ConfigError

OVERRIDES = tuple(name for name in PARAMETERS if name in Job.model_fields)

_LISTS = ("rubrics", "input")


def main(argv: Sequence[str] | None = None) -> None:
    """Build the graph and hand it over; does not wait for the job.

    Exits with every problem when the parameters, the job or what it names are wrong.
    """
    logging.basicConfig(level=logging.INFO)
    try:
        launch(argv)
    except ConfigError as error:
        raise SystemExit("\n".join(error.problems)) from None


def launch(argv: Sequence[str] | None = None, source: EngineSource | None = None) -> Any:
    """What `main` does; returns Beam's result. `source` replaces the engine in tests."""
    parameters, flags = _parser().parse_known_args(argv)
    loaded = _loaded(parameters, flags)
    options = worker_options(loaded, load_machines())
    prepared = prepare(loaded, resume=parameters.resume == "true", source=source)
    start_run(loaded.job.output, prepared.start)
    logging.info("run %s of job %s", prepared.start.key.run_id, loaded.job.name)
    pipeline = beam.Pipeline(options=PipelineOptions.from_dictionary(options))
    _ = pipeline | prepared.transform
    return pipeline.run()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--job", required=True)
    for name in OVERRIDES:
        parser.add_argument(f"--{name}")
    parser.add_argument("--time_zone", default="UTC")
    parser.add_argument("--resume", choices=("true", "false"), default="false")
    return parser


def _loaded(parameters: argparse.Namespace, flags: Sequence[str]) -> LoadedJob:
    given = {name: value for name in OVERRIDES if (value := getattr(parameters, name))}
    for name in _LISTS:
        if name in given:
            given[name] = [item.strip() for item in given[name].split(",")]
    given.setdefault("run_date", today(parameters.time_zone))
    loaded = load_job(parameters.job, {**given, "runner": "DataflowRunner"})
    stated = PipelineOptions(list(flags)).get_all_options(drop_default=True)
    return _with_options(loaded, stated)


def _with_options(loaded: LoadedJob, stated: Mapping[str, Any]) -> LoadedJob:
    options = {**loaded.job.options, **stated}
    experiments = [*strings(loaded.job.options.get("experiments")), *stated.get("experiments", ())]
    if experiments:
        options["experiments"] = list(dict.fromkeys(experiments))
    return replace(loaded, job=loaded.job.model_copy(update={"options": options}))


def today(time_zone: str, now: datetime | None = None) -> date:
    """The date that it is in `time_zone`: a schedule's request is always the same, so the date of
    a run is found when it starts. Raises `ConfigError` for a zone that does not exist."""
    try:
        zone = ZoneInfo(time_zone)
    except (KeyError, ValueError, OSError):
        raise ConfigError(
            [f"time_zone: there is no {time_zone!r}; use a name such as America/Toronto"]
        ) from None
    return (now or datetime.now(zone)).astimezone(zone).date()
