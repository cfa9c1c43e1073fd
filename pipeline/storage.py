"""Files in a folder that is local or in a bucket (`gs://`); writes are all or nothing.

Local paths need neither Beam nor the cloud clients: those load on the first remote path.
"""

from __future__ import annotations

import glob as _glob
import os
import uuid
from pathlib import Path
from typing import Any

_TEMPORARY_PREFIX = ".unfinished-"


def is_remote(path: str) -> bool:
    """Whether `path` names an object store instead of a local file."""
    return "://" in path


def join(base: str, *names: str) -> str:
    """`base` and `names` with single slashes between them."""
    return "/".join([base.rstrip("/"), *names])


def write_atomic(path: str, data: bytes) -> None:
    """Write `data` so that readers see the whole file or none; overwrites.

    Local: a temporary file in the same folder, flushed to disk, then renamed; removed again when
    anything interrupts. Remote: the object appears when its upload is complete.
    """
    if is_remote(path):
        with _filesystems().create(path, mime_type="application/octet-stream") as stream:
            stream.write(data)
        return
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f"{_TEMPORARY_PREFIX}{uuid.uuid4().hex}")
    try:
        with open(temporary, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _sync_folder(target.parent)


def read_bytes(path: str) -> bytes:
    """The whole file; raises `FileNotFoundError` when there is none."""
    if not is_remote(path):
        return Path(path).read_bytes()
    if not exists(path):
        raise FileNotFoundError(path)
    with _filesystems().open(path, mime_type="application/octet-stream") as stream:
        data: bytes = stream.read()
    return data


def exists(path: str) -> bool:
    """Whether the file is there."""
    if not is_remote(path):
        return Path(path).is_file()
    return bool(_filesystems().exists(path))


def find(pattern: str) -> list[str]:
    """Files matching a glob pattern, sorted; none is an empty list."""
    if not is_remote(pattern):
        # Path.glob takes relative patterns only, and a pattern may be absolute.
        return sorted(p for p in _glob.glob(pattern) if Path(p).is_file())  # noqa: PTH207
    (match,) = _filesystems().match([pattern])
    return sorted(found.path for found in match.metadata_list)


def remove_leftovers(folder: str) -> int:
    """Delete temporary files that a killed process left under a local folder; returns how many.

    Object stores have none: an interrupted upload never becomes an object.
    """
    if is_remote(folder):
        return 0
    leftovers = list(Path(folder).rglob(f"{_TEMPORARY_PREFIX}*"))
    for path in leftovers:
        path.unlink(missing_ok=True)
    return len(leftovers)


def _sync_folder(folder: Path) -> None:
    """Make a rename durable: the folder's own entry has to reach the disk too."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _filesystems() -> Any:
    from apache_beam.io.filesystems import FileSystems

    return FileSystems
