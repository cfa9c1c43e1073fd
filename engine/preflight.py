"""Whether this machine can serve a build, before minutes are spent on finding out."""

from __future__ import annotations

from engine.builds import Build
from engine.checkpoints import Checkpoint
from engine.machine import Machine

_GIB = 2**30
_RUNTIME_GIB = 1.0  # interpreter, libraries and activations of a small model
_BYTES = {"bfloat16": 2, "float16": 2, "float32": 4}


def memory_needed_gib(build: Build, checkpoint: Checkpoint) -> float:
    """Weights in the build's dtype, its KV cache, and the runtime."""
    stored = str(checkpoint.config.get("dtype") or checkpoint.config.get("torch_dtype"))
    scale = _BYTES[build.dtype] / _BYTES.get(stored, _BYTES[build.dtype])
    return checkpoint.size_bytes * scale / _GIB + build.kv_cache_gib + _RUNTIME_GIB


def unfit(build: Build, checkpoint: Checkpoint, machine: Machine) -> str | None:
    """Why `machine` cannot serve `build`, and what to change; None when it can."""
    if build.require_amx and not machine.has_amx:
        return (
            f"require_amx is set and {machine.cpu_model} has no AMX (it has "
            f"{', '.join(machine.cpu_features) or 'no vector extensions'}); use a machine with "
            "AMX (Google Cloud C3 or C4) or drop require_amx"
        )
    needed = memory_needed_gib(build, checkpoint)
    if machine.memory_gib and needed > machine.memory_available_gib:
        return (
            f"needs about {needed:.1f} GiB of memory ({build.kv_cache_gib:g} GiB of it KV cache), "
            f"{machine.memory_available_gib:.1f} of {machine.memory_gib:.1f} GiB are available; "
            "lower kv_cache_gib, free memory or use a larger machine"
        )
    return None
