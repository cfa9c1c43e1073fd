"""Jobs: which build asks which rubrics about which conversations, and where the answers go.

    build: single_pass                      # a build that ships, or a path
    rubrics: [triage, my/rubrics/*.yaml]    # rubrics that ship, paths, globs
    input: configs/demo/conversations/*.jsonl
    output: out/

Relative paths are looked up from the current directory; `configs/...` that is not there is taken
from what ships with the program.
"""

from __future__ import annotations

import glob
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from importlib import resources
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from engine.builds import Build
from pipeline import storage
from pipeline.yaml_files import ConfigError, load_mapping, validated
from rubrics.errors import RubricError
from rubrics.model import Rubric, load_rubric

T = TypeVar("T")

_SHIPPED = Path(str(resources.files("configs")))

Option = str | int | float | bool | list[str]


def _as_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


Names = Annotated[tuple[str, ...], BeforeValidator(_as_list), Field(min_length=1)]


class Job(BaseModel):
    """One job as its file states it; `name` is the file's stem.

    Attributes:
        build: name of a build that ships, or path of one.
        rubrics: names of rubrics that ship, paths or globs; a record may choose among them.
        dialect: how rubrics are phrased.
        input: files or globs of conversation shards.
        output: folder of the tables.
        samples: reads per canvas, each with its own noise, averaged.
        seed: of the canvas noise.
        on_too_long: what happens to a conversation that does not fit the model.
        max_error_rate: largest share of error rows a run may have and still succeed.
        runner: where it runs; DirectRunner means FnApiRunner, its in-process form.
        records_per_part: records of a shard that are written and resumed as one.
        limit: only the first so many records.
        run_date: partition of the tables; the day the run starts (UTC) when not given.
        options: further pipeline options of Beam, by name.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    build: str = Field(min_length=1)
    rubrics: Names
    dialect: Literal["lines", "compact"] = "lines"
    input: Names
    output: str = Field(min_length=1)
    samples: int = Field(1, ge=1, le=32)
    seed: int = Field(42, ge=0)
    on_too_long: Literal["reject", "keep_recent", "keep_first"] = "reject"
    max_error_rate: float = Field(0.01, ge=0, le=1)
    runner: Literal["FnApiRunner", "DirectRunner", "DataflowRunner"] = "FnApiRunner"
    records_per_part: int = Field(1000, ge=1, le=100_000)
    limit: int | None = Field(None, ge=1)
    run_date: date | None = None
    options: dict[str, Option] = {}


@dataclass(frozen=True)
class LoadedJob:
    """A job with everything it names.

    Attributes:
        job: as stated, with `runner` and `input` as they will be used.
        notes: what was understood differently from what was written.
    """

    job: Job
    build: Build
    rubrics: tuple[Rubric, ...]
    notes: tuple[str, ...] = ()


def load_job(source: str | Path, overrides: Mapping[str, Any] | None = None) -> LoadedJob:
    """Read a job and all it refers to.

    Args:
        source: name of a job that ships, or path (local or `gs://`) of a YAML file.
        overrides: keys that replace the file's; None leaves the file's.

    Raises:
        ConfigError: every problem of the job, its build, its rubrics and its local input.
    """
    given = {key: value for key, value in (overrides or {}).items() if value is not None}
    path = _find(str(source), "jobs")
    values = {"name": _stem(path), **load_mapping(path), **given}
    problems: list[str] = []

    def collect(load: Callable[..., T], *args: Any) -> T | None:
        try:
            return load(*args)
        except ConfigError as error:
            problems.extend(error.problems)
            return None

    job = collect(validated, Job, values, path, frozenset(given))
    # What the job names is checked even when the job is wrong elsewhere.
    build = collect(load_build, values["build"]) if isinstance(values.get("build"), str) else None
    rubrics = collect(load_rubrics, _strings(values.get("rubrics")))
    inputs = [_shipped_if_missing(pattern) for pattern in _strings(values.get("input"))]
    collect(_check_input, inputs)
    collect(_check_options, path, values)
    if problems or job is None or build is None or rubrics is None:
        raise ConfigError(problems)
    notes: tuple[str, ...] = ()
    if job.runner == "DirectRunner":
        notes = ("runner DirectRunner runs as FnApiRunner, Beam's in-process runner",)
        job = job.model_copy(update={"runner": "FnApiRunner"})
    return LoadedJob(job.model_copy(update={"input": tuple(inputs)}), build, rubrics, notes)


def load_build(name: str) -> Build:
    """A build that ships, by name, or one at a path; raises ConfigError."""
    path = _find(name, "builds")
    return validated(Build, {"name": _stem(path), **load_mapping(path)}, path)


def load_rubrics(names: Iterable[str]) -> tuple[Rubric, ...]:
    """Rubrics that ship, by name, or at paths and globs; raises ConfigError."""
    problems: list[str] = []
    found: dict[str, tuple[str, Rubric]] = {}
    for name in names:
        for path in _rubric_paths(name, problems):
            try:
                rubric = _load_rubric(path)
            except RubricError as error:
                problems += error.problems
                continue
            if rubric.id in found and found[rubric.id][0] != path:
                other = found[rubric.id][0]
                problems.append(f"{path}: id: {rubric.id} is also the id of {other}; rename one")
            found.setdefault(rubric.id, (path, rubric))
    if problems:
        raise ConfigError(problems)
    return tuple(rubric for _, rubric in found.values())


def _load_rubric(path: str) -> Rubric:
    if not storage.is_remote(path):
        return load_rubric(path)
    with TemporaryDirectory() as folder:
        copy = Path(folder) / PurePosixPath(path).name
        try:
            copy.write_bytes(storage.read_bytes(path))
            return load_rubric(copy)
        except FileNotFoundError:
            raise RubricError([f"{path}: cannot be read: no such file"]) from None
        except RubricError as error:
            raise RubricError(p.replace(str(copy), path) for p in error.problems) from None


def _rubric_paths(name: str, problems: list[str]) -> list[str]:
    if not _is_path(name):
        return [name]
    pattern = _shipped_if_missing(name)
    paths = storage.find(pattern) if glob.has_magic(pattern) else [pattern]
    if not paths:
        problems.append(f"rubrics: {name}: no file matches")
    return paths


def _check_input(patterns: list[str]) -> None:
    local = [pattern for pattern in patterns if not storage.is_remote(pattern)]
    if not local:
        return
    from pipeline.input.shards import match_shards  # loads Beam

    match_shards(local)


def _check_options(path: str, values: Mapping[str, Any]) -> None:
    problems = []
    options = values.get("options")
    if options and isinstance(options, dict):
        from apache_beam.options.pipeline_options import PipelineOptions

        known = PipelineOptions([]).get_all_options()
        problems += [
            f"{path}: options.{name}: not a pipeline option of Beam; correct its spelling"
            for name in options
            if name not in known
        ]
        if "runner" in options:
            problems.append(f"{path}: options.runner: state it as the job's runner")
    if values.get("runner") == "DataflowRunner":
        for key in ("input", "output"):
            problems += [
                f"{path}: {key}: {place} is local; DataflowRunner needs gs:// paths"
                for place in _strings(values.get(key))
                if not storage.is_remote(place)
            ]
    if problems:
        raise ConfigError(problems)


def _find(name: str, kind: str) -> str:
    """Path of a job or build by name or path; raises ConfigError."""
    if storage.is_remote(name):
        return name
    path = _shipped_if_missing(name if _is_path(name) else f"configs/{kind}/{name}.yaml")
    if Path(path).is_file():
        return path
    if _is_path(name):
        raise ConfigError([f"{kind[:-1]} {name}: no such file"])
    ships = ", ".join(sorted(p.stem for p in _SHIPPED.joinpath(kind).glob("*.yaml")))
    raise ConfigError([f"{kind[:-1]} {name}: none ships by that name; use {ships} or a path"])


def _is_path(name: str) -> bool:
    return "/" in name or name.endswith((".yaml", ".yml"))


def _shipped_if_missing(pattern: str) -> str:
    """`configs/...` from the current directory or, where that has none, from what ships."""
    if not pattern.startswith("configs/") or storage.find(pattern):
        return pattern
    return str(_SHIPPED / pattern.removeprefix("configs/"))


def _stem(path: str) -> str:
    return PurePosixPath(path).stem


def _strings(value: Any) -> list[str]:
    values = [value] if isinstance(value, str) else value
    return [v for v in values if isinstance(v, str)] if isinstance(values, list | tuple) else []
