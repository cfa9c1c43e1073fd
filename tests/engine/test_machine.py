from __future__ import annotations

import os
from pathlib import Path

from engine.machine import read_machine, usable_cpus


def _write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def test_an_amx_machine_in_a_container(tmp_path: Path) -> None:
    root = _write(
        tmp_path,
        {
            "proc/cpuinfo": "processor\t: 0\nmodel name\t: Intel(R) Xeon(R) Platinum 8481C\n"
            "flags\t\t: fpu avx2 avx512f avx512_bf16 amx_bf16 amx_tile amx_int8\n\n"
            "processor\t: 1\nmodel name\t: another\nflags\t\t: fpu\n",
            "proc/meminfo": "MemTotal:  33554432 kB\nMemAvailable:  16777216 kB\n",
            "sys/fs/cgroup/cpu.max": "100000 100000\n",
            "sys/fs/cgroup/memory.max": str(8 * 2**30),
            "sys/fs/cgroup/memory.current": str(2 * 2**30),
        },
    )
    machine = read_machine(root)
    assert machine.cpu_model == "Intel(R) Xeon(R) Platinum 8481C"
    assert machine.has_amx
    assert "avx512f" in machine.cpu_features
    assert machine.has_avx2
    assert machine.fast_bfloat16
    assert machine.cpus == 1
    assert (machine.memory_gib, machine.memory_available_gib) == (8.0, 6.0)


def test_an_old_machine_without_limits(tmp_path: Path) -> None:
    root = _write(
        tmp_path,
        {
            "proc/cpuinfo": "model name\t: Old\nflags\t: fpu avx2\n",
            "proc/meminfo": "MemTotal:  4194304 kB\nMemAvailable:  2097152 kB\n",
            "sys/fs/cgroup/cpu.max": "max 100000\n",
            "sys/fs/cgroup/memory.max": "max\n",
        },
    )
    machine = read_machine(root)
    assert not machine.has_amx
    assert not machine.fast_bfloat16
    assert (machine.memory_gib, machine.memory_available_gib) == (4.0, 2.0)
    assert usable_cpus(root) == len(os.sched_getaffinity(0))


def test_nothing_known(tmp_path: Path) -> None:
    machine = read_machine(tmp_path)
    assert machine.cpu_features == ()
    assert machine.memory_gib == 0.0


def test_this_machine() -> None:
    machine = read_machine()
    assert machine.cpus >= 1
    assert 0 < machine.memory_available_gib <= machine.memory_gib
