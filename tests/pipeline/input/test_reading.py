"""FindParts and ReadParts, through Beam's in-process runner."""

from __future__ import annotations

import gzip
import json
import logging
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import apache_beam as beam
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from google.cloud import storage

from pipeline.input import reading
from pipeline.input.conversations import Conversation, Rejected
from pipeline.input.parts import Part, Place
from pipeline.input.reading import FindParts, ReadParts
from pipeline.input.shards import REST_UNREAD, InputError, Shard
from tests.gcs import beam_uses, bucket, gcs_url
from tests.pipeline.eager import elements
from tests.pipeline.input.test_records import BAD_RECORDS, CANARY

__all__ = ["bucket", "gcs_url"]

Read = dict[str, tuple[Conversation | Rejected, ...]]


def parts_of(*patterns: str | Path, **arguments: Any) -> list[Part]:
    found = elements(FindParts([str(p) for p in patterns], **arguments))
    return sorted(found, key=lambda part: part.key)


def read(parts: Sequence[Part]) -> Read:
    found = elements(beam.Create(parts) | ReadParts())
    keys = [element.part.key for element in found]
    assert sorted(keys) == sorted(part.key for part in parts)
    return {element.part.key: element.records for element in found}


def read_all(*patterns: str | Path, **arguments: Any) -> list[Conversation | Rejected]:
    """Every outcome, in the order of the input."""
    parts = parts_of(*patterns, **arguments)
    found = read(parts)
    for part in parts:
        assert len(found[part.key]) == part.records + part.problems
    return [outcome for part in parts for outcome in found[part.key]]


def conversations(outcomes: Iterable[Conversation | Rejected]) -> list[Conversation]:
    return [outcome for outcome in outcomes if isinstance(outcome, Conversation)]


def rejected(outcomes: Iterable[Conversation | Rejected]) -> list[Rejected]:
    return [outcome for outcome in outcomes if isinstance(outcome, Rejected)]


