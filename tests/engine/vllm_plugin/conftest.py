"""One engine per configuration and test session: starting one costs more than using it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from engine.vllm_plugin import torchvision_fix
from tests.engine.vllm_plugin.engines import COUNTING, MAX_MODEL_LEN, Engine

torchvision_fix.install()  # before anything imports vLLM

ENVIRONMENT = {
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "OMP_NUM_THREADS": "1",
    "TORCH_COMPILE_DISABLE": "1",
    "VLLM_LOGGING_LEVEL": "ERROR",
    "VLLM_NO_USAGE_STATS": "1",
    "HF_HUB_OFFLINE": "1",
}


set_num_threads = torch.set_num_threads  # vLLM replaces it, to keep its own threads bound


@pytest.fixture(scope="session")
def checkpoint(environment: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    from engine.bench.random_checkpoint import build_random_checkpoint

    return build_random_checkpoint(tmp_path_factory.mktemp("checkpoint"))


@pytest.fixture(scope="session")
def environment() -> Iterator[None]:
    before = {name: os.environ.get(name) for name in ENVIRONMENT}
    threads = torch.get_num_threads()
    os.environ.update(ENVIRONMENT)
    # The model is tiny: on a busy machine more threads spend their time waiting for each other.
    set_num_threads(1)
    yield
    set_num_threads(threads)
    for name, value in before.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


@pytest.fixture(scope="session")
def stock(checkpoint: Path, environment: None) -> Engine:
    """vLLM's own scheduler; no setting of ours."""
    return Engine(checkpoint)


@pytest.fixture(scope="session")
def off(checkpoint: Path, environment: None) -> Engine:
    """Counted, all settings off."""
    return Engine(checkpoint, scheduler_cls=COUNTING)


@pytest.fixture(scope="session")
def on(checkpoint: Path, environment: None) -> Engine:
    """All settings on, the way a user of vLLM alone turns them on."""
    settings = {
        "single_pass_reads": True,
        "joined_label_sets": True,
        "canvas_only_last_layer": True,
    }
    return Engine(checkpoint, additional_config={"onepass": settings})


@pytest.fixture
def fresh(off: Engine, on: Engine) -> tuple[Engine, Engine]:
    """Both engines with an empty prefix cache."""
    assert off.core.scheduler.max_model_len == MAX_MODEL_LEN
    off.forget()
    on.forget()
    return off, on
