"""Writes `dataflow/requirements.txt`: every package of a worker, pinned, each with its hash.

    python -m dataflow.lock_requirements

Run it on the image's platform (Linux x86-64, the image's Python) whenever `pyproject.toml` or
`configs/requirements.lock` changes. pip resolves `onepass[worker]` under that lock without
installing it, and reports the file it would take of every package.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
LOCK = ROOT / "configs/requirements.lock"
TARGET = Path(__file__).with_name("requirements.txt")
_HEADER = "# Written by `python -m dataflow.lock_requirements`; do not edit.\n"


def requirements(report: Mapping[str, Any]) -> str:
    """Lines `name==version --hash=sha256:…` from pip's installation report, sorted by name.

    Raises `ValueError` for a package without a hash. The project itself is left out: the image
    installs it from its own source.
    """
    lines = []
    for item in report["install"]:
        name, version = item["metadata"]["name"], item["metadata"]["version"]
        if name == "onepass":
            continue
        sha256 = item["download_info"].get("archive_info", {}).get("hashes", {}).get("sha256")
        if sha256 is None:
            raise ValueError(f"{name} {version}: pip reports no hash of its file")
        lines.append(f"{name.lower().replace('_', '-')}=={version} --hash=sha256:{sha256}")
    return _HEADER + "\n".join(sorted(lines)) + "\n"


def resolve(arguments: Iterable[str]) -> dict[str, Any]:
    """pip's report on installing `arguments`; nothing is installed."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        subprocess.run(
            [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed",
             "--report", str(report), *arguments],
            check=True,
        )  # fmt: skip
        found: dict[str, Any] = json.loads(report.read_text(encoding="utf-8"))
    return found


if __name__ == "__main__":
    report = resolve(["--constraint", str(LOCK), f"{ROOT}[worker]"])
    TARGET.write_text(requirements(report), encoding="utf-8")
