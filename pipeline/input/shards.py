"""Shards: which files are input, and how their records stream out of them.

A shard is one input file: JSONL (plain, .gz, .zst) or Parquet. Memory is bounded by one record
(JSONL) or one row group (Parquet), never by the file. A broken shard gives the records before the
break, then a ShardProblem.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO, cast

import pyarrow as pa
import pyarrow.parquet as pq
import zstandard
from apache_beam.io.filesystem import BeamIOError, CompressionTypes
from apache_beam.io.filesystems import FileSystems

from pipeline.input.records import CONVERSATION_KEYS, RECORD_KEYS, BadRecord
from pipeline.yaml_files import ConfigError

SUFFIXES = (".jsonl", ".jsonl.gz", ".jsonl.zst", ".parquet")
MAX_RECORD_BYTES = 16 * 2**20

_CHUNK_BYTES = 2**20
_PACKED_CHUNK_BYTES = 2**10  # bounds what a hostile file unpacks to at once
_ROWS_PER_BATCH = 64
_BOM = b"\xef\xbb\xbf"


class InputError(ConfigError):
    """The input names no shards; found before anything starts."""


@dataclass(frozen=True, slots=True)
class Shard:
    """One input file; `name` is its path relative to the input."""

    name: str
    path: str

    @property
    def compressed(self) -> bool:
        """Reading from the middle on costs unpacking everything before it."""
        return self.path.endswith((".gz", ".zst"))


@dataclass(frozen=True, slots=True)
class RawRecord:
    """A record before parsing.

    Attributes:
        index: its line or row in the shard, from 0.
        offset: byte it starts at, once unpacked; 0 in Parquet.
        value: a line of JSONL, a row of Parquet, or why there is neither.
    """

    index: int
    offset: int
    value: bytes | dict[str, Any] | BadRecord


@dataclass(frozen=True, slots=True)
class ShardProblem:
    """Why a shard ends here."""

    code: str
    message: str


def input_root(patterns: Sequence[str]) -> str:
    """The folder all patterns share, with its final slash; shard names are relative to it.

    >>> input_root(["gs://b/in/2026-*/x.jsonl", "gs://b/in/extra/*.parquet"])
    'gs://b/in/'
    """
    folders = [re.split(r"[*?\[]", pattern)[0].split("/")[:-1] for pattern in patterns]
    shared = []
    for names in zip(*folders, strict=False):
        if len(set(names)) > 1:
            break
        shared.append(names[0] + "/")
    return "".join(shared)


def match_shards(patterns: Sequence[str]) -> list[Shard]:
    """Every file the patterns match, once each, by name.

    Raises InputError when a pattern matches nothing, or something that is no shard.
    """
    root = input_root(patterns)
    problems = []
    paths: set[str] = set()
    for pattern in patterns:
        try:
            found = {file.path for file in FileSystems.match([pattern])[0].metadata_list}
        except (BeamIOError, ValueError) as error:
            problems.append(f"input {pattern}: cannot be listed: {error}")
            continue
        if not found:
            problems.append(f"input {pattern}: no file matches")
        paths |= found
    problems += [
        f"input {path}: not a shard; shards end in {', '.join(SUFFIXES)}"
        for path in sorted(paths)
        if not path.endswith(SUFFIXES)
    ]
    if problems:
        raise InputError(problems)
    return [Shard(path.removeprefix(root), path) for path in sorted(paths)]


def read_records(
    shard: Shard, index: int = 0, offset: int = 0
) -> Generator[RawRecord | ShardProblem, None, None]:
    """The shard's records in order; blank lines are skipped but counted in `index`.

    `index` and `offset` of a record enter the shard there. A ShardProblem comes last. Errors that
    may pass (network) are raised, so that the runner tries again.
    """
    try:
        with cast(
            BinaryIO,
            FileSystems.open(shard.path, compression_type=CompressionTypes.UNCOMPRESSED),
        ) as file:
            if shard.path.endswith(".parquet"):
                items = _rows(file, index)
            elif shard.compressed:
                items = _lines(_unpacked(file, shard.path), 0, 0)
            else:
                file.seek(offset)
                items = _lines(iter(lambda: file.read(_CHUNK_BYTES), b""), index, offset)
            empty = index == 0
            for item in items:
                empty = False
                if isinstance(item, ShardProblem) or item.index >= index:
                    yield item
            if empty:
                yield ShardProblem(
                    "empty_shard", "the shard holds no records; write it anew or remove it"
                )
    except (FileNotFoundError, IsADirectoryError, PermissionError) as error:
        yield ShardProblem("unreadable_shard", f"the shard cannot be opened: {error.strerror}")


REST_UNREAD = "the rest was not read, write the shard anew"


class _BrokenError(Exception):
    """A compressed shard makes no sense from here on."""


def _lines(chunks: Iterable[bytes], index: int, offset: int) -> Iterator[RawRecord | ShardProblem]:
    try:
        for start, line in _split(chunks, offset):
            if line is None:
                yield RawRecord(index, start, _too_large())
            elif (line := line if index else line.removeprefix(_BOM)).strip(b" \t\r"):
                yield RawRecord(index, start, line)
            index += 1
    except _BrokenError as error:
        yield ShardProblem(
            "broken_shard", f"the compressed shard {error} after {index:,} lines; {REST_UNREAD}"
        )


def _too_large() -> BadRecord:
    return BadRecord(
        "record_too_large", f"the record is over the limit of {MAX_RECORD_BYTES:,} bytes"
    )


def _split(chunks: Iterable[bytes], offset: int) -> Iterator[tuple[int, bytes | None]]:
    r"""(byte offset, line) for each line, ended by \n alone; None for a line over the limit."""
    pieces: list[bytes] = []
    size = 0
    for chunk in chunks:
        *ends, rest = chunk.split(b"\n")
        for end in ends:
            size += len(end)
            yield offset, b"".join([*pieces, end]) if size <= MAX_RECORD_BYTES else None
            offset += size + 1
            pieces, size = [], 0
        size += len(rest)
        if size <= MAX_RECORD_BYTES:
            pieces.append(rest)
        else:
            pieces.clear()
    if size:
        yield offset, b"".join(pieces) if size <= MAX_RECORD_BYTES else None


def _new_frame(path: str) -> Any:
    if path.endswith(".gz"):
        return zlib.decompressobj(wbits=31)
    return zstandard.ZstdDecompressor().decompressobj()


def _unpacked(file: BinaryIO, path: str) -> Iterator[bytes]:
    """The bytes of a file of one or more compressed frames."""
    frame = None
    while data := file.read(_PACKED_CHUNK_BYTES):
        while data:
            if frame is None:
                data = data.lstrip(b"\0")  # zeros may pad the end of a frame
                frame = _new_frame(path) if data else None
                continue
            try:
                yield frame.decompress(data)
            except (zlib.error, zstandard.ZstdError):
                raise _BrokenError("is corrupt") from None
            data = frame.unused_data if frame.eof else b""
            frame = None if frame.eof else frame
    if frame is not None:
        raise _BrokenError("is cut off")


def _rows(file: BinaryIO, first: int) -> Iterator[RawRecord | ShardProblem]:
    """Rows from that of index `first` on, and some before it."""
    index = 0
    try:
        parquet = pq.ParquetFile(file)
        columns = [name for name in parquet.schema_arrow.names if name in RECORD_KEYS]
        if not set(columns) & set(CONVERSATION_KEYS):
            yield ShardProblem(
                "missing_column",
                f"the Parquet shard has none of the columns {', '.join(CONVERSATION_KEYS)}; "
                f"its {parquet.metadata.num_rows:,} rows were not read",
            )
            return
        groups = list(range(parquet.num_row_groups))
        while groups and index + (rows := parquet.metadata.row_group(groups[0]).num_rows) <= first:
            index += rows
            del groups[0]
        for batch in parquet.iter_batches(_ROWS_PER_BATCH, row_groups=groups, columns=columns):
            for row in range(batch.num_rows):
                yield RawRecord(index, 0, _row(batch.slice(row, 1)))
                index += 1
    except (pa.ArrowException, OSError) as error:
        # Arrow reports damage as its own exceptions or as an OSError without a number; anything
        # else is the file system's, which may recover.
        if not isinstance(error, pa.ArrowException) and (type(error) is not OSError or error.errno):
            raise
        yield ShardProblem(
            "broken_shard", f"the Parquet shard is corrupt after {index:,} rows; {REST_UNREAD}"
        )


def _row(batch: Any) -> dict[str, Any] | BadRecord:
    try:
        row: dict[str, Any] = {
            name: value.decode("utf-8") if isinstance(value, bytes) else value
            for name, value in batch.to_pylist()[0].items()
        }
    except UnicodeDecodeError:
        return BadRecord("invalid_utf8", "a column of the row is not UTF-8; re-encode the shard")
    return row if len(row_bytes(row)) <= MAX_RECORD_BYTES else _too_large()


def row_bytes(row: dict[str, Any]) -> bytes:
    """A row as bytes, the same for the same content."""
    return json.dumps(row, default=str, sort_keys=True).encode("ascii")
