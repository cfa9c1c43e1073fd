"""Shards: which files are input, and how records stream out of good and broken ones."""

from __future__ import annotations

import gzip
import json
import tracemalloc
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.input import shards
from pipeline.input.records import BadRecord
from pipeline.input.shards import (
    REST_UNREAD,
    InputError,
    RawRecord,
    Shard,
    ShardProblem,
    input_root,
    match_shards,
    read_records,
)

CANARY = "canary7f3a"


def shard_of(path: Path, data: bytes) -> Shard:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return Shard(path.name, str(path))


def lines(shard: Shard) -> list[tuple[int, Any]]:
    """(index, line or row, or the code of what is wrong) for each record; no ShardProblem."""
    return [(item.index, _seen(item.value)) for item in read_records(shard) if _is_record(item)]


def _seen(value: Any) -> Any:
    return value.code if isinstance(value, BadRecord) else value


def _is_record(item: RawRecord | ShardProblem) -> bool:
    assert isinstance(item, RawRecord), item
    return True


def broken(shard: Shard) -> tuple[int, ShardProblem]:
    """How many records come, and the problem that ends them."""
    *records, last = read_records(shard)
    assert all(isinstance(item, RawRecord) for item in records)
    assert isinstance(last, ShardProblem)
    assert CANARY not in repr(last)
    return len(records), last


