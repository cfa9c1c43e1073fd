"""Too few KV blocks for all: requests are preempted and start over, answers stay."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from tests.engine.vllm_plugin.engines import LABELS, Engine, largest_difference, make_read

pytestmark = pytest.mark.engine


def test_preempted_reads(checkpoint: Path, on: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    tight = Engine(
        checkpoint,
        num_gpu_blocks_override=100,  # six prompts of these, without their canvases
        max_num_batched_tokens=2048,
        additional_config=on.engine.vllm_config.additional_config,
    )
    scheduler = tight.core.scheduler
    preempted: list[str] = []
    preempt = scheduler._preempt_request

    def watch(request: Any, *arguments: Any, **options: Any) -> None:
        preempted.append(request.request_id)
        preempt(request, *arguments, **options)

    monkeypatch.setattr(scheduler, "_preempt_request", watch)
    rng = random.Random(1)
    reads = [make_read(rng, 120, 64, LABELS[i % 3]) for i in range(12)]
    # The first six finish their prompts in one step and want room for their canvases in the next.
    committing = {i: {"extra_args": {"diffusion_read_only": False}} for i in range(6)}
    together = tight.ask(reads, committing)
    assert preempted
    on.forget()
    assert largest_difference(on.ask(reads, committing), together) < 1e-4
    assert [one.note["single_pass"] for one in together] == [False] * 6 + [True] * 6
    tight.close()
