"""The plugin alone, the way a user of vLLM's own `LLM` has it: engine in child processes."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from engine.vllm_plugin.torchvision_fix import SITE_HOOK
from tests.engine.vllm_plugin.engines import LABELS, Engine, engine_arguments, make_read

ROOT = Path(__file__).parents[3]
PROGRAM = """
import json, sys
from vllm import LLM, SamplingParams

def main():
    job = json.load(sys.stdin)
    llm = LLM(**job["engine"])
    outputs = llm.generate(
        [{"prompt_token_ids": read["prompt"]} for read in job["reads"]],
        [SamplingParams(**read["params"]) for read in job["reads"]],
        use_tqdm=False,
    )
    print(json.dumps([
        {
            "note": output.kv_transfer_params["onepass"],
            "logprobs": [
                {str(i): found.logprob for i, found in position.items()}
                for position in output.outputs[0].logprobs
            ],
        }
        for output in outputs
    ]), file=sys.stderr)

if __name__ == "__main__":
    main()
"""


@pytest.mark.engine
def test_same_answers_from_a_child_process(on: Engine, checkpoint: Path, tmp_path: Path) -> None:
    rng = random.Random(1)
    reads = [make_read(rng, 40, 16, LABELS[i % 3]) for i in range(4)]
    job = {
        "engine": engine_arguments(checkpoint),
        "reads": [
            {
                "prompt": list(read.prompt_ids),
                "params": {
                    "max_tokens": read.width,
                    "detokenize": False,
                    "logprob_token_ids": list(read.label_ids),
                    "extra_args": {
                        "diffusion_read_only": True,
                        "diffusion_max_steps": 1,
                        "diffusion_constrained": True,
                        "diffusion_canvas_length": read.width,
                        "diffusion_seed_canvas": list(read.canvas_ids),
                    },
                },
            }
            for read in reads
        ],
    }
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    environment = {
        **os.environ,
        "PYTHONPATH": f"{SITE_HOOK}{os.pathsep}{ROOT}",
        "VLLM_ENABLE_V1_MULTIPROCESSING": "1",
        "VLLM_CPU_NUM_OF_RESERVED_CPU": "0",
        "ONEPASS_VLLM": '{"single_pass_reads": true, "joined_label_sets": true}',
    }
    done = subprocess.run(
        [sys.executable, str(program)],
        input=json.dumps(job),
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    answers = json.loads(next(line for line in done.stderr.splitlines() if line[:9] == '[{"note":'))
    on.forget()
    for read, here, there in zip(reads, on.ask(reads), answers, strict=True):
        assert there["note"]["single_pass"]
        found = [[at[str(label)] for label in read.label_ids] for at in there["logprobs"]]
        assert np.abs(here.logprobs - np.array(found)).max() < 1e-5
    # They reach the child one by one: at worst a step for each, where two steps a read make eight.
    assert 1 <= max(one["note"]["totals"]["steps"] for one in answers) <= len(reads)
