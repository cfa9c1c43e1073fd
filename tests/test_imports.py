"""Imports go one way, and what is heavy loads only where it is used."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
MAY_IMPORT = {
    "rubrics": set(),
    "engine": set(),
    "pipeline": {"rubrics", "engine", "configs"},
    "dataflow": {"pipeline", "rubrics", "engine", "configs"},
}
NOT_WITHOUT_A_WORKER = ("torch", "vllm", "transformers")
INSIDE_VLLM = "engine.vllm_plugin"
"""Modules that only vLLM loads may import it at their top."""


def modules(package: str) -> Iterator[tuple[str, Path]]:
    for path in sorted((ROOT / package).rglob("*.py")):
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        yield name, path


def imported(path: Path) -> set[str]:
    """Top-level packages a module names in imports, wherever they stand."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.split(".")[0])
    return found


@pytest.mark.parametrize("package", sorted(MAY_IMPORT))
def test_packages_import_in_one_direction(package: str) -> None:
    ours = set(MAY_IMPORT) - {package} - MAY_IMPORT[package]
    for name, path in modules(package):
        wrong = imported(path) & ours
        assert not wrong, f"{name} imports {sorted(wrong)}"


@pytest.mark.parametrize("package", ["rubrics", "engine"])
def test_beam_stays_in_the_pipeline(package: str) -> None:
    for name, path in modules(package):
        assert "apache_beam" not in imported(path), name


def test_everything_but_the_worker_loads_without_torch_and_vllm() -> None:
    names = [n for p in MAY_IMPORT for n, _ in modules(p) if not n.startswith(f"{INSIDE_VLLM}.")]
    assert len(names) > 40
    # A finder that refuses, not `sys.modules[name] = None`: scipy looks for torch in sys.modules.
    program = f"""
import importlib, sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {NOT_WITHOUT_A_WORKER!r}:
            raise ImportError(name)
sys.meta_path.insert(0, Refuse())
for name in {names!r}:
    importlib.import_module(name)
"""
    subprocess.run([sys.executable, "-c", program], check=True, cwd=ROOT, timeout=300)


def test_the_command_line_starts_without_heavy_libraries() -> None:
    program = """
import sys
import pipeline.cli
heavy = {"apache_beam", "duckdb", "torch", "vllm", "transformers", "pandas", "scipy"}
loaded = sorted(heavy & sys.modules.keys())
assert not loaded, loaded
"""
    subprocess.run([sys.executable, "-c", program], check=True, cwd=ROOT, timeout=300)
