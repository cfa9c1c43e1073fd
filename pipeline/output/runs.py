"""Runs under an output folder: where their files lie, which are complete, how to pick one.

    OUTPUT/TABLE/run_date=YYYY-MM-DD/build=NAME/run_id=ID/part-….parquet     tables
    OUTPUT/_runs/ID/run.json            written first: who runs what
    OUTPUT/_runs/ID/parts/PART.json     written after a part's tables: proof that the part is whole
    OUTPUT/_runs/ID/manifest.json       written last: counts, files, fingerprint, status

A run without a manifest is unfinished. One whose counts do not reconcile, or with too many
errors, is failed: it has a manifest that says why, and no row in `runs`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from pipeline import storage
from pipeline.output.tables import RUNS

COMPLETE, FAILED, UNFINISHED = "complete", "failed", "unfinished"


class RunNotFoundError(LookupError):
    """No run answers to the name given."""


@dataclass(frozen=True)
class RunKey:
    """The three partition keys that place a run's files.

    >>> RunKey("2026-11-29", "tiny", "r1").folder("out", "decisions")
    'out/decisions/run_date=2026-11-29/build=tiny/run_id=r1'
    """

    run_date: str
    build: str
    run_id: str

    def folder(self, output: str, table: str) -> str:
        """Where this run's parts of `table` lie."""
        return storage.join(
            output,
            table,
            f"run_date={self.run_date}",
            f"build={self.build}",
            f"run_id={self.run_id}",
        )

    def table_path(self, output: str, table: str, part: str) -> str:
        """The file of one part of one table."""
        return storage.join(self.folder(output, table), f"{part}.parquet")

    def record_path(self, output: str, *names: str) -> str:
        """A file of the run's own records (`run.json`, `parts/…`, `manifest.json`)."""
        return storage.join(output, "_runs", self.run_id, *names)


@dataclass(frozen=True)
class Run:
    """One run found under `output`.

    `started` holds `run.json`; `manifest` is empty while the run is unfinished.
    """

    output: str
    key: RunKey
    started: Mapping[str, Any] = field(repr=False)
    manifest: Mapping[str, Any] = field(repr=False)

    @property
    def run_id(self) -> str:
        return self.key.run_id

    @property
    def run_date(self) -> str:
        return self.key.run_date

    @property
    def build(self) -> str:
        return self.key.build

    @property
    def status(self) -> str:
        """`complete`, `failed` or `unfinished`."""
        return str(self.manifest.get("status", UNFINISHED))

    @property
    def row(self) -> dict[str, Any]:
        """The run's row of `runs` (timestamps as datetimes); raises KeyError when unfinished."""
        row = dict(self.manifest["row"])
        for column in RUNS.columns:
            if column.name.endswith("_at") and row.get(column.name) is not None:
                row[column.name] = datetime.fromisoformat(row[column.name])
        return row

    @property
    def fingerprint(self) -> dict[str, Any]:
        """What can move a decision: build, versions, flags, hashes, CPU."""
        return dict(self.manifest["fingerprint"])

    def files(self, table: str) -> list[str]:
        """Paths of the run's parts of `table`, from the manifest, sorted."""
        found = (f["path"] for f in self.manifest["files"] if f["table"] == table)
        return sorted(storage.join(self.output, path) for path in found)


def list_runs(output: str, *, status: str | None = COMPLETE) -> list[Run]:
    """Runs under `output`, oldest first; `status=None` lists all of them."""
    runs = []
    for path in storage.find(storage.join(output, "_runs", "*", "run.json")):
        run = _load(output, path)
        if status is None or run.status == status:
            runs.append(run)
    return sorted(runs, key=lambda r: (r.started["started_at"], r.run_id))


def get_run(output: str, key: RunKey) -> Run:
    """The run with this key, whatever its status; raises FileNotFoundError when it never began."""
    return _load(output, key.record_path(output, "run.json"))


def find_run(output: str, name: str) -> Run:
    """The complete run called `name` under `output`.

    `name` is a run id, a prefix of exactly one, `latest`, or the name of a build (its latest
    run). Raises `RunNotFoundError` saying which runs there are, or why the run named is not
    complete.
    """
    everything = list_runs(output, status=None)
    runs = [r for r in everything if r.status == COMPLETE]
    if name == "latest" and runs:
        return runs[-1]
    by_id = [r for r in everything if r.run_id == name]
    if by_id:
        if by_id[0].status != COMPLETE:
            raise RunNotFoundError(_why_not(by_id[0]))
        return by_id[0]
    by_build = [r for r in runs if r.build == name]
    if by_build:
        return by_build[-1]
    by_prefix = [r for r in runs if r.run_id.startswith(name)] if name else []
    if len(by_prefix) == 1:
        return by_prefix[0]
    known = ", ".join(f"{r.run_id} ({r.build})" for r in runs) or "none"
    problem = "several runs start with" if by_prefix else "no complete run called"
    raise RunNotFoundError(f"{output}: {problem} {name!r}; complete runs: {known}")


def _load(output: str, started_path: str) -> Run:
    started = json.loads(storage.read_bytes(started_path))
    key = RunKey(started["run_date"], started["build"], started["run_id"])
    try:
        manifest = json.loads(storage.read_bytes(key.record_path(output, "manifest.json")))
    except FileNotFoundError:
        manifest = {}
    return Run(output, key, started, manifest)


def _why_not(run: Run) -> str:
    if run.status == UNFINISHED:
        return (
            f"{run.output}: run {run.run_id} is unfinished; finish it with `onepass run --resume`"
        )
    return f"{run.output}: run {run.run_id} failed: {'; '.join(run.manifest['problems'])}"
