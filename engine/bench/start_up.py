"""What starting an engine costs, by compile mode, and what its memory does over many reads.

    python -m engine.bench.start_up --model tiny --dtype float32 --reads 2000

Each mode runs in a process of its own, first with an empty compiler cache, then with the cache the
first left. Times for other numbers of reads follow from start-up and the rate of the later half.
CPU seconds, compilers included, are what to compare on a machine that is busy with other work.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from engine.bench.worker import resident_gib
from engine.builds import Build
from engine.reads import Read

MODES = ("off", "helpers", "full")
EXTRAPOLATED = (100, 1_000, 10_000)
_CALL_READS = 64
_PREFIX_TOKENS = 150
_CONVERSATION_TOKENS = {False: (100, 100), True: (20, 700)}
"""Shortest and longest, by whether they vary."""

_MEMORY_POINTS = 8


@dataclass(frozen=True, slots=True)
class StartUp:
    """One measurement. Seconds are wall time unless named cpu; memory is resident MiB.

    `memory_mib` is that of the ready engine, its whole KV cache included, and after each eighth of
    the reads.
    """

    mode: str
    cache: str
    ready_seconds: float
    ready_cpu_seconds: float
    first_call_seconds: float
    reads: int
    reads_seconds: float
    reads_per_second: float
    cpu_seconds_per_read: float
    memory_mib: list[float]
    memory_peak_mib: float

    def seconds_for(self, reads: int) -> float:
        """Time from start to the last of `reads` answers, at the measured rate."""
        return self.ready_seconds + reads / self.reads_per_second

    def cpu_seconds_for(self, reads: int) -> float:
        """CPU time until then."""
        return self.ready_cpu_seconds + reads * self.cpu_seconds_per_read


def measure(build: Build, reads: int, cache: str, *, varied: bool = False) -> StartUp:
    """Start an engine in this process and answer `reads` reads, none twice."""
    from engine.engine import DecisionEngine

    started = time.perf_counter()
    engine = DecisionEngine(build)
    ready, ready_cpu = time.perf_counter() - started, _cpu_seconds()
    memory = [_resident_mib()]
    seconds: list[float] = []
    cpu: list[float] = []
    sizes: list[int] = []
    for call in _calls(reads, engine.limits.vocab_size, *_CONVERSATION_TOKENS[varied]):
        before, before_cpu = time.perf_counter(), time.process_time()
        for result in engine.read(call):
            if result.error is not None:
                raise RuntimeError(f"read {result.read_id}: {result.error}")
        seconds.append(time.perf_counter() - before)
        cpu.append(time.process_time() - before_cpu)
        sizes.append(len(call))
        if sum(sizes) * _MEMORY_POINTS >= reads * len(memory):
            memory.append(_resident_mib())
    engine.close()
    half = len(seconds) // 2
    return StartUp(
        mode=build.compile,
        cache=cache,
        ready_seconds=round(ready, 2),
        ready_cpu_seconds=round(ready_cpu, 2),
        first_call_seconds=round(seconds[0], 2),
        reads=reads,
        reads_seconds=round(sum(seconds), 2),
        reads_per_second=round(sum(sizes[half:]) / sum(seconds[half:]), 2),
        cpu_seconds_per_read=round(sum(cpu[half:]) / sum(sizes[half:]), 5),
        memory_mib=memory,
        memory_peak_mib=round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1),
    )


def _calls(reads: int, vocab_size: int, shortest: int, longest: int) -> Iterator[list[Read]]:
    """Calls of `_CALL_READS` reads that share a prefix, as those of one rubric do."""
    rng = random.Random(0)
    plain = range(110, vocab_size)
    prefix = (2, *rng.choices(plain, k=_PREFIX_TOKENS))
    labels = tuple(sorted(rng.sample(plain, 13)))
    for start in range(0, reads, _CALL_READS):
        yield [
            Read(
                f"read-{start + n}",
                prefix + tuple(rng.choices(plain, k=rng.randint(shortest, longest))),
                tuple(rng.choices(plain, k=32)),
                slots=(4, 10, 17, 23),
                label_ids=labels,
            )
            for n in range(min(_CALL_READS, reads - start))
        ]


def _cpu_seconds() -> float:
    """Of this process and its children that have ended, such as compilers."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def _resident_mib() -> float:
    return round(resident_gib() * 1024, 1)


def measure_apart(
    build: Build, reads: int, cache: str, cache_dir: Path, *, varied: bool = False
) -> StartUp:
    """`measure` in a fresh process whose compilers cache under `cache_dir`."""
    child = subprocess.run(
        [
            *(sys.executable, "-m", "engine.bench.start_up", "--one", build.model_dump_json()),
            *("--reads", str(reads), "--cache", cache, *(["--varied"] if varied else [])),
        ],
        capture_output=True,
        text=True,
        check=False,
        env={
            **os.environ,
            "TORCHINDUCTOR_CACHE_DIR": str(cache_dir / "inductor"),
            "VLLM_CACHE_ROOT": str(cache_dir / "vllm"),
        },
    )
    if child.returncode:
        raise RuntimeError(f"compile {build.compile} failed:\n{child.stderr[-2000:]}")
    return StartUp(**json.loads(child.stdout.strip().splitlines()[-1]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--model", default="tiny")
    parser.add_argument("--dtype", default="float32", choices=("float32", "bfloat16"))
    parser.add_argument("--reads", type=int, default=2000)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--kv-cache-gib", type=float, default=1.0)
    parser.add_argument("--varied", action="store_true", help="conversations of 20 to 700 tokens")
    parser.add_argument("--modes", nargs="+", default=MODES, choices=MODES)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--cache", default="cold", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        build = Build.model_validate_json(options.one)
        found = measure(build, options.reads, options.cache, varied=options.varied)
        print(json.dumps(asdict(found)))
        return
    for mode in options.modes:
        build = Build.model_validate(
            {
                "name": "start-up",
                "model": options.model,
                "dtype": options.dtype,
                "compile": mode,
                "threads": options.threads,
                "kv_cache_gib": options.kv_cache_gib,
                "single_pass_reads": True,
            }
        )
        with tempfile.TemporaryDirectory() as folder:
            for cache in ("cold",) if mode == "off" else ("cold", "warm"):
                found = measure_apart(
                    build, options.reads, cache, Path(folder), varied=options.varied
                )
                projected = {
                    "seconds_for": {n: round(found.seconds_for(n), 1) for n in EXTRAPOLATED},
                    "cpu_seconds_for": {
                        n: round(found.cpu_seconds_for(n), 1) for n in EXTRAPOLATED
                    },
                }
                print(json.dumps({**asdict(found), **projected}), flush=True)


if __name__ == "__main__":
    main()