class TestMatch:
    def test_files_of_all_patterns_once_each_by_name(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for name in ("b.jsonl", "a.jsonl.gz", "x/c.parquet", "x/d.jsonl.zst"):
            shard_of(tmp_path / name, b"")
        found = match_shards([f"{tmp_path}/*", f"{tmp_path}/x/*", f"{tmp_path}/b.jsonl"])
        names = ["a.jsonl.gz", "b.jsonl", "x/c.parquet", "x/d.jsonl.zst"]
        assert [shard.name for shard in found] == names
        assert found[0].path == f"{tmp_path}/a.jsonl.gz"
        monkeypatch.chdir(tmp_path)
        assert match_shards(["b.jsonl"]) == [Shard("b.jsonl", "b.jsonl")]

    def test_every_pattern_must_match_and_every_match_be_a_shard(self, tmp_path: Path) -> None:
        shard_of(tmp_path / "notes.txt", b"")
        with pytest.raises(InputError) as error:
            match_shards([f"{tmp_path}/*", f"{tmp_path}/*.jsonl", f"{tmp_path}/no/*.parquet"])
        assert str(error.value).splitlines() == [
            f"input {tmp_path}/*.jsonl: no file matches",
            f"input {tmp_path}/no/*.parquet: no file matches",
            f"input {tmp_path}/notes.txt: not a shard; shards end in .jsonl, .jsonl.gz, "
            ".jsonl.zst, .parquet",
        ]

    @pytest.mark.parametrize(
        ("patterns", "root"),
        [
            (["in/a.jsonl"], "in/"),
            (["a.jsonl"], ""),
            (["/a.jsonl"], "/"),
            (["/in/*/a.jsonl", "/in/b/*.jsonl"], "/in/"),
            (["/in/a/*.jsonl", "/in/ab/*.jsonl"], "/in/"),
            (["gs://b/x/*.jsonl"], "gs://b/x/"),
            (["gs://b/x/*.jsonl", "gs://c/*.jsonl"], "gs://"),
            (["gs://b/x/*.jsonl", "in/*.jsonl"], ""),
        ],
    )
    def test_root(self, patterns: list[str], root: str) -> None:
        assert input_root(patterns) == root


def plain(data: bytes) -> bytes:
    return data


PACK: dict[str, Callable[[bytes], bytes]] = {
    ".jsonl": plain,
    ".jsonl.gz": gzip.compress,
    ".jsonl.zst": zstandard.ZstdCompressor().compress,
}


@pytest.mark.parametrize("suffix", PACK)
class TestJsonl:
    def shard(self, tmp_path: Path, suffix: str, data: bytes) -> Shard:
        return shard_of(tmp_path / f"a{suffix}", PACK[suffix](data))

    def test_lines_end_in_newline_alone(self, tmp_path: Path, suffix: str) -> None:
        data = '"a\u2028b\u0085c\x0b\x0c\x1e"\r\n"d\re"\n'.encode()
        found = lines(self.shard(tmp_path, suffix, data))
        assert found == [(0, data.split(b"\n")[0]), (1, b'"d\re"')]

    def test_blank_lines_are_no_records_but_count_as_lines(
        self, tmp_path: Path, suffix: str
    ) -> None:
        found = lines(self.shard(tmp_path, suffix, b"\n1\n\r\n \t\n2\n\n3"))
        assert found == [(1, b"1"), (4, b"2"), (6, b"3")]

    def test_a_byte_order_mark_is_dropped_at_the_start_alone(
        self, tmp_path: Path, suffix: str
    ) -> None:
        bom = b"\xef\xbb\xbf"
        found = lines(self.shard(tmp_path, suffix, bom + b"1\n" + bom + b"2\n"))
        assert found == [(0, b"1"), (1, bom + b"2")]

    def test_a_record_over_the_limit_costs_itself(
        self, tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(shards, "MAX_RECORD_BYTES", 10)
        monkeypatch.setattr(shards, "_CHUNK_BYTES", 4)
        monkeypatch.setattr(shards, "_PACKED_CHUNK_BYTES", 4)
        data = b"1234567890\n12345678901\n" + b"x" * 100 + b"\n3\n" + b"y" * 11
        too_large = "record_too_large"
        assert lines(self.shard(tmp_path, suffix, data)) == [
            (0, b"1234567890"),
            (1, too_large),
            (2, too_large),
            (3, b"3"),
            (4, too_large),
        ]

    @pytest.mark.parametrize("data", [b"", b"\n\n \r\n", b"\xef\xbb\xbf", b"\xef\xbb\xbf\n"])
    def test_a_shard_without_records(self, tmp_path: Path, suffix: str, data: bytes) -> None:
        problem = ShardProblem(
            "empty_shard", "the shard holds no records; write it anew or remove it"
        )
        assert broken(self.shard(tmp_path, suffix, data)) == (0, problem)

    def test_lines_do_not_depend_on_how_the_file_is_read(
        self, tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        data = b"\n".join(b"x" * n for n in range(1, 40))
        shard = self.shard(tmp_path, suffix, data)
        whole = list(read_records(shard))
        monkeypatch.setattr(shards, "_CHUNK_BYTES", 3)
        monkeypatch.setattr(shards, "_PACKED_CHUNK_BYTES", 3)
        assert list(read_records(shard)) == whole
        assert [item.value for item in whole if isinstance(item, RawRecord)] == data.split(b"\n")

    def test_a_shard_that_cannot_be_opened(self, tmp_path: Path, suffix: str) -> None:
        gone = Shard("gone", str(tmp_path / f"gone{suffix}"))
        problem = ShardProblem(
            "unreadable_shard", "the shard cannot be opened: No such file or directory"
        )
        assert broken(gone) == (0, problem)
        folder = tmp_path / f"folder{suffix}"
        folder.mkdir()
        assert broken(Shard("folder", str(folder)))[1].code == "unreadable_shard"


@settings(deadline=None)
@given(st.lists(st.binary(max_size=9).map(lambda b: b.replace(b"\n", b"")), max_size=6), st.data())
def test_splitting_is_the_same_however_the_bytes_arrive(
    found: Sequence[bytes], data: st.DataObject
) -> None:
    whole = b"\n".join(found)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=5)))
    chunks = [whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True) if a < b]
    split = list(shards._split(chunks, 0))
    expected = whole.split(b"\n")
    if not expected[-1]:
        expected.pop()
    assert [line for _, line in split] == expected
    for offset, line in split:
        assert line is not None
        assert whole[offset : offset + len(line)] == line


@pytest.mark.parametrize("suffix", PACK)
def test_a_shard_can_be_entered_at_any_record(tmp_path: Path, suffix: str) -> None:
    data = PACK[suffix]("\ufeff1\n\n22\r\n333\n4".encode())
    assert_entered_anywhere(shard_of(tmp_path / f"a{suffix}", data), 4)


