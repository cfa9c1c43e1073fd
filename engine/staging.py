"""Model weights in Cloud Storage: a `gs://` folder staged once per machine.

Every process of a machine may ask for the folder; one of them downloads, the others wait. A file
takes its final name only when all its bytes have arrived and its CRC32C is the one Cloud Storage
states, so whatever is there under its final name is whole and is not fetched again: an interrupted
staging resumes where it was, file by file. Inside a file the client resumes broken transfers at
the byte. The target folder is named after the source files' names, sizes, and checksums: weights
that change upstream get a folder of their own and never mix with older ones.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import logging
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from engine.checkpoints import CheckpointError

logger = logging.getLogger(__name__)

_CHUNK_BYTES = 32 * 2**20
_CONNECTIONS = 16
_SPARE_BYTES = 2**30  # left free on the disk, for logs and shuffle files
_ATTEMPTS = 3  # per file, each with the client's own retries inside
_WEIGHTS = (".safetensors", ".bin", ".pt", ".pth", ".gguf", ".ckpt")


class StagingError(CheckpointError):
    """The weights could not be staged; the message says which, and what to do."""


@dataclass(frozen=True)
class SourceFile:
    """One object of the source folder; `path` is relative to the folder."""

    path: str
    size: int
    crc32c: str
    blob: Any


def default_cache() -> Path:
    """Where weights are staged: `ONEPASS_WEIGHTS`, or a folder of the temporary directory."""
    return Path(
        os.environ.get("ONEPASS_WEIGHTS") or Path(tempfile.gettempdir()) / "onepass-weights"
    )


def stage(uri: str, cache: Path | None = None, client: Any = None, *, weights: bool = True) -> Path:
    """The local copy of the `gs://` folder `uri`, downloaded as far as this machine lacks it.

    `weights=False` leaves the weights out: tokenizer and configuration are enough to plan and to
    launch. Safe to call from any number of processes at once. Raises `StagingError` for a folder
    that is empty or unreadable, for a disk that is too small, and for files that stay corrupt.
    """
    bucket, prefix = _split(uri)
    files = _list(client or _client(uri), uri, bucket, prefix)
    wanted = [file for file in files if weights or not file.path.endswith(_WEIGHTS)]
    target = (cache or default_cache()) / _folder_name(uri, files)
    if not _missing(target, wanted):
        logger.info("weights %s: found in %s", uri, target)
        return target
    target.mkdir(parents=True, exist_ok=True)
    with _locked(target.with_suffix(".lock"), uri):
        if _missing(target, wanted):
            _download(uri, wanted, target)
    return target


def _split(uri: str) -> tuple[str, str]:
    bucket, _, prefix = uri.removeprefix("gs://").partition("/")
    if not uri.startswith("gs://") or not bucket or not prefix.strip("/"):
        raise StagingError(f"weights {uri!r}: expected gs://BUCKET/FOLDER")
    return bucket, prefix.strip("/") + "/"


def _client(uri: str) -> Any:
    from google.auth.exceptions import DefaultCredentialsError
    from google.cloud import storage

    try:
        return storage.Client()
    except DefaultCredentialsError:
        raise StagingError(
            f"weights {uri}: this machine has no Google credentials; log in with `gcloud auth "
            "application-default login`"
        ) from None


def _list(client: Any, uri: str, bucket: str, prefix: str) -> list[SourceFile]:
    from google.api_core.exceptions import GoogleAPIError
    from google.auth.exceptions import GoogleAuthError

    try:
        blobs = list(client.list_blobs(bucket, prefix=prefix))
    except (GoogleAPIError, GoogleAuthError, OSError) as error:
        raise StagingError(
            f"weights {uri}: cannot list the folder ({type(error).__name__}); check that it exists "
            "and that the worker's service account may read it"
        ) from error
    files = [
        SourceFile(blob.name.removeprefix(prefix), int(blob.size), blob.crc32c, blob)
        for blob in blobs
        if not blob.name.endswith("/")
    ]
    if not files:
        raise StagingError(f"weights {uri}: no files there")
    for file in files:
        path = PurePosixPath(file.path)
        if path.is_absolute() or ".." in path.parts:
            raise StagingError(f"weights {uri}: file name {file.path!r} leaves the folder")
    return sorted(files, key=lambda file: file.path)


def _folder_name(uri: str, files: Sequence[SourceFile]) -> str:
    facts = [[uri.rstrip("/")], *([file.path, file.size, file.crc32c] for file in files)]
    digest = hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:16]
    return f"{PurePosixPath(uri).name}-{digest}"


def _missing(target: Path, files: Sequence[SourceFile]) -> list[SourceFile]:
    def size(path: Path) -> int:
        return path.stat().st_size if path.is_file() else -1

    return [file for file in files if size(target / file.path) != file.size]


@contextmanager
def _locked(path: Path, uri: str) -> Iterator[None]:
    """Hold the machine-wide lock; the kernel frees it when its holder dies."""
    with path.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            logger.info("weights %s: another process is staging them; waiting", uri)
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _download(uri: str, files: Sequence[SourceFile], target: Path) -> None:
    missing = _missing(target, files)
    for leftover in target.rglob("*.part"):
        leftover.unlink()
    _check_space(uri, missing, target)
    total = sum(file.size for file in files)
    here = total - sum(file.size for file in missing)
    logger.info(
        "weights %s: staging %d of %d files, %.2f of %.2f GB, in %s",
        uri, len(missing), len(files), (total - here) / 1e9, total / 1e9, target,
    )  # fmt: skip
    started, fetched = time.monotonic(), 0
    for file in missing:
        _fetch(uri, file, target / file.path)
        fetched += file.size
        seconds = max(time.monotonic() - started, 1e-9)
        logger.info(
            "weights %s: %s whole, %.2f of %.2f GB here, %.0f MB/s",
            uri, file.path, (here + fetched) / 1e9, total / 1e9, fetched / 1e6 / seconds,
        )  # fmt: skip


def _check_space(uri: str, missing: Sequence[SourceFile], target: Path) -> None:
    needed = sum(file.size for file in missing)
    free = shutil.disk_usage(target).free
    if needed + _SPARE_BYTES > free:
        raise StagingError(
            f"weights {uri}: {needed / 1e9:.1f} GB to download and {_SPARE_BYTES / 1e9:.1f} GB to "
            f"spare, but {free / 1e9:.1f} GB free at {target}; give the workers a larger disk "
            "(disk_size_gb)"
        )


def _fetch(uri: str, file: SourceFile, path: Path) -> None:
    """One file: parallel ranges into `.part`, checksum, final name."""
    from google.cloud.storage import transfer_manager
    from google.cloud.storage.exceptions import DataCorruption

    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")

    def transfer() -> None:
        transfer_manager.download_chunks_concurrently(
            file.blob,
            str(part),
            chunk_size=_CHUNK_BYTES,
            worker_type=transfer_manager.THREAD,
            max_workers=_CONNECTIONS,
        )
        part.replace(path)

    try:
        _with_retries(transfer, f"weights {uri}: {file.path}")
    except DataCorruption as error:
        part.unlink(missing_ok=True)
        raise StagingError(
            f"weights {uri}: {file.path} does not have the checksum Cloud Storage states "
            f"({file.crc32c}) after {_ATTEMPTS} downloads; upload it again"
        ) from error
    except Exception as error:
        raise StagingError(
            f"weights {uri}: {file.path} failed {_ATTEMPTS} times, last with "
            f"{type(error).__name__}; whole files are kept, a new attempt resumes"
        ) from error


def _with_retries(action: Callable[[], None], what: str) -> None:
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            action()
            return
        except Exception as error:
            if attempt == _ATTEMPTS:
                raise
            logger.warning("%s: %s, trying again", what, type(error).__name__)
            time.sleep(2**attempt)
