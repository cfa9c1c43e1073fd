"""Runs at the start of every child Python process: makes a broken torchvision importable there.

Costs one small import. The `sitecustomize` this one hides, if any, runs afterwards.
"""

import importlib.machinery
import importlib.util
import sys
from pathlib import Path

try:
    from engine.vllm_plugin.torchvision_fix import install_finder
except ImportError:
    pass  # another Python installation that inherited PYTHONPATH
else:
    install_finder()


def _run_hidden_sitecustomize() -> None:
    here = Path(__file__).resolve().parent
    elsewhere = [entry for entry in sys.path if Path(entry or ".").resolve() != here]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", elsewhere)
    if spec is not None and spec.loader is not None:
        module = importlib.util.module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


_run_hidden_sitecustomize()
