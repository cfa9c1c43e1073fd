"""In-process vLLM engines on a tiny random checkpoint, and reads for them."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from engine.reads import Read
from engine.requests import sampling_params
from engine.vllm_engine import free_one_engine

VOCABULARY = 512
CANVAS = 64
MAX_MODEL_LEN = 640
TOKEN_BUDGET = 256
BLOCK = 32
LABELS = ((40, 41, 42), (50, 60), (33, 40, 77, 99, 120))

COUNTING = "engine.vllm_plugin.counting.CountingScheduler"


@dataclass
class Asked:
    """One answered read.

    Attributes:
        logprobs: [positions, label ids].
        token_ids: what the engine emitted, one per position.
        note: the scheduler's note; empty with vLLM's own scheduler.
        outputs: vLLM's answer.
    """

    logprobs: npt.NDArray[np.float64]
    token_ids: list[int]
    note: dict[str, Any]
    outputs: Any = field(repr=False)


def engine_arguments(folder: Path) -> dict[str, Any]:
    """vLLM's arguments for the checkpoint in `folder`."""
    return {
        "model": str(folder),
        "dtype": "float32",
        "enforce_eager": True,
        "language_model_only": True,
        "skip_tokenizer_init": True,
        "max_model_len": MAX_MODEL_LEN,
        "max_num_seqs": 16,
        "max_num_batched_tokens": TOKEN_BUDGET,
        "kv_cache_memory_bytes": 64 << 20,
        "block_size": BLOCK,
        "max_logprobs": 64,
        "diffusion_config": {"canvas_length": CANVAS},
        "use_tqdm_on_load": False,
    }


class Engine:
    """A vLLM engine, asked with reads or with vLLM's own sampling parameters."""

    def __init__(self, folder: Path, **arguments: Any) -> None:
        from vllm import EngineArgs, LLMEngine

        everything = engine_arguments(folder) | arguments
        self.engine = LLMEngine.from_engine_args(EngineArgs(**everything))
        self._asked = 0

    def close(self) -> None:
        free_one_engine(self.engine.engine_core)

    @property
    def core(self) -> Any:
        """The `EngineCore`."""
        return self.engine.engine_core.engine_core

    @property
    def model(self) -> Any:
        return self.core.model_executor.driver_worker.worker.model_runner.model

    @property
    def steps(self) -> int:
        """Engine steps since the start, by the scheduler's own count."""
        return int(self.core.scheduler._totals["steps"])

    def add(self, read: Read, **overrides: Any) -> str:
        """Hand one read over; `overrides` replace attributes of its sampling parameters."""
        from vllm.inputs.engine import tokens_input

        params = sampling_params(read)
        extra = overrides.pop("extra_args", {})
        params.extra_args = {**params.extra_args, **extra}
        for name, value in overrides.items():
            setattr(params, name, value)
        self._asked += 1
        request_id = f"r{self._asked}"
        self.engine.add_request(request_id, tokens_input(list(read.prompt_ids)), params)
        return request_id

    def finish(self) -> dict[str, Any]:
        """Step until nothing is left; answers by request id."""
        found = {}
        while self.engine.has_unfinished_requests():
            for output in self.engine.step():
                if output.finished:
                    found[output.request_id] = output
        return found

    def ask(
        self, reads: Sequence[Read], overrides: Mapping[int, Mapping[str, Any]] | None = None
    ) -> list[Asked]:
        """Answer reads that arrive together, in order; `overrides` by place."""
        ids = [self.add(read, **(overrides or {}).get(i, {})) for i, read in enumerate(reads)]
        outputs = self.finish()
        return [answer(read, outputs[i]) for read, i in zip(reads, ids, strict=True)]

    def ask_each(self, reads: Sequence[Read]) -> list[Asked]:
        """Answer reads one after the other."""
        return [self.ask([read])[0] for read in reads]

    def forget(self) -> None:
        """Empty the prefix cache."""
        assert self.engine.reset_prefix_cache()

    @contextmanager
    def watched(self) -> Iterator[dict[str, int]]:
        """Count, by hooks on the model: forward passes, their tokens, logits columns."""
        seen = {"forwards": 0, "tokens": 0, "columns": 0}
        model = self.model

        def forward(module: Any, args: Any, kwargs: Any, output: Any) -> None:
            seen["forwards"] += 1
            seen["tokens"] += len(kwargs["positions"])

        compute_logits = model.compute_logits

        def logits(hidden: Any) -> Any:
            found = compute_logits(hidden)
            seen["columns"] += found.numel()
            return found

        handle = model.register_forward_hook(forward, with_kwargs=True)
        model.compute_logits = logits
        try:
            yield seen
        finally:
            handle.remove()
            del model.compute_logits


def answer(read: Read, output: Any) -> Asked:
    flat = output.outputs[0].logprobs
    rows = []
    for start, end in zip(flat.start_indices, flat.end_indices, strict=True):
        by_id = dict(zip(flat.token_ids[start:end], flat.logprobs[start:end], strict=True))
        rows.append([by_id[label] for label in read.label_ids])
    return Asked(
        np.array(rows),
        list(output.outputs[0].token_ids),
        (output.kv_transfer_params or {}).get("onepass", {}),
        output,
    )


def make_read(
    rng: random.Random,
    prompt: int,
    width: int,
    labels: tuple[int, ...] = LABELS[0],
    *,
    prefix: Sequence[int] = (),
    constrained: bool = True,
) -> Read:
    """A read of `prompt` random ids (behind `prefix`) and a random canvas."""
    return Read(
        "read",
        (*prefix, *(rng.randrange(5, VOCABULARY) for _ in range(prompt))),
        tuple(rng.randrange(5, VOCABULARY) for _ in range(width)),
        slots=tuple(range(width)),
        label_ids=labels,
        constrained=constrained,
    )


def largest_difference(a: Sequence[Asked], b: Sequence[Asked]) -> float:
    """Largest difference of any log probability; the decisions must be equal."""
    assert [one.token_ids for one in a] == [other.token_ids for other in b]
    return max(
        float(np.abs(one.logprobs - other.logprobs).max()) for one, other in zip(a, b, strict=True)
    )
