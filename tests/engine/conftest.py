"""Engines for the tests of this package, each started once per session."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.builds import Build
from engine.engine import DecisionEngine
from engine.environment import yield_waiting_threads
from engine.vllm_plugin import torchvision_fix
from tests.engine.reference import Reference

VOCAB_SIZE = 512

yield_waiting_threads()  # the tests' own use of torch must not starve the engine
torchvision_fix.install()  # some tests import vLLM or Transformers before any engine does


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small DiffusionGemma with random float32 weights."""
    from engine.bench.random_checkpoint import build_random_checkpoint

    folder = tmp_path_factory.mktemp("random-checkpoint")
    return build_random_checkpoint(folder, vocab_size=VOCAB_SIZE)


@pytest.fixture(scope="session")
def build(checkpoint: Path) -> Build:
    """Float32, two steps per read, in this process."""
    return Build(
        name="test",
        model=str(checkpoint),
        dtype="float32",
        max_model_len=2048,
        max_num_batched_tokens=1024,
        kv_cache_gib=0.25,
    )


@pytest.fixture(scope="session")
def in_process(build: Build) -> Iterator[DecisionEngine]:
    engine = DecisionEngine(build)
    yield engine
    engine.close()


@pytest.fixture(scope="session")
def single_pass(build: Build) -> Iterator[DecisionEngine]:
    engine = DecisionEngine(build.model_copy(update={"single_pass_reads": True}))
    yield engine
    engine.close()


@pytest.fixture(scope="session")
def reference(checkpoint: Path) -> Reference:
    return Reference(checkpoint)
