"""The pipeline over gs:// paths, in worker processes, against the emulator: the same tables as on
a local disk, also when the network is bad, a worker dies, or a write fails."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from google.cloud import storage

from engine.builds import Build
from engine.fake import FakeEngine
from pipeline import storage as files
from pipeline.deciding.inference import EngineSource
from pipeline.jobs.config import LoadedJob
from pipeline.output.runs import Run, list_runs
from rubrics.model import load_rubric
from tests.gcs import Fault, FaultyProxy, beam_uses, client_for, emulator, faulty_proxy
from tests.pipeline.sample_jobs import (
    CHAINED,
    conversation,
    decide,
    fake_engine,
    make_job,
    noon,
    table_bytes,
)

MULTI_PROCESSING = ("--direct_running_mode=multi_processing", "--direct_num_workers=2")
TABLES = ("decisions", "option_probabilities", "errors")


def shards() -> dict[str, str]:
    """Two shards: 40 conversations, a broken line, a doubled id."""
    first: list[Any] = [conversation(number) for number in range(20)]
    second: list[Any] = [conversation(100 + number) for number in range(20)]
    lines = {
        "a.jsonl": [*map(json.dumps, first), "broken"],
        "b.jsonl": [*map(json.dumps, second), json.dumps(conversation(3))],
    }
    return {name: "\n".join(content) + "\n" for name, content in lines.items()}


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The tables of a run on the local disk."""
    folder = tmp_path_factory.mktemp("local")
    (folder / "in").mkdir()
    for name, text in shards().items():
        (folder / "in" / name).write_text(text)
    return table_bytes(decide(job_in(folder, str(folder))))


def job_in(folder: Path, place: str, **changes: Any) -> LoadedJob:
    return make_job(
        folder,
        [load_rubric("triage"), CHAINED],
        {"single_pass_reads": True},
        records_per_part=8,
        input=f"{place}/in/*.jsonl",
        output=f"{place}/out",
        **changes,
    )


@pytest.fixture
def network() -> Iterator[FaultyProxy]:
    with emulator() as url, faulty_proxy(url) as proxy:
        yield proxy


@pytest.fixture
def place(network: FaultyProxy, monkeypatch: pytest.MonkeyPatch) -> str:
    """A bucket with the shards, behind a network that tests may break."""
    bucket = client_for(network.upstream).create_bucket("onepass")
    for name, text in shards().items():
        bucket.blob(f"in/{name}").upload_from_string(text)
    beam_uses(network.url, monkeypatch)
    return "gs://onepass"


def remote_bytes(run: Run) -> dict[str, bytes]:
    return {
        f"{table}/{path.rsplit('/', 1)[-1]}": files.read_bytes(path)
        for table in TABLES
        for path in run.files(table)
    }


def objects(network: FaultyProxy, prefix: str) -> set[str]:
    bucket: storage.Bucket = client_for(network.upstream).bucket("onepass")
    return {blob.name for blob in bucket.list_blobs(prefix=prefix)}


def test_two_worker_processes_write_the_tables_of_a_local_run(
    place: str, network: FaultyProxy, local: dict[str, bytes], tmp_path: Path
) -> None:
    run = decide(job_in(tmp_path, place), flags=MULTI_PROCESSING)
    assert run.status == "complete"
    assert remote_bytes(run) == local
    # Every table file there is belongs to the run: nothing temporary, nothing twice.
    written = {path for table in TABLES for path in objects(network, f"out/{table}/")}
    assert written == {
        path.removeprefix("gs://onepass/") for table in TABLES for path in run.files(table)
    }


def test_an_unavailable_service_and_dropped_connections_change_nothing(
    place: str, network: FaultyProxy, local: dict[str, bytes], tmp_path: Path
) -> None:
    hit: dict[str, int] = {}

    def rule(method: str, path: str, number: int) -> Fault | None:
        kind = "upload" if "/upload/" in path else "download" if "alt=media" in path else "other"
        hit[kind] = hit.get(kind, 0) + 1
        if hit[kind] in (2, 5):
            return Fault(status=503)
        if kind == "download" and hit[kind] in (3, 7):
            return Fault(cut_after=100)
        return None

    network.rule = rule
    run = decide(job_in(tmp_path, place))
    network.rule = lambda method, path, number: None
    assert min(hit[kind] for kind in ("upload", "download")) > 7
    assert run.status == "complete"
    assert remote_bytes(run) == local


def dies_once(build: Build) -> FakeEngine:
    """An engine whose process is killed at its second call, the first time there is one."""
    engine = fake_engine(build)
    marker = Path(os.environ["ONEPASS_TEST_DIED"])
    read, calls = engine.read, []

    def dying(reads: Any) -> Any:
        calls.append(1)
        if len(calls) == 2 and not marker.exists():
            marker.touch()
            os._exit(9)
        return read(reads)

    engine.read = dying  # type: ignore[method-assign]
    return engine


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_run_whose_worker_died_is_resumed_without_loss_or_doubles(
    place: str,
    network: FaultyProxy,
    local: dict[str, bytes],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ONEPASS_TEST_DIED", str(tmp_path / "died"))
    job = job_in(tmp_path, place)
    with pytest.raises(Exception):  # noqa: B017, PT011  (what it is depends on the runner)
        decide(job, source=EngineSource(dies_once, noon), flags=MULTI_PROCESSING)
    assert not list_runs(f"{place}/out")
    run = decide(job, source=EngineSource(dies_once, noon), resume=True)
    assert run.status == "complete"
    assert remote_bytes(run) == local
    [complete] = list_runs(f"{place}/out")
    assert complete.run_id == run.run_id


def test_a_manifest_that_cannot_be_written_leaves_an_unfinished_run_to_resume(
    place: str, network: FaultyProxy, local: dict[str, bytes], tmp_path: Path
) -> None:
    network.rule = lambda method, path, number: (
        Fault(status=403) if "upload" in path and "manifest.json" in path else None
    )
    job = job_in(tmp_path, place)
    with pytest.raises(Exception, match="403"):
        decide(job)
    assert [run.status for run in list_runs(f"{place}/out", status=None)] == ["unfinished"]

    network.rule = lambda method, path, number: None
    run = decide(job, resume=True)
    assert (run.status, run.row["resumed_parts"]) == ("complete", run.row["parts"])
    assert remote_bytes(run) == local


def test_a_run_with_fewer_parts_shows_its_own_rows_only(
    place: str, network: FaultyProxy, tmp_path: Path
) -> None:
    from pipeline.output.querying import connect

    many = decide(job_in(tmp_path, place))
    few = decide(job_in(tmp_path, place, limit=5))
    assert len(few.files("decisions")) < len(many.files("decisions"))
    rows = connect(f"{place}/out").execute("SELECT count(*) FROM latest_decisions").fetchone()
    assert rows == (few.row["decisions"],)
    assert few.row["decisions"] == 5 * 8
