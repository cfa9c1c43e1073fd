"""The companions of torch: importable where broken, untouched where healthy, in every process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from engine.vllm_plugin import torchvision_fix
from engine.vllm_plugin.torchvision_fix import SITE_HOOK

ROOT = Path(__file__).parents[3]


def python(code: str, *path: Path) -> str:
    """Output of a fresh interpreter with `path` and the repository on its PYTHONPATH."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, [*path, ROOT]))}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_child_processes_import_what_vllm_imports() -> None:
    code = "import torchvision.transforms.v2; import vllm.multimodal; print('fine')"
    assert python(code, SITE_HOOK).endswith("fine\n")


def test_interpreter_start_stays_light() -> None:
    code = "import sys; print('torch' in sys.modules, 'vllm' in sys.modules)"
    assert python(code, SITE_HOOK) == "False False\n"


def test_a_hidden_sitecustomize_still_runs(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("print('theirs')\n")
    assert python("pass", SITE_HOOK, tmp_path) == "theirs\n"


def test_healthy_torchvision_is_left_alone() -> None:
    code = """
import torch
theirs = torch.library.Library("torchvision", "DEF")
for name in ("nms", "qnms"):
    theirs.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
from engine.vllm_plugin import torchvision_fix
print(torchvision_fix.define_missing_operators())
"""
    assert python(code) == "[]\n"


def test_missing_operators_are_defined_once(tmp_path: Path) -> None:
    (tmp_path / "torchvision").mkdir()
    (tmp_path / "torchvision" / "__init__.py").touch()  # a build without operators
    code = """
from engine.vllm_plugin.torchvision_fix import define_missing_operators
print(define_missing_operators(), define_missing_operators())
"""
    assert python(code, tmp_path) == "['nms', 'qnms'] []\n"


@pytest.mark.parametrize("torch_has_cuda", [False, True])
@pytest.mark.parametrize("links_to_cuda", [False, True])
def test_companions_for_another_torch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, torch_has_cuda: bool, links_to_cuda: bool
) -> None:
    files = {
        "torch/__init__.py": b"",
        "torch/lib/libtorch_cuda.so" if torch_has_cuda else "torch/lib/libtorch.so": b"",
        "torchaudio/__init__.py": b"",
        "torchaudio/lib/_torchaudio.so": b"\0libtorch_cuda.so\0" if links_to_cuda else b"\0",
        "torchcodec/__init__.py": b"",
    }
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content)
    monkeypatch.syspath_prepend(tmp_path)
    broken = links_to_cuda and not torch_has_cuda
    assert torchvision_fix.unloadable_companions() == (["torchaudio"] if broken else [])


@pytest.mark.parametrize("before", ["/somewhere", f"/somewhere{os.pathsep}{SITE_HOOK}"])
def test_install_is_reentrant_and_comes_first(before: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", before)
    for _ in range(2):
        torchvision_fix.install()
    assert os.environ["PYTHONPATH"] == f"{SITE_HOOK}{os.pathsep}/somewhere"
    finders = [f for f in sys.meta_path if isinstance(f, torchvision_fix._TorchvisionFinder)]
    assert len(finders) <= 1


def test_module_prints_the_folder_for_pythonpath() -> None:
    out = python("import runpy; runpy.run_module('engine.vllm_plugin', run_name='__main__')")
    assert out == f"{SITE_HOOK}\n"
