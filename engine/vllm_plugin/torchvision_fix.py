"""Make vLLM importable next to a torchvision, torchaudio and torchcodec built for another torch.

pip may pair `torch+cpu` with the CUDA builds of its companions, whose libraries then do not load.

torchvision dies while it registers shapes for `torchvision::nms`, an operator that was never
defined. Transformers' Gemma 4 processor needs torchvision, but only its pure-Python transforms:
defining the schemas torchvision registers shapes for is enough. Nothing is done until someone
imports torchvision: a finder in front of `sys.meta_path` acts at that moment. Where torchvision is
healthy the finder loads the library torchvision is about to load, sees the operators, and leaves
everything alone.

torchaudio and torchcodec die with `OSError`, which Transformers and vLLM do not expect, while both
accept their absence: one that needs a library this torch lacks is hidden. Text needs neither.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

SITE_HOOK = Path(__file__).parent / "site_hook"
"""Folder whose `sitecustomize` installs the finder; first on `PYTHONPATH` of child processes."""

_SCHEMAS = {
    "nms": "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms": "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
}
_COMPANION_LIBRARIES = {
    "torchaudio": "lib/_torchaudio.so",
    "torchcodec": "libtorchcodec_image.so",
}
_libraries: list[Any] = []  # torch drops a library's definitions when it is collected


def install() -> None:
    """Install the finder here and in every Python process started from here. Re-entrant.

    Call before anything imports torchvision; `import vllm` does.
    """
    install_finder()
    # First: of several `sitecustomize`, Python runs the first, and ours runs the next one.
    others = [e for e in os.environ.get("PYTHONPATH", "").split(os.pathsep) if e]
    ours = str(SITE_HOOK)
    os.environ["PYTHONPATH"] = os.pathsep.join([ours, *(e for e in others if e != ours)])


def install_finder() -> None:
    """Install the finder in this process only. Re-entrant."""
    for name in unloadable_companions():
        sys.modules.setdefault(name, None)  # type: ignore[arg-type]  # Python's way to say "absent"
    if "torchvision" in sys.modules:
        return  # already imported, hence importable
    if not any(isinstance(finder, _TorchvisionFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _TorchvisionFinder())


def unloadable_companions() -> list[str]:
    """Which of torchaudio and torchcodec link to `libtorch_cuda` while the torch here lacks it.

    Looks at files only: this runs at the start of every child process, long before torch.
    """
    torch_folder = _package_folder("torch")
    if torch_folder is None or any((torch_folder / "lib").glob("libtorch_cuda.*")):
        return []
    found = []
    for name, library in _COMPANION_LIBRARIES.items():
        folder = _package_folder(name)
        path = folder / library if folder else None
        if path is not None and path.is_file() and b"libtorch_cuda.so" in path.read_bytes():
            found.append(name)
    return found


def define_missing_operators() -> list[str]:
    """Define the schemas torchvision needs at import and lacks; returns their names."""
    import torch

    _load_extension()
    missing = [name for name in _SCHEMAS if not _is_defined(name)]
    if missing:
        library = torch.library.Library("torchvision", "DEF")  # type: ignore[no-untyped-call]
        for name in missing:
            library.define(_SCHEMAS[name])  # type: ignore[no-untyped-call]
        _libraries.append(library)
    return missing


def _load_extension() -> None:
    """Load torchvision's operators where they can be loaded, as its own import would."""
    import torch

    folder = _package_folder("torchvision")
    for library in sorted(folder.glob("_C.*")) if folder else ():
        if library.suffix not in {".so", ".pyd", ".dylib"}:
            continue
        try:
            torch.ops.load_library(str(library))  # type: ignore[no-untyped-call]
        except (ImportError, OSError):
            continue  # built for another torch: the case this module is for


def _package_folder(name: str) -> Path | None:
    spec = importlib.machinery.PathFinder.find_spec(name)
    return Path(spec.origin).parent if spec is not None and spec.origin else None


def _is_defined(name: str) -> bool:
    import torch

    return hasattr(torch.ops.torchvision, name)


class _TorchvisionFinder(importlib.abc.MetaPathFinder):
    """Runs `define_missing_operators` just before torchvision is found by the other finders."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> None:
        if fullname == "torchvision":
            sys.meta_path.remove(self)
            define_missing_operators()