def write(path: Path, records: Iterable[Any]) -> Path:
    """A shard of these records (bytes as they are), in the form its name says."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [r if isinstance(r, bytes) else json.dumps(r).encode() for r in records]
    data = b"".join(line + b"\n" for line in lines)
    if path.suffix == ".gz":
        data = gzip.compress(data)
    if path.suffix == ".zst":
        data = zstandard.ZstdCompressor().compress(data)
    path.write_bytes(data)
    return path


def texts(count: int) -> list[dict[str, Any]]:
    return [{"id": f"c{n}", "text": f"Conversation {n}."} for n in range(count)]


class TestParts:
    def test_a_part_is_a_block_of_lines(self, tmp_path: Path) -> None:
        write(tmp_path / "a.jsonl", [*texts(2), b"", b"", b"", *texts(3)[2:], b""])
        parts = parts_of(tmp_path / "*", records_per_part=2)
        assert [(p.key, p.start, p.records, p.problems) for p in parts] == [
            ("a.jsonl#00000", 0, 2, 0),
            ("a.jsonl#00002", 5, 1, 0),  # lines 2 and 3 are blank
        ]

    @pytest.mark.parametrize("records_per_part", [3, 1000])
    def test_all_forms_of_a_shard_give_the_same_conversations(
        self, tmp_path: Path, records_per_part: int
    ) -> None:
        for suffix in (".jsonl", ".jsonl.gz", ".jsonl.zst"):
            write(tmp_path / suffix[1:] / f"a{suffix}", texts(7))
        (tmp_path / "parquet").mkdir()
        pq.write_table(pa.Table.from_pylist(texts(7)), tmp_path / "parquet/a.parquet")
        expected = None
        for folder in ("jsonl", "jsonl.gz", "jsonl.zst", "parquet"):
            found = conversations(
                read_all(tmp_path / folder / "*", records_per_part=records_per_part)
            )
            found = [replace(conversation, source="a") for conversation in found]
            expected = expected or found
            assert found == expected
            assert [conversation.record_index for conversation in found] == list(range(7))

    def test_keys_follow_folders_and_files_are_named_apart(self, tmp_path: Path) -> None:
        for name in ("x/a.jsonl", "x-a.jsonl", "x/a-.jsonl", "ä/a.jsonl"):
            write(tmp_path / name, [{"text": "x"}])
        parts = parts_of(tmp_path / "*", tmp_path / "*/*")
        keys = ["x-a.jsonl#00000", "x/a-.jsonl#00000", "x/a.jsonl#00000", "ä/a.jsonl#00000"]
        assert [part.key for part in parts] == keys
        stems = {part.file_stem for part in parts}
        assert len(stems) == 4
        assert all(stem.isascii() and "/" not in stem and len(stem) < 100 for stem in stems)

    def test_nothing_matches_before_anything_starts(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match="no file matches"):
            FindParts([f"{tmp_path}/*.jsonl"])

    def test_an_empty_shard_is_a_part_with_one_error(self, tmp_path: Path) -> None:
        write(tmp_path / "a.jsonl", [])
        write(tmp_path / "b.jsonl", texts(1))
        outcomes = read_all(tmp_path / "*")
        assert rejected(outcomes) == [
            Rejected(
                "a.jsonl",
                None,
                None,
                None,
                "read",
                "empty_shard",
                "the shard holds no records; write it anew or remove it",
            )
        ]
        assert len(conversations(outcomes)) == 1

    def test_records_before_a_break_are_read(self, tmp_path: Path) -> None:
        path = write(tmp_path / "a.jsonl.gz", [{"text": f"{n * 7919**3}"} for n in range(20_000)])
        path.write_bytes(path.read_bytes()[:-2000])
        outcomes = read_all(path, records_per_part=5000)
        (error,) = rejected(outcomes)
        assert (error.code, error.record_index, error.stage) == ("broken_shard", None, "read")
        count = len(conversations(outcomes))
        assert (
            error.message == f"the compressed shard is cut off after {count:,} lines; {REST_UNREAD}"
        )
        assert count > 15_000


class TestDuplicates:
    @pytest.fixture
    def shards(self, tmp_path: Path) -> Path:
        ids = {"a.jsonl": "abca", "b.jsonl.gz": "dbb", "c.jsonl": "ad"}
        for name, letters in ids.items():
            write(tmp_path / name, [{"id": letter, "text": letter} for letter in letters])
        return tmp_path

    @pytest.mark.parametrize("records_per_part", [2, 1000])
    def test_the_first_of_an_id_counts(self, shards: Path, records_per_part: int) -> None:
        outcomes = read_all(shards / "*", records_per_part=records_per_part)
        kept = [(c.id, c.source, c.record_index) for c in conversations(outcomes)]
        assert kept == [
            ("a", "a.jsonl", 0),
            ("b", "a.jsonl", 1),
            ("c", "a.jsonl", 2),
            ("d", "b.jsonl.gz", 0),
        ]
        assert [(r.conversation_id, r.source, r.record_index) for r in rejected(outcomes)] == [
            ("a", "a.jsonl", 3),
            ("b", "b.jsonl.gz", 1),
            ("b", "b.jsonl.gz", 2),
            ("a", "c.jsonl", 0),
            ("d", "c.jsonl", 1),
        ]
        assert {r.code for r in rejected(outcomes)} == {"duplicate_id"}
        assert rejected(outcomes)[4].message == (
            "record 0 of b.jsonl.gz has this id already; make ids unique"
        )

    def test_a_rejected_record_does_not_take_its_id(self, tmp_path: Path) -> None:
        write(tmp_path / "a.jsonl", [{"id": "a", "text": ""}, {"id": "a", "text": "Hello."}])
        codes = [getattr(outcome, "code", "decided") for outcome in read_all(tmp_path / "*")]
        assert codes == ["empty_conversation", "decided"]

    def test_a_part_knows_its_duplicates_and_they_are_in_its_digest(self, shards: Path) -> None:
        before = {part.key: part for part in parts_of(shards / "*")}
        assert before["c.jsonl#00000"].duplicates == (
            (0, Place("a.jsonl", 0)),
            (1, Place("b.jsonl.gz", 0)),
        )
        write(shards / "0.jsonl", [{"id": "c", "text": "Earlier by name."}])
        after = {part.key: part for part in parts_of(shards / "*")}
        changed = {key for key, part in before.items() if after[key].digest != part.digest}
        assert changed == {"a.jsonl#00000"}  # its third record lost its id to the new shard


class TestResuming:
    def test_parts_are_the_same_every_time(self, tmp_path: Path) -> None:
        for name in ("a.jsonl", "b.jsonl.gz", "c.jsonl.zst"):
            write(tmp_path / name, texts(10))
        first = parts_of(tmp_path / "*", records_per_part=3)
        assert parts_of(tmp_path / "*", records_per_part=3) == first
        assert len({part.digest for part in first}) == len(first) == 12

    def test_any_subset_of_parts_can_be_read(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(reading, "PARTS_PER_PASS", 2)
        for name in ("a.jsonl", "b.jsonl.gz", "c.jsonl.zst"):
            write(tmp_path / name, [{"text": f"{name} {n}"} for n in range(10)])
        pq.write_table(pa.Table.from_pylist(texts(10)), tmp_path / "d.parquet")
        parts = parts_of(tmp_path / "*", records_per_part=3)
        whole = read(parts)
        for wanted in (parts[1::2], parts[::3], parts[-1:]):
            assert read(wanted) == {part.key: whole[part.key] for part in wanted}

    def test_a_longer_shard_leaves_its_full_parts_as_they_are(self, tmp_path: Path) -> None:
        path = write(tmp_path / "a.jsonl", texts(5))
        before = parts_of(path, records_per_part=2)
        write(path, texts(7))
        after = parts_of(path, records_per_part=2)
        assert [part.digest for part in after[:2]] == [part.digest for part in before[:2]]
        assert after[2].digest != before[2].digest
        assert len(after) == 4

    @pytest.mark.parametrize(
        ("name", "records"),
        [("a.jsonl", texts(4)), ("a.jsonl", texts(3)), ("a.jsonl.gz", []), ("a.parquet", texts(4))],
    )
    def test_a_shard_that_changes_meanwhile_fails_the_run(
        self, tmp_path: Path, name: str, records: list[Any]
    ) -> None:
        def put(rows: list[Any]) -> None:
            if name.endswith(".parquet"):
                columns = {key: [row[key] for row in rows] for key in ("id", "text")}
                pq.write_table(pa.table(columns), tmp_path / name)
            else:
                write(tmp_path / name, rows)

        put(texts(4))
        parts = parts_of(tmp_path / name)
        assert len(read(parts)) == 1
        put([{**record, "text": "Other words."} for record in records])
        with pytest.raises(Exception, match="changed while it was read"):
            read(parts)


class TestLimit:
    @pytest.mark.parametrize("limit", [1, 4, 7, 99])
    def test_the_first_records_by_name_and_place(self, tmp_path: Path, limit: int) -> None:
        for name in ("a.jsonl", "b.jsonl.gz", "c.jsonl"):
            write(tmp_path / name, [{"text": f"{name} {n}"} for n in range(4)])
        whole = read_all(tmp_path / "*", records_per_part=3)
        assert read_all(tmp_path / "*", records_per_part=3, limit=limit) == whole[:limit]

    def test_a_part_cut_short_is_another_part(self, tmp_path: Path) -> None:
        write(tmp_path / "a.jsonl", texts(4))
        write(tmp_path / "b.jsonl", texts(4))
        whole = {part.key: part.digest for part in parts_of(tmp_path / "*")}
        cut = {part.key: part.digest for part in parts_of(tmp_path / "*", limit=6)}
        assert cut.keys() == whole.keys()
        assert cut["a.jsonl#00000"] == whole["a.jsonl#00000"]
        assert cut["b.jsonl#00000"] != whole["b.jsonl#00000"]

    def test_a_limit_reads_no_further_than_it_must(self, tmp_path: Path) -> None:
        path = write(tmp_path / "a.jsonl.gz", [{"text": f"{n * 7919**3}"} for n in range(20_000)])
        path.write_bytes(path.read_bytes()[:-2000])
        assert not rejected(read_all(path, limit=5))


class TestBadInput:
    def test_every_bad_record_costs_itself_and_nothing_is_said_of_its_text(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.DEBUG)
        good = [{"text": f"{CANARY} {n}"} for n in range(len(BAD_RECORDS))]
        bad = [r if isinstance(r, bytes) else json.dumps(r).encode() for _, r, _, _ in BAD_RECORDS]
        mixed = [record for pair in zip(good, bad, strict=True) for record in pair]
        write(tmp_path / "a.jsonl", mixed)
        outcomes = read_all(tmp_path / "*", records_per_part=10)
        assert [outcome.record_index for outcome in outcomes] == list(range(2 * len(bad)))
        assert all(isinstance(outcome, Conversation) for outcome in outcomes[::2])
        codes = Counter(outcome.code for outcome in outcomes[1::2] if isinstance(outcome, Rejected))
        assert codes == Counter(code for _, _, code, _ in BAD_RECORDS)
        assert CANARY not in repr(rejected(outcomes))
        assert CANARY not in caplog.text

    def test_bad_shards_are_told_apart(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.DEBUG)
        text = json.dumps({"text": CANARY}).encode() + b"\n"
        (tmp_path / "broken.jsonl.gz").write_bytes(text)
        (tmp_path / "broken.parquet").write_bytes(text * 100)
        (tmp_path / "cut.jsonl.zst").write_bytes(zstandard.ZstdCompressor().compress(text)[:-3])
        (tmp_path / "empty.jsonl").write_bytes(b"\n")
        (tmp_path / "good.jsonl").write_bytes(text)
        pq.write_table(pa.table({"body": [CANARY]}), tmp_path / "missing.parquet")
        outcomes = read_all(tmp_path / "*")
        assert [(r.source, r.code) for r in rejected(outcomes)] == [
            ("broken.jsonl.gz", "broken_shard"),
            ("broken.parquet", "broken_shard"),
            ("cut.jsonl.zst", "broken_shard"),
            ("empty.jsonl", "empty_shard"),
            ("missing.parquet", "missing_column"),
        ]
        assert len(conversations(outcomes)) == 1
        assert CANARY not in repr(rejected(outcomes))
        assert CANARY not in caplog.text

    def test_a_rubric_the_job_does_not_have(self, tmp_path: Path) -> None:
        write(tmp_path / "a.jsonl", [{"text": "x", "rubrics": ["tone"]}])
        path = [str(tmp_path / "*")]
        known = frozenset({"triage"})
        (element,) = elements(FindParts(path, rubric_ids=known) | ReadParts(known))
        assert [outcome.code for outcome in element.records] == ["unknown_rubric"]


def test_shards_in_a_bucket(
    bucket: storage.Bucket, gcs_url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    beam_uses(gcs_url, monkeypatch)
    for name in ("x/a.jsonl", "x/b.jsonl.gz", "y/c.jsonl.zst"):
        write(tmp_path / name, [{"text": f"{name} {n}"} for n in range(5)])
        bucket.blob(f"in/{name}").upload_from_filename(str(tmp_path / name))
    pq.write_table(pa.Table.from_pylist(texts(5)), tmp_path / "d.parquet")
    bucket.blob("in/y/d.parquet").upload_from_filename(str(tmp_path / "d.parquet"))
    root = f"gs://{bucket.name}/in"
    outcomes = read_all(f"{root}/x/*", f"{root}/y/*", records_per_part=2)
    sources = Counter(conversation.source for conversation in conversations(outcomes))
    assert sources == {"x/a.jsonl": 5, "x/b.jsonl.gz": 5, "y/c.jsonl.zst": 5, "y/d.parquet": 5}
    with pytest.raises(InputError, match="no file matches"):
        FindParts([f"{root}/z/*"])


def test_the_digest_covers_what_rows_follow_from() -> None:
    part = Part(Shard("a.jsonl", "in/a.jsonl"), 0, 0, 0, 3, 0, "abc")
    moved = replace(part, shard=Shard("a.jsonl", "elsewhere/a.jsonl"), offset=3)
    assert moved.digest == part.digest
    for change in (
        {"content_sha256": "abd"},
        {"records": 2},
        {"problems": 1},
        {"duplicates": ((0, Place("0.jsonl", 1)),)},
        {"shard": Shard("b.jsonl", "in/a.jsonl")},
    ):
        assert replace(part, **change).digest != part.digest