@pytest.mark.parametrize("row_group_size", [1, 3, 100])
def test_a_parquet_shard_can_be_entered_at_any_row(tmp_path: Path, row_group_size: int) -> None:
    table = pa.table({"text": [str(n) for n in range(10)]})
    shard = parquet(tmp_path / "a.parquet", table, row_group_size=row_group_size)
    assert_entered_anywhere(shard, 10)


def assert_entered_anywhere(shard: Shard, count: int) -> None:
    records = list(read_records(shard))
    assert len(records) == count
    for number, record in enumerate(records):
        assert isinstance(record, RawRecord)
        assert list(read_records(shard, record.index, record.offset)) == records[number:]


RECORDS = b"".join(json.dumps({"text": f"{CANARY} {n}"}).encode() + b"\n" for n in range(50))


@pytest.mark.parametrize("suffix", [".jsonl.gz", ".jsonl.zst"])
class TestBrokenCompression:
    def test_cut_off_anywhere(self, tmp_path: Path, suffix: str) -> None:
        # Several frames, so that records become readable one by one.
        packed = b"".join(PACK[suffix](RECORDS[n : n + 97]) for n in range(0, len(RECORDS), 97))
        path = tmp_path / f"a{suffix}"
        expected = [(n, line) for n, line in enumerate(RECORDS.splitlines())]
        assert lines(shard_of(path, packed)) == expected
        counts = set()
        for size in range(1, len(packed), 23):
            *records, last = read_records(shard_of(path, packed[:size]))
            if isinstance(last, RawRecord):  # cut between frames, which no file can tell
                records.append(last)
            else:
                reason = (
                    f"the compressed shard is cut off after {len(records)} lines; {REST_UNREAD}"
                )
                assert last == ShardProblem("broken_shard", reason)
            seen = [(r.index, r.value) for r in records if isinstance(r, RawRecord)]
            assert seen[:-1] == expected[: max(0, len(seen) - 1)]
            counts.add(len(records))
        assert len(counts) > 10

    def test_cut_off_within_its_only_frame(self, tmp_path: Path, suffix: str) -> None:
        data = b"".join(b'{"text": "%d"}\n' % (n * 7919**3 % 10**9) for n in range(60_000))
        packed = PACK[suffix](data)
        count, problem = broken(shard_of(tmp_path / f"a{suffix}", packed[: len(packed) // 2]))
        assert problem.code == "broken_shard"
        assert (
            problem.message
            == f"the compressed shard is cut off after {count:,} lines; {REST_UNREAD}"
        )
        assert 1_000 < count < 60_000

    def test_not_compressed_at_all(self, tmp_path: Path, suffix: str) -> None:
        problem = ShardProblem(
            "broken_shard", f"the compressed shard is corrupt after 0 lines; {REST_UNREAD}"
        )
        assert broken(shard_of(tmp_path / f"a{suffix}", RECORDS)) == (0, problem)

    def test_other_bytes_behind_the_end(self, tmp_path: Path, suffix: str) -> None:
        count, problem = broken(shard_of(tmp_path / f"a{suffix}", PACK[suffix](RECORDS) + b"junk!"))
        assert count == 50
        assert problem.message == f"the compressed shard is corrupt after 50 lines; {REST_UNREAD}"

    def test_zeros_behind_the_end_are_padding(self, tmp_path: Path, suffix: str) -> None:
        packed = PACK[suffix](RECORDS) + b"\0" * 512
        assert len(lines(shard_of(tmp_path / f"a{suffix}", packed))) == 50


@pytest.mark.parametrize("suffix", [".jsonl.gz", ".jsonl.zst"])
def test_memory_is_bounded_by_a_record_whatever_a_file_unpacks_to(
    tmp_path: Path, suffix: str
) -> None:
    size = 2**28
    shard = shard_of(tmp_path / f"a{suffix}", PACK[suffix](b"0" * size))
    tracemalloc.start()
    try:
        assert lines(shard) == [(0, "record_too_large")]
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < size / 2


def parquet(path: Path, table: pa.Table, **options: Any) -> Shard:
    pq.write_table(table, path, **options)
    return Shard(path.name, str(path))


class TestParquet:
    def test_rows_hold_the_keys_of_a_record(self, tmp_path: Path) -> None:
        message = {"role": "user", "content": "Hi."}
        table = pa.table(
            {
                "id": [1, 2],
                "messages": [[message], []],
                "other": ["x", "y"],
                "gold": [{"q": "a", "r": None}, None],
            }
        )
        assert lines(parquet(tmp_path / "a.parquet", table)) == [
            (0, {"id": 1, "messages": [message], "gold": {"q": "a", "r": None}}),
            (1, {"id": 2, "messages": [], "gold": None}),
        ]

    def test_rows_come_in_order_across_row_groups(self, tmp_path: Path) -> None:
        table = pa.table({"text": [str(n) for n in range(1000)]})
        shard = parquet(tmp_path / "a.parquet", table, row_group_size=7)
        assert lines(shard) == [(n, {"text": str(n)}) for n in range(1000)]

    def test_no_column_of_a_conversation(self, tmp_path: Path) -> None:
        shard = parquet(tmp_path / "a.parquet", pa.table({"id": [1, 2], "body": [CANARY] * 2}))
        assert broken(shard) == (
            0,
            ShardProblem(
                "missing_column",
                "the Parquet shard has none of the columns messages, conversations, state, text; "
                "its 2 rows were not read",
            ),
        )

    def test_bytes_are_text_where_they_are_utf8(self, tmp_path: Path) -> None:
        table = pa.table({"text": pa.array([b"caf\xc3\xa9", b"caf\xe9", b"x"], pa.binary())})
        found = lines(parquet(tmp_path / "a.parquet", table))
        assert found == [(0, {"text": "café"}), (1, "invalid_utf8"), (2, {"text": "x"})]

    def test_a_column_of_text_that_is_not_utf8(self, tmp_path: Path) -> None:
        column = pa.array([b"ok", b"caf\xe9", b"fine"], pa.binary()).view(pa.string())
        found = lines(parquet(tmp_path / "a.parquet", pa.table({"text": column})))
        assert found == [(0, {"text": "ok"}), (1, "invalid_utf8"), (2, {"text": "fine"})]

    def test_a_row_over_the_limit_costs_itself(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(shards, "MAX_RECORD_BYTES", 30)
        table = pa.table({"text": ["a", "b" * 40, "c"]})
        found = lines(parquet(tmp_path / "a.parquet", table))
        assert [seen for _, seen in found] == [{"text": "a"}, "record_too_large", {"text": "c"}]

    def test_no_rows(self, tmp_path: Path) -> None:
        table = pa.table({"text": pa.array([], pa.string())})
        assert broken(parquet(tmp_path / "a.parquet", table))[1].code == "empty_shard"

    def test_not_parquet_at_all(self, tmp_path: Path) -> None:
        problem = ShardProblem(
            "broken_shard", f"the Parquet shard is corrupt after 0 rows; {REST_UNREAD}"
        )
        assert broken(shard_of(tmp_path / "a.parquet", RECORDS)) == (0, problem)
        assert broken(shard_of(tmp_path / "b.parquet", b"")) == (0, problem)

    def test_damaged_in_the_middle(self, tmp_path: Path) -> None:
        table = pa.table({"text": [f"{CANARY} {n}" for n in range(1000)]})
        path = tmp_path / "a.parquet"
        shard = parquet(path, table, row_group_size=100, compression="zstd", use_dictionary=False)
        group = pq.ParquetFile(path).metadata.row_group(5).column(0)
        data = bytearray(path.read_bytes())
        start = group.data_page_offset
        data[start : start + group.total_compressed_size] = b"\xff" * group.total_compressed_size
        path.write_bytes(data)
        count, problem = broken(shard)
        assert problem.code == "broken_shard"
        assert 400 <= count <= 500

    def test_cut_off(self, tmp_path: Path) -> None:
        table = pa.table({"text": [CANARY] * 100})
        path = tmp_path / "a.parquet"
        shard = parquet(path, table)
        path.write_bytes(path.read_bytes()[:-30])
        assert broken(shard)[1].code == "broken_shard"
