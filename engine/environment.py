"""Everything that must stand in the process environment before vLLM or torch is imported."""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path

from engine.builds import Build
from engine.machine import usable_cpus

logger = logging.getLogger(__name__)


def threads_of(build: Build) -> int:
    """Torch threads of the engine: the build's, or every core this process may use."""
    return build.threads or usable_cpus()


def prepare(build: Build) -> None:
    """Set the environment for an engine of `build` in this process and its children.

    Variables that steer what the engine computes or how fast are overwritten: the build decides.
    Logging levels that the user chose are kept.
    """
    from engine.vllm_plugin import torchvision_fix

    torchvision_fix.install()
    threads = threads_of(build)
    os.environ.update(
        {
            "VLLM_ENABLE_V1_MULTIPROCESSING": "0" if build.in_process else "1",
            # Unset, vLLM lowers torch to one thread.
            "OMP_NUM_THREADS": str(threads),
            # Children: use every core (vLLM would keep one back) and as many as the build says.
            "VLLM_CPU_NUM_OF_RESERVED_CPU": "0",
            "VLLM_CPU_OMP_THREADS_BIND": _cores_of_children(threads),
            "VLLM_NO_USAGE_STATS": "1",
            "HF_HUB_OFFLINE": "1",
            "TORCH_COMPILE_DISABLE": "1" if build.compile == "off" else "0",
        }
    )
    yield_waiting_threads()
    # oneDNN keeps what it builds for a shape, 1,024 times by default, and token counts differ from
    # step to step: a small model grew by 1.4 GiB. A step needs some twenty.
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "64")
    # Weights in huge pages where the kernel leaves that to programs (`madvise`): on memory that
    # other processes left in fragments, reads of a 1.6 GB model took a fifth longer without.
    os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")
    # Overrides the cache size of the build where set; whole GiB only.
    os.environ.pop("VLLM_CPU_KVCACHE_SPACE", None)
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(_cache() / "inductor"))
    dynamo = sys.modules.get("torch._dynamo.config")
    if dynamo is not None:  # it read the environment when torch was imported; tell it again
        dynamo.disable = build.compile == "off"  # type: ignore[attr-defined]


def yield_waiting_threads() -> None:
    """Let OpenMP threads that wait for work sleep, unless the user says otherwise.

    By default they spin. On a machine that also runs Beam's threads, or another engine, spinning
    threads take the cores from the ones they wait for: reads took 40 times as long on two cores
    with other work. Must be set before torch loads OpenMP.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")


def _cores_of_children(threads: int) -> str:
    """Cores the child's worker binds its threads to, as vLLM wants them listed."""
    return ",".join(map(str, sorted(os.sched_getaffinity(0))[:threads]))


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "onepass"


def own_cores(threads: int) -> list[int]:
    """Let the calling thread, and the OpenMP threads it starts, use all the process's cores.

    A caller may have started it from a thread that was pinned. Returns the cores.
    """
    cores = os.sched_getaffinity(os.getpid())
    os.sched_setaffinity(0, cores)
    if len(cores) < threads:
        logger.warning(
            "the engine runs %d threads on %d cores (affinity %s); lower the build's threads",
            threads,
            len(cores),
            sorted(cores),
        )
    return sorted(cores)


def settle_threads(threads: int) -> None:
    """Let torch run `threads` threads for the calling thread.

    `prepare` is too late for an OpenMP that was loaded before it, by an import of torch or by
    LD_PRELOAD: it read OMP_NUM_THREADS then. Raises `RuntimeError` where torch keeps another
    number.
    """
    import torch

    torch._C.set_num_threads(threads)  # vLLM's CPU worker disables `torch.set_num_threads`
    found = torch.get_num_threads()
    if found != threads:
        raise RuntimeError(
            f"torch runs {found} threads instead of {threads}: set OMP_NUM_THREADS={threads} "
            "before Python starts"
        )
    logger.info("torch runs %d threads on cores %s", found, sorted(os.sched_getaffinity(0)))
