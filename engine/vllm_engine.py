"""vLLM's engine, built for structured reads and stepped by hand.

Everything here runs on the one thread that owns the engine. Stepping by hand, rather than through
`LLM.generate`, times every engine step and keeps the progress bars and per-call set-up out.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing import connection
from typing import Any

from engine.builds import Build
from engine.checkpoints import Checkpoint
from engine.environment import own_cores, settle_threads
from engine.reads import EngineDeadError, Read
from engine.requests import sampling_params

_GIB = 2**30
NOTE_KEY = "onepass"  # as `engine.vllm_plugin.counting` writes it, which needs vLLM to import
_SCHEDULERS = {
    False: "engine.vllm_plugin.counting.CountingScheduler",
    True: "engine.vllm_plugin.single_pass.SinglePassScheduler",
}


@dataclass(frozen=True, slots=True)
class Answer:
    """What vLLM said to one read: its log probabilities and how it ran, or why it refused."""

    logprobs: Any = None
    single_pass: bool = False
    two_step_reason: str | None = None
    cached_prompt_tokens: int = 0
    error: str | None = None


_in_this_process: weakref.WeakSet[VllmEngine] = weakref.WeakSet()


class VllmEngine:
    """An `LLMEngine` for one build.

    Attributes:
        engine_seconds: wall time inside engine steps since the start.
        scheduler_totals: the scheduler's counts since the start, as of the last answer.
    """

    def __init__(self, build: Build, checkpoint: Checkpoint, threads: int) -> None:
        from vllm import EngineArgs, LLMEngine, envs

        envs.disable_envs_cache()  # an earlier engine of this process froze the environment
        own_cores(threads)
        self._engine = LLMEngine.from_engine_args(EngineArgs(**engine_args(build, checkpoint)))
        self._in_process = build.in_process
        if build.in_process:
            settle_threads(threads)
            _in_this_process.add(self)
        else:
            _watch_child(self._engine.engine_core)
        self._number = 0
        self._stopping = threading.Event()
        self.engine_seconds = 0.0
        self.scheduler_totals: dict[str, int] | None = None

    def run(self, reads: Sequence[Read]) -> list[Answer]:
        """One answer per read, in order; vLLM gets the reads in that order, too.

        Raises `EngineDeadError` when vLLM fails; the engine is of no further use then.
        """
        answers: list[Answer | None] = [None] * len(reads)
        places: dict[str, int] = {}
        try:
            for place, read in enumerate(reads):
                refusal = self._add(read, place, places)
                if refusal is not None:
                    answers[place] = Answer(error=f"refused_by_vllm: {refusal}")
            while places:
                if self._stopping.is_set():
                    raise EngineDeadError("the engine was closed")
                started = time.perf_counter()
                outputs = self._engine.step()
                self.engine_seconds += time.perf_counter() - started
                for output in outputs:
                    if output.finished:
                        answers[places.pop(output.request_id)] = self._answer(output)
        except EngineDeadError:
            raise
        except Exception as error:
            raise EngineDeadError(
                f"vLLM's engine failed with {type(error).__name__}; its log has the cause"
            ) from error
        return [answer for answer in answers if answer is not None]

    def _add(self, read: Read, place: int, places: dict[str, int]) -> str | None:
        """Hand one read over; what vLLM's validation says against it, or None."""
        from vllm.exceptions import VLLMValidationError
        from vllm.inputs.engine import tokens_input

        # Its own number: the caller's id may repeat between calls still held somewhere in vLLM.
        self._number += 1
        request_id = f"read-{self._number}"
        try:
            prompt = tokens_input(list(read.prompt_ids), cache_salt=read.cache_group)
            self._engine.add_request(request_id, prompt, sampling_params(read))
        except (VLLMValidationError, ValueError, TypeError) as error:
            # Not the message: it may quote token ids.
            return f"{type(error).__name__}, parameter {getattr(error, 'parameter', None)}"
        places[request_id] = place
        return None

    def _answer(self, output: Any) -> Answer:
        note = output.kv_transfer_params[NOTE_KEY]
        self.scheduler_totals = note["totals"]
        return Answer(
            logprobs=output.outputs[0].logprobs,
            single_pass=note["single_pass"],
            two_step_reason=note["two_step_reason"],
            cached_prompt_tokens=output.num_cached_tokens or 0,
        )

    def stop(self) -> None:
        """End a `run` in progress after its current step. Callable from any thread."""
        self._stopping.set()

    def reset_prefix_cache(self) -> None:
        self._engine.reset_prefix_cache()

    def shutdown(self) -> None:
        client = self._engine.engine_core
        _in_this_process.discard(self)
        if not self._in_process or not _in_this_process:
            client.shutdown()
        else:
            free_one_engine(client)


def free_one_engine(client: Any) -> None:
    """Free what is the in-process engine's own. Repeatable.

    The client's own shutdown, which also runs when the client is collected, would tear down what
    all engines of the process share.
    """
    if client._finalizer.detach() is not None:
        client.engine_core.model_executor.shutdown()
        client.engine_core.scheduler.shutdown()


def engine_args(build: Build, checkpoint: Checkpoint) -> dict[str, Any]:
    """Keyword arguments of `vllm.EngineArgs` (and of `vllm.LLM`) for `build`."""
    return {
        "model": str(checkpoint.path),
        "dtype": build.dtype,
        "max_model_len": build.max_model_len,
        "max_num_seqs": build.max_num_seqs,
        "max_num_batched_tokens": build.max_num_batched_tokens,
        "max_logprobs": build.max_logprobs,
        "block_size": build.block_size,
        "enable_prefix_caching": build.enable_prefix_caching,
        "kv_cache_memory_bytes": int(build.kv_cache_gib * _GIB),
        "enforce_eager": build.compile != "full",
        "diffusion_config": {"canvas_length": build.canvas_length},
        "scheduler_cls": _SCHEDULERS[build.single_pass_reads],
        "additional_config": {
            "onepass": {
                "single_pass_reads": build.single_pass_reads,
                "joined_label_sets": build.joined_label_sets,
                # A compiled layer is one piece.
                "canvas_only_last_layer": build.canvas_only_last_layer and build.compile != "full",
            }
        },
        # Token ids in, token ids out; the tokenizer and the image processor are not needed.
        "skip_tokenizer_init": True,
        "language_model_only": True,
        "use_tqdm_on_load": False,
    }


def _watch_child(client: Any) -> None:
    """Wake whoever waits for `client`'s next output when its engine process has ended.

    vLLM's synchronous client only tells callers that come after the death of a killed process;
    one that already waits for an output would wait for ever.
    """
    outputs, processes = client.outputs_queue, client.resources.engine_manager.processes

    def wait() -> None:
        connection.wait([process.sentinel for process in processes])
        outputs.put_nowait(EngineDeadError("an engine process ended"))

    threading.Thread(target=wait, name="onepass-engine-watch", daemon=True).start()
