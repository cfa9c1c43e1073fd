"""The same questions on this project's engine and on what one would use instead.

Each peer starts afresh on the same kind of memory, answers cold, and is measured a few times; where
its prompts and canvases are the same as this project's, its decisions are compared too.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from engine.bench.arms import Arm, ArmSpec
from engine.reads import Read, ReadResult
from pipeline.bench.arms import Bench, same_memory, shareable
from pipeline.bench.comparison import agreement
from pipeline.bench.results import BenchResult, Recorder
from pipeline.bench.servers import ServerRun, beam_handler, systemone
from pipeline.bench.workload import WORKLOAD, RequestWriter, load_workload
from rubrics.model import load_rubric

RUBRIC = WORKLOAD.parent / "original" / "clinical.yaml"
WIDTH = 32
Progress = Callable[[str], None]

PEERS = {
    "onepass": "this project's engine, one step per read",
    "stock": "vLLM LLM.generate, two steps per read",
    "reference": "Transformers, one read at a time",
    "beam": "Beam's VLLMCompletionsModelHandler",
    "systemone": "vllm serve, /v1/systemone, one read per question",
}


def run(bench: Bench, peers: Sequence[str], repetitions: int, progress: Progress) -> BenchResult:
    """Measure the peers one after another on the workload's conversations under one rubric."""
    settings, conversations = load_workload()
    if bench.quick:
        conversations = conversations[:4]
    writer = RequestWriter(bench.checkpoint, settings.seed)
    rubric = load_rubric(RUBRIC)
    compiled = writer.compiled(rubric, "lines", WIDTH)
    requests = [writer.request("peers", c, compiled, WIDTH) for c in conversations]
    # Beam's handler gives a whole batch one canvas; so everybody gets the first one's noise.
    first = requests[0].reads[0]
    reads = [replace(r.reads[0], canvas_ids=first.canvas_ids) for r in requests]
    recorder = Recorder(
        "peers",
        bench.size,
        bench.configuration(
            conversations=len(conversations),
            decisions=sum(len(read.slots) for read in reads),
            repetitions=repetitions,
        ),
    )
    answers: dict[str, list[ReadResult]] = {}
    configurations: dict[str, Any] = {}
    rows: list[dict[str, Any]] = []
    build = bench.build("baseline")
    for name in peers:
        progress(name)
        with same_memory(bench.size):
            if name == "systemone":
                served = _isolated(
                    systemone, build, conversations, rubric, repetitions, build.max_num_seqs
                )
            elif name == "beam":
                served = _isolated(beam_handler, build, reads, repetitions)
            else:
                served = _engine(bench, name, reads, repetitions)
        answers[name] = served.results
        configurations[name] = {"what": PEERS[name], **shareable(served.configuration)}
        recorder.samples.append({"peer": name, "seconds": served.seconds})
        rows.append(
            {
                "peer": name,
                "decisions": served.decisions,
                "decisions_per_second": served.decisions / float(np.median(served.seconds)),
                "memory_gib": served.resident_gib,
                "start_seconds": served.start_seconds,
            }
        )
    own = next((row["decisions_per_second"] for row in rows if row["peer"] == "onepass"), None)
    for row in rows:
        row["onepass_is_faster_by"] = None if own is None else own / row["decisions_per_second"]
    summary = {
        "peers": rows,
        "agreement": {
            name: agreement(answers["onepass"], results)
            for name, results in answers.items()
            if results and name != "onepass" and "onepass" in answers
        },
    }
    return recorder.finish(summary, peers=configurations)


def _engine(bench: Bench, name: str, reads: list[Read], repetitions: int) -> ServerRun:
    """An engine in a process of its own."""
    specs = {
        "onepass": ArmSpec("onepass", "onepass", bench.build("single_pass")),
        "stock": ArmSpec("stock", "stock", bench.build("baseline")),
        "reference": ArmSpec("reference", "reference", bench.build("baseline")),
    }
    with Arm(specs[name]) as arm:
        seconds = []
        for _ in range(repetitions):
            arm.forget()
            timed = arm.read(reads)
            seconds.append(timed.seconds)
        return ServerRun(
            arm.facts.configuration,
            arm.facts.start_seconds,
            arm.peak_gib(),
            seconds,
            sum(len(read.slots) for read in reads),
            timed.results,
        )


def _isolated(function: Callable[..., ServerRun], *arguments: Any) -> ServerRun:
    """Run in a fresh process: vLLM and Beam's handler leave much behind in theirs."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(function, arguments)
