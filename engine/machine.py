"""What this machine offers: CPU, cores, memory. Linux, standard library only."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from pathlib import Path

_FEATURES = ("amx_tile", "amx_bf16", "amx_int8", "avx512f", "avx512_bf16", "avx512_vnni", "avx2")
"""CPU flags that decide how fast, and with which roundings, matrix products run."""

_GIB = 2**30


@dataclass(frozen=True, slots=True)
class Machine:
    """Facts about the machine.

    `cpus` are the cores this process may use (affinity and container quota); memory is in GiB,
    bounded by the container's limit where there is one.
    """

    cpu_model: str
    cpu_features: tuple[str, ...]
    cpus: int
    memory_gib: float
    memory_available_gib: float

    @property
    def has_amx(self) -> bool:
        return "amx_tile" in self.cpu_features

    @property
    def has_avx2(self) -> bool:
        return "avx2" in self.cpu_features

    @property
    def fast_bfloat16(self) -> bool:
        """Matrix products in bfloat16 run in hardware."""
        return bool({"amx_bf16", "avx512_bf16"} & set(self.cpu_features))


def read_machine(root: Path = Path("/")) -> Machine:
    """The facts, from `root`/proc and `root`/sys; unknown ones are empty or 0."""
    cpuinfo = _fields(_text(root / "proc/cpuinfo"), once=True)
    meminfo = _fields(_text(root / "proc/meminfo"))
    flags = set(cpuinfo.get("flags", cpuinfo.get("Features", "")).split())
    total = _kib(meminfo.get("MemTotal"))
    available = _kib(meminfo.get("MemAvailable"))
    limit = _number(_text(root / "sys/fs/cgroup/memory.max"))
    if limit:
        used = _number(_text(root / "sys/fs/cgroup/memory.current")) or 0.0
        total, available = min(total, limit), min(available, limit - used)
    return Machine(
        cpu_model=cpuinfo.get("model name", platform.processor() or platform.machine()),
        cpu_features=tuple(f for f in _FEATURES if f in flags),
        cpus=usable_cpus(root),
        memory_gib=total / _GIB,
        memory_available_gib=max(available, 0.0) / _GIB,
    )


def usable_cpus(root: Path = Path("/")) -> int:
    """Cores this process may use: its affinity, less where a container quota allows less."""
    cores = len(os.sched_getaffinity(0))
    quota = _text(root / "sys/fs/cgroup/cpu.max").split()
    if len(quota) == 2 and quota[0].isdigit() and float(quota[1]) > 0:
        cores = min(cores, max(1, int(float(quota[0]) / float(quota[1]))))
    return cores


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _fields(text: str, *, once: bool = False) -> dict[str, str]:
    """`key : value` lines; with `once`, the first block only (cpuinfo repeats it per core)."""
    block = text.split("\n\n", 1)[0] if once else text
    pairs = (line.partition(":") for line in block.splitlines())
    return {key.strip(): value.strip() for key, colon, value in pairs if colon}


def _kib(value: str | None) -> float:
    return (_number(value.split()[0]) or 0.0) * 1024 if value else 0.0


def _number(text: str) -> float | None:
    """The number, or None for `max` and for nothing."""
    try:
        return float(text)
    except ValueError:
        return None
