"""Beyond the sliding window vLLM and Transformers differ, in a known way.

In a sliding layer, Transformers lets every canvas row see the last window - 1 prompt tokens. vLLM
counts the window back from each row: row i of the canvas sees i fewer of the oldest of them. The
difference concerns prompts of more than window - width tokens (about 1,000 on the real model) and,
at most, the width - 1 oldest positions.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.builds import Build
from engine.engine import DecisionEngine
from engine.reads import Read
from tests.engine.conftest import VOCAB_SIZE
from tests.engine.contract import make_read
from tests.engine.reference import Reference, largest_difference

pytestmark = pytest.mark.engine

WINDOW = 64


@pytest.fixture(scope="module")
def narrow(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from engine.bench.random_checkpoint import build_random_checkpoint

    folder = tmp_path_factory.mktemp("narrow-window")
    return build_random_checkpoint(folder, vocab_size=VOCAB_SIZE, sliding_window=WINDOW)


@pytest.fixture(scope="module", params=[False, True], ids=["two_steps", "single_pass"])
def engine(request: pytest.FixtureRequest, narrow: Path, build: Build) -> Iterator[DecisionEngine]:
    updates = {"model": str(narrow), "single_pass_reads": request.param}
    engine = DecisionEngine(build.model_copy(update=updates))
    yield engine
    engine.close()


def _vllm_mask(read: Read) -> dict[str, Any]:
    """Transformers' decoder mask with vLLM's window: bool [1, 1, width, cached + width]."""
    import torch

    prompt = len(read.prompt_ids)
    first = max(0, prompt - (WINDOW - 1))  # the oldest token a sliding layer's cache keeps
    keys = torch.arange(first, prompt + read.width)
    rows = torch.arange(prompt, prompt + read.width)
    seen = rows[:, None] - keys[None, :] < WINDOW
    return {"full_attention": None, "sliding_attention": seen[None, None]}


def test_canvas_rows_have_windows_of_their_own(engine: DecisionEngine, narrow: Path) -> None:
    reference = Reference(narrow)
    for prompt_tokens in (WINDOW - 20, WINDOW, 300):
        read = make_read(
            f"window-{prompt_tokens}",
            VOCAB_SIZE,
            prompt_tokens=prompt_tokens,
            width=16,
            slots=(0, 1, 7, 15),
        )
        result = engine.read([read])[0]
        as_vllm = largest_difference(
            result, reference.logprobs(read, decoder_attention_mask=_vllm_mask(read))
        )
        as_transformers = largest_difference(result, reference.logprobs(read))
        assert as_vllm < 1e-3
        if prompt_tokens + read.width <= WINDOW:
            assert as_transformers < 1e-3
        else:
            assert as_transformers > 10 * as_vllm
