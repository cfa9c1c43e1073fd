from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from engine.builds import Build
from engine.checkpoints import Checkpoint
from engine.machine import Machine
from engine.preflight import memory_needed_gib, unfit

MACHINE = Machine("Some CPU", ("avx2",), 4, 16.0, 8.0)


def _build(**settings: object) -> Build:
    return Build.model_validate({"name": "b", "kv_cache_gib": 2.0, **settings})


@pytest.fixture
def checkpoint(tmp_path: Path) -> Checkpoint:
    """2 GiB of bfloat16 weights, in a file without content."""
    with (tmp_path / "model.safetensors").open("wb") as file:
        file.truncate(2 * 2**30)
    return Checkpoint("m", tmp_path, {"dtype": "bfloat16"})


def test_memory_counts_weights_in_the_builds_dtype(checkpoint: Checkpoint) -> None:
    assert memory_needed_gib(_build(dtype="bfloat16"), checkpoint) == 5.0
    assert memory_needed_gib(_build(dtype="float32"), checkpoint) == 7.0


def test_a_fitting_build(checkpoint: Checkpoint) -> None:
    assert unfit(_build(), checkpoint, MACHINE) is None


def test_too_little_memory(checkpoint: Checkpoint) -> None:
    reason = unfit(_build(kv_cache_gib=6), checkpoint, MACHINE)
    assert reason is not None
    assert "needs about 9.0 GiB of memory (6 GiB of it KV cache)" in reason
    assert "8.0 of 16.0 GiB are available" in reason


def test_amx_is_only_required_where_the_build_says_so(checkpoint: Checkpoint) -> None:
    reason = unfit(_build(require_amx=True), checkpoint, MACHINE)
    assert reason is not None
    assert "Some CPU has no AMX (it has avx2)" in reason
    amx = replace(MACHINE, cpu_features=("amx_tile",))
    assert unfit(_build(require_amx=True), checkpoint, amx) is None
