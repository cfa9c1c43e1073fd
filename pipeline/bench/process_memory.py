"""Memory of a process and of everything it started, from /proc."""

from __future__ import annotations

from pathlib import Path

_KIB_PER_GIB = 2**20


def tree_gib(pid: int, *, itself_only: bool = False) -> float:
    """Resident memory in GiB; processes that end while being looked at count as nothing."""
    total = _resident_kib(pid) / _KIB_PER_GIB
    if not itself_only:
        total += sum(tree_gib(child) for child in _children(pid))
    return total


def _resident_kib(pid: int) -> int:
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return 0
    lines = [line for line in status.splitlines() if line.startswith("VmRSS:")]
    return int(lines[0].split()[1]) if lines else 0


def _children(pid: int) -> list[int]:
    found: list[int] = []
    for file in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            found += map(int, file.read_text(encoding="ascii").split())
        except OSError:
            continue
    return found
