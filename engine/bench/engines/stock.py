"""Released vLLM, asked through `LLM.generate`: its own scheduler, its own model state.

On a CPU without triton-cpu even this needs the plugin's kernels; nothing else of the plugin is on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from engine.builds import Build
from engine.checkpoints import resolve
from engine.environment import own_cores, prepare, settle_threads, threads_of
from engine.facts import fingerprint
from engine.machine import read_machine
from engine.reads import EngineCounters, Read, ReadResult
from engine.requests import read_result, sampling_params
from engine.vllm_engine import engine_args


class StockEngine:
    """`vllm.LLM` with the build's vLLM arguments and none of this project's."""

    def __init__(self, build: Build) -> None:
        checkpoint = resolve(build.model)
        prepare(build)
        from vllm import LLM

        threads = threads_of(build)
        own_cores(threads)
        self._arguments = stock_arguments(engine_args(build, checkpoint))
        self._llm = LLM(**self._arguments)
        settle_threads(threads)
        self._fingerprint = fingerprint(build, checkpoint, read_machine(), threads)

    def read(self, reads: Sequence[Read]) -> list[ReadResult]:
        """In the order given, as one call of `generate`."""
        from vllm.inputs import TokensPrompt

        outputs = self._llm.generate(
            [TokensPrompt(prompt_token_ids=list(read.prompt_ids)) for read in reads],
            [sampling_params(read) for read in reads],
            use_tqdm=False,
        )
        return [
            read_result(read, output, len(reads))
            for read, output in zip(reads, outputs, strict=True)
        ]

    def counters(self) -> EngineCounters:
        return EngineCounters()

    def forget(self) -> None:
        self._llm.reset_prefix_cache()

    def configuration(self) -> dict[str, Any]:
        return self._arguments

    def fingerprint(self) -> dict[str, Any]:
        return self._fingerprint


def stock_arguments(arguments: dict[str, Any]) -> dict[str, Any]:
    """vLLM's arguments without this project's scheduler and settings."""
    return {
        name: value
        for name, value in arguments.items()
        if name not in ("scheduler_cls", "additional_config")
    }
