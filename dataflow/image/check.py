"""Last step of the image's build: everything is there, fits together, and decides.

python -m dataflow.image.check BEAM_VERSION
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

PROGRAMS = (
    Path("/opt/apache/beam/boot"),
    Path("/opt/google/dataflow/python_template_launcher"),
)


def problems(beam_version: str, programs: Sequence[Path] = PROGRAMS) -> list[str]:
    """Everything that is wrong with the image, in words."""
    return [
        *_versions(beam_version),
        *[f"{path} is not an executable file" for path in programs if not os.access(path, os.X_OK)],
        *_libraries(),
        *_engine(),
    ]


def _versions(beam_version: str) -> list[str]:
    found = version("apache-beam")
    if found == beam_version:
        return []
    return [f"apache-beam is {found}, the worker's start-up program is of {beam_version}"]


def _libraries() -> list[str]:
    """OpenMP and allocator: those that are preloaded, and no second OpenMP beside them."""
    import torch

    threads = torch.get_num_threads()
    mapped = {line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines()}
    preloaded = [Path(p).resolve() for p in os.environ.get("LD_PRELOAD", "").split(":") if p]
    found = [f"{path} is preloaded but not in use" for path in preloaded if str(path) not in mapped]
    for name in ("libgomp", "libtcmalloc"):
        if not any(name in path.name for path in preloaded):
            found.append(f"{name} is not preloaded")
    rivals = sorted(path for path in mapped if "libgomp" in path)
    if len(rivals) > 1:
        found.append(f"several OpenMP libraries are in use: {', '.join(rivals)}")
    if threads != len(os.sched_getaffinity(0)) and "OMP_NUM_THREADS" not in os.environ:
        found.append(f"torch uses {threads} threads on {len(os.sched_getaffinity(0))} cores")
    return found


def _engine() -> list[str]:
    """The embedded model answers a read in one step."""
    from engine.builds import Build
    from engine.engine import DecisionEngine
    from engine.reads import Read

    stated = {"name": "check", "single_pass_reads": True, "max_model_len": 256}
    engine = DecisionEngine(Build.model_validate(stated))
    try:
        read = Read("check", tuple(range(10, 40)), (9,) * 16, slots=(3,), label_ids=(5, 6))
        (result,) = engine.read([read])
    finally:
        engine.close()
    if result.error is not None:
        return [f"the engine refuses a read: {result.error}"]
    return [] if result.single_pass else [f"a read took two steps: {result.two_step_reason}"]


def main(argv: Sequence[str]) -> int:
    (beam_version,) = argv
    found = problems(beam_version)
    for problem in found:
        print(problem, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
