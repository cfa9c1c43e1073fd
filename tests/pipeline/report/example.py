"""A comparison with everything a report shows: gold, a repeat, an fp32 run, several factors."""

from __future__ import annotations

import math
import random

from pipeline.diff.result import Comparison
from pipeline.output.runs import Run
from tests.pipeline.diff.cases import compared
from tests.pipeline.synthetic import Decided, decision, write_run

QUESTIONS = {
    "topic": ("billing", "symptoms", "scheduling"),
    "urgency": ("routine", "soon", "urgent"),
    "needs_human": ("no", "yes"),
}
BUILD = {"dtype": "bfloat16", "single_pass_reads": False, "max_num_seqs": 16}
C3 = {"cpu_model": "Intel(R) Xeon(R) Platinum 8481C CPU @ 2.70GHz", "machine_type": "c3-highcpu-44"}
C4 = {"cpu_model": "Intel(R) Xeon(R) 6985P-C", "machine_type": "c4-standard-24"}
ODD_ID = "</script><img src=x onerror=alert(1)>"


def example(output: str, conversations: int = 60) -> Comparison:
    """Six runs of the same questions; the candidate flips more than the repeat."""

    def run(
        name: str, seed: int, scale: float, machine: dict[str, str] = C3, **build: object
    ) -> Run:
        return write_run(
            output, _rows(conversations, seed, scale), run_id=name, build=name, parts=2,
            build_settings={**BUILD, **build, "name": name}, engine_fingerprint=machine,
        )  # fmt: skip

    base, cand = run("flag_off", 1, 0.0), run("single_pass", 2, 0.15, single_pass_reads=True)
    others = [run("serial", 5, 0.06, max_num_seqs=1), run("c4", 6, 0.4, C4)]
    return compared(
        output,
        [base, cand, *others],
        noise=run("flag_off_again", 3, 0.02),
        fp32=run("fp32", 4, 0.03, dtype="float32"),
    )


def _rows(conversations: int, seed: int, scale: float) -> list[Decided]:
    own, shared = random.Random(seed), random.Random(0)
    rows = []
    for i in range(conversations):
        name = ODD_ID if i == 0 else f"conversation-{i:05d}"
        for question, options in QUESTIONS.items():
            logits = [shared.gauss(0, 2) for _ in options]
            if i == 0:
                logits = [0.01 * k for k in range(len(options))]  # this one flips
            gold = options[max(range(len(options)), key=lambda k: logits[k] + shared.gauss(0, 0.8))]
            raised = [math.exp(logit + own.gauss(0, scale)) for logit in logits]
            chances = {o: r / sum(raised) for o, r in zip(options, raised, strict=True)}
            rows.append(decision(name, question, chances, gold=gold))
    return rows
