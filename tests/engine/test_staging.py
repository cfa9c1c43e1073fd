"""Weights from Cloud Storage, with the real client against the emulator and a faulty network."""

from __future__ import annotations

import multiprocessing
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from google.cloud import storage

from engine import staging
from engine.checkpoints import CheckpointError, resolve
from engine.staging import StagingError, stage
from tests.gcs import Fault, FaultyProxy, bucket, client_for, faulty_proxy, gcs_url

__all__ = ["bucket", "gcs_url"]

MIB = 2**20
FILES = {
    "config.json": b'{"model_type": "diffusion_gemma"}',
    "model-00001-of-00002.safetensors": os.urandom(3 * MIB + 17),
    "model-00002-of-00002.safetensors": os.urandom(MIB),
    "tokenizer/tokenizer.json": b"{}",
    "empty.txt": b"",
}


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small ranges, so that small files take several, and no waiting between attempts."""
    monkeypatch.setattr(staging, "_CHUNK_BYTES", MIB)
    monkeypatch.setattr(staging.time, "sleep", lambda seconds: None)


@pytest.fixture
def weights(bucket: storage.Bucket) -> str:
    for name, data in FILES.items():
        bucket.blob(f"models/tiny/{name}").upload_from_string(data)
    bucket.blob("models/tiny-other/config.json").upload_from_string(b"not this one")
    return f"gs://{bucket.name}/models/tiny"


@pytest.fixture
def proxy(gcs_url: str) -> Iterator[FaultyProxy]:
    with faulty_proxy(gcs_url) as proxy:
        yield proxy


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def downloads(proxy: FaultyProxy) -> list[str]:
    return proxy.paths("alt=media")


def test_the_folder_arrives_whole_and_is_fetched_once(
    weights: str, proxy: FaultyProxy, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    folder = stage(weights, tmp_path, client_for(proxy.url))
    assert contents(folder) == FILES
    assert "0.00 of 0.00 GB" in caplog.text
    assert "model-00001-of-00002.safetensors whole" in caplog.text
    assert len(downloads(proxy)) == 4 + 1 + 2  # ranges of the two shards, two small files

    proxy.seen.clear()
    assert stage(weights + "/", tmp_path, client_for(proxy.url)) == folder
    assert not downloads(proxy)


def test_without_weights_tokenizer_and_configuration_come_alone(
    weights: str, gcs_url: str, tmp_path: Path
) -> None:
    folder = stage(weights, tmp_path, client_for(gcs_url), weights=False)
    assert set(contents(folder)) == {"config.json", "tokenizer/tokenizer.json", "empty.txt"}
    assert stage(weights, tmp_path, client_for(gcs_url)) == folder
    assert contents(folder) == FILES


def test_weights_that_change_upstream_get_a_folder_of_their_own(
    weights: str, bucket: storage.Bucket, gcs_url: str, tmp_path: Path
) -> None:
    old = stage(weights, tmp_path, client_for(gcs_url))
    bucket.blob("models/tiny/config.json").upload_from_string(b'{"model_type": "changed"}')
    new = stage(weights, tmp_path, client_for(gcs_url))
    assert new != old
    assert contents(old) == FILES
    assert contents(new)["config.json"] == b'{"model_type": "changed"}'


def test_unavailable_and_broken_transfers_are_resumed_at_the_byte(
    weights: str, proxy: FaultyProxy, tmp_path: Path
) -> None:
    def rule(method: str, path: str, number: int) -> Fault | None:
        if number in (2, 3):
            return Fault(status=503)
        if "-00001-" in path and "alt=media" in path and len(cut) < 2:
            cut.append(path)  # two, as the first to come may be the range of 17 bytes
            return Fault(cut_after=500_000)
        return None

    cut: list[str] = []

    proxy.rule = rule
    folder = stage(weights, tmp_path, client_for(proxy.url))
    assert contents(folder) == FILES
    starts = [int(line.split("bytes=")[1].split("-")[0]) for line in downloads(proxy)]
    assert any(0 < start % MIB <= 500_000 for start in starts)


def test_interrupted_staging_resumes_with_the_files_that_lack(
    weights: str, proxy: FaultyProxy, tmp_path: Path
) -> None:
    proxy.rule = lambda method, path, number: (
        Fault(status=403) if "-00002-" in path and "alt=media" in path else None
    )
    with pytest.raises(StagingError, match=r"00002\.safetensors failed 3 times"):
        stage(weights, tmp_path, client_for(proxy.url))

    proxy.rule = lambda method, path, number: None
    proxy.seen.clear()
    folder = stage(weights, tmp_path, client_for(proxy.url))
    assert contents(folder) == FILES
    assert not [line for line in downloads(proxy) if "-00001-" in line]


def test_a_file_cut_short_on_disk_is_fetched_again(
    weights: str, gcs_url: str, tmp_path: Path
) -> None:
    folder = stage(weights, tmp_path, client_for(gcs_url))
    shard = folder / "model-00001-of-00002.safetensors"
    shard.write_bytes(shard.read_bytes()[:1000])
    (folder / "model-00002-of-00002.safetensors.part").write_bytes(b"left by a killed process")
    assert stage(weights, tmp_path, client_for(gcs_url)) == folder
    assert contents(folder) == FILES


def test_corrupt_bytes_are_refused(weights: str, proxy: FaultyProxy, tmp_path: Path) -> None:
    corrupt: list[str] = []

    def rule(method: str, path: str, number: int) -> Fault | None:
        if "-00002-" in path and "alt=media" in path and len(corrupt) < limit:
            corrupt.append(path)
            return Fault(flip_byte=500)
        return None

    limit = 1
    proxy.rule = rule
    assert contents(stage(weights, tmp_path / "a", client_for(proxy.url))) == FILES

    limit = 1000
    with pytest.raises(StagingError, match=r"00002.*checksum.*after 3 downloads; upload it again"):
        stage(weights, tmp_path / "b", client_for(proxy.url))
    assert not list((tmp_path / "b").rglob("*00002-of*"))


def test_a_full_disk_is_told_before_any_download(
    weights: str, proxy: FaultyProxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage(tmp_path)._replace(free=2**30 + MIB)
    monkeypatch.setattr(staging.shutil, "disk_usage", lambda path: usage)
    with pytest.raises(StagingError, match=r"GB to download .* 1\.1 GB free at .*disk_size_gb"):
        stage(weights, tmp_path, client_for(proxy.url))
    assert not downloads(proxy)


@pytest.mark.parametrize(
    ("uri", "message"),
    [
        ("gs://bucket-only", "expected gs://BUCKET/FOLDER"),
        ("/local/folder", "expected gs://BUCKET/FOLDER"),
        ("gs://no-such-bucket/models", r"cannot list the folder \(NotFound\)"),
    ],
)
def test_wrong_places_are_named(uri: str, message: str, gcs_url: str, tmp_path: Path) -> None:
    with pytest.raises(StagingError, match=message):
        stage(uri, tmp_path, client_for(gcs_url))


def test_a_machine_without_credentials_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("STORAGE_EMULATOR_HOST", raising=False)
    monkeypatch.delenv("GOOGLE_APPLICATION_CREDENTIALS", raising=False)
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path))
    monkeypatch.setenv("NO_GCE_CHECK", "true")
    with pytest.raises(CheckpointError, match="no Google credentials; log in with `gcloud"):
        resolve("gs://bucket/models/tiny")


def test_an_empty_folder_is_named(bucket: storage.Bucket, gcs_url: str, tmp_path: Path) -> None:
    bucket.blob("models/none/").upload_from_string(b"")
    with pytest.raises(StagingError, match="models/none: no files there"):
        stage(f"gs://{bucket.name}/models/none", tmp_path, client_for(gcs_url))


def test_a_file_name_cannot_leave_the_folder(
    weights: str, proxy: FaultyProxy, tmp_path: Path
) -> None:
    proxy.rule = lambda method, path, number: Fault(replace=("tiny/config", "tiny/../../config"))
    with pytest.raises(StagingError, match=r"'../../config.json' leaves the folder"):
        stage(weights, tmp_path, client_for(proxy.url))


def _stage_in_process(uri: str, cache: Path, url: str) -> str:
    return str(stage(uri, cache, client_for(url)))


def test_processes_of_one_machine_download_once(
    weights: str, proxy: FaultyProxy, tmp_path: Path
) -> None:
    context = multiprocessing.get_context("spawn")
    with context.Pool(3) as pool:
        arguments = [(weights, tmp_path, proxy.url)] * 3
        folders = set(pool.starmap(_stage_in_process, arguments))
    assert len(folders) == 1
    assert contents(Path(folders.pop())) == FILES
    assert len([line for line in downloads(proxy) if "tokenizer.json" in line]) == 1
