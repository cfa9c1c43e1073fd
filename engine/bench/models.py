"""The checkpoints benchmarks run on, by name; large random ones are built once per machine."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from pathlib import Path
from typing import Any

import engine.tiny
from engine.bench.random_checkpoint import BENCHMARK_SHAPE, build_random_checkpoint

RANDOM_MODELS: dict[str, dict[str, Any]] = {
    "random-1b": dict(BENCHMARK_SHAPE),
    # 1 M parameters: what a benchmark does, without the wait.
    "random-tiny": {"hidden": 64, "layers": 6, "experts": 8, "vocab_size": 4096},
}
"""Arguments of `build_random_checkpoint` by name of the model."""


def bench_model(name: str) -> str:
    """What a build's `model` has to be for the model of that name.

    A name of `RANDOM_MODELS` becomes a folder in the user's cache, built now if it is not there,
    with the embedded model's tokenizer, so that text becomes tokens as it does in use; everything
    else (`tiny`, a folder, `gs://`) is returned as it is.
    """
    if name not in RANDOM_MODELS:
        return name
    tokenizer = Path(engine.tiny.__file__).parent / "tokenizer.json"
    arguments = RANDOM_MODELS[name]
    key = hashlib.sha256(json.dumps(arguments).encode() + tokenizer.read_bytes()).hexdigest()
    folder = _cache() / f"{name}-{key[:12]}"
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
            built = build_random_checkpoint(
                Path(scratch) / name, **arguments, tokenizer=tokenizer, dtype="float32"
            )
            built.rename(folder)
    return str(folder)


def _cache() -> Path:
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(root) / "onepass" / "checkpoints"
