"""Runs a job slowly, to be killed: `python -m tests.pipeline.slow_run FOLDER OUTPUT`."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from engine.builds import Build
from engine.fake import FakeEngine
from engine.reads import Read, ReadResult
from pipeline.deciding.inference import EngineSource
from pipeline.jobs.running import execute, pipeline_options, prepare
from rubrics.model import load_rubric
from tests.pipeline.sample_jobs import CHAINED, fake_engine, make_job, noon


def slow_engine(build: Build) -> FakeEngine:
    engine = fake_engine(build)
    answer = engine.read

    def read(reads: Sequence[Read]) -> list[ReadResult]:
        time.sleep(0.1)
        return answer(reads)

    engine.read = read  # type: ignore[method-assign]
    return engine


if __name__ == "__main__":
    folder, output = Path(sys.argv[1]), Path(sys.argv[2])
    output.mkdir(exist_ok=True)
    job = make_job(folder, [load_rubric("triage"), CHAINED], records_per_part=8, output=str(output))
    prepared = prepare(job, resume=True, source=EngineSource(slow_engine, noon))
    (output / "pid").write_text(str(os.getpid()))
    execute(prepared, pipeline_options(job))
