"""Bulk work: label sets that meet in a batch, and a rubric that a large batch shares.

`mixed`: 16 reads of two rubrics taking turns; released vLLM computes the whole vocabulary for
every step in which label sets meet. `shared`: reads of one rubric, `LLM.generate` in the order
given against this project's engine.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

import numpy as np

from engine.bench.arms import ArmSpec
from engine.bench.read_sets import fixed_length_reads
from engine.reads import Read
from pipeline.bench.arms import Bench, configuration_of, start
from pipeline.bench.comparison import agreement
from pipeline.bench.results import BenchResult, Recorder

MIXED_READS = 16


def run(bench: Bench, repetitions: int, shared_reads: int) -> BenchResult:
    """Measure both batches on stock vLLM and on this project's engine, taking turns."""
    vocab_size = bench.checkpoint.vocab_size
    batches: dict[str, list[Read]] = {
        "mixed": fixed_length_reads(
            MIXED_READS, 100, vocab_size=vocab_size, label_sets=2, shared_tokens=1
        ),
        "shared": fixed_length_reads(
            shared_reads, 320, vocab_size=vocab_size, shared_tokens=256, options=5
        ),
    }
    recorder = Recorder(
        "batches",
        bench.size,
        bench.configuration(
            repetitions=repetitions,
            batches={
                "mixed": f"{MIXED_READS} reads of 100 tokens, two label sets taking turns",
                "shared": f"{shared_reads} reads of 320 tokens, the first 256 of a rubric's shared",
            },
        ),
    )
    specs = [
        ArmSpec("stock", "stock", bench.build("baseline")),
        ArmSpec("onepass", "onepass", bench.build("single_pass")),
    ]
    found: dict[tuple[str, str], Any] = {}
    with ExitStack() as stack:
        arms = start(stack, bench.size, specs)
        for name, reads in batches.items():
            for number in range(repetitions):
                for arm in arms if number % 2 == 0 else arms[::-1]:
                    arm.forget()
                    timed = arm.read(reads)
                    found[name, arm.spec.name] = timed.results
                    recorder.samples.append(
                        {
                            "batch": name,
                            "arm": arm.spec.name,
                            "repetition": number,
                            "reads": len(reads),
                            "seconds": timed.seconds,
                            "steps": timed.counters.steps,
                            "logits_columns": timed.counters.logits_columns,
                            "cached_prompt_tokens": sum(
                                result.cached_prompt_tokens for result in timed.results
                            ),
                        }
                    )
        configuration = configuration_of(arms)
    summary = {
        "batches": _table(recorder.samples),
        "agreement": {
            name: agreement(found[name, "stock"], found[name, "onepass"]) for name in batches
        },
    }
    return recorder.finish(summary, arms=configuration)


def _table(samples: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Reads per second of each arm (median repetition) and their ratio, by batch."""
    rates: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for sample in samples:
        rates[sample["batch"]][sample["arm"]].append(sample["reads"] / sample["seconds"])
    rows = []
    for name, by_arm in rates.items():
        ratios = np.array(by_arm["onepass"]) / np.array(by_arm["stock"])
        rows.append(
            {
                "batch": name,
                "stock_reads_per_second": float(np.median(by_arm["stock"])),
                "onepass_reads_per_second": float(np.median(by_arm["onepass"])),
                "ratio": float(np.median(ratios)),
                "ratio_low": float(ratios.min()),
                "ratio_high": float(ratios.max()),
            }
        )
    return rows
