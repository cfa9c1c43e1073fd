from __future__ import annotations

import os
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from pipeline import storage
from pipeline.output.runs import RunKey
from pipeline.output.tables import DECISIONS, ERRORS, OPTION_PROBABILITIES, TABLES
from pipeline.output.writing import PartMarker, encode, read_marker, write_marker, write_table
from tests.pipeline.synthetic import decision

KEY = RunKey("2026-01-02", "tiny", "r1")


def error(source: str, index: int | None, rubric: str | None = None) -> dict:
    return {
        "source": source,
        "record_index": index,
        "conversation_id": None,
        "rubric_id": rubric,
        "stage": "parse",
        "code": "broken",
        "message": "broken",
    }


def test_rows_are_sorted_and_bytes_do_not_depend_on_their_order(tmp_path: Path) -> None:
    rows = [decision(f"c{i}", "q", {"a": 0.6, "b": 0.4}).decision for i in range(5)]
    assert encode(DECISIONS, rows) == encode(DECISIONS, rows[::-1])
    file = write_table(str(tmp_path), KEY, "decisions", "part-0", rows[::-1])
    read = pq.read_table(tmp_path / file.path, partitioning=None)
    assert read.schema == DECISIONS.schema
    assert read["conversation_id"].to_pylist() == [f"c{i}" for i in range(5)]
    assert (
        pq.ParquetFile(tmp_path / file.path).metadata.row_group(0).column(0).compression == "ZSTD"
    )
    assert (file.rows, file.bytes) == (5, (tmp_path / file.path).stat().st_size)


def test_missing_values_sort_first() -> None:
    rows = [error("b", 3), error("a", 7), error("a", None), error("a", 7, "r")]
    assert encode(ERRORS, rows) == encode(ERRORS, [rows[2], rows[1], rows[3], rows[0]])


@pytest.mark.parametrize("table", sorted(TABLES))
def test_every_table_can_be_empty(table: str, tmp_path: Path) -> None:
    file = write_table(str(tmp_path), KEY, table, "part-0", [])
    assert pq.read_table(tmp_path / file.path, partitioning=None).schema == TABLES[table].schema


def test_a_row_that_does_not_fit_the_schema_is_refused() -> None:
    row = decision("c", "q", {"a": 0.6, "b": 0.4}).decision
    with pytest.raises(ValueError, match=r"decisions: a row lacks or adds the columns \['x'\]"):
        encode(DECISIONS, [row | {"x": 1}])
    with pytest.raises(ValueError, match=r"lacks or adds.*margin"):
        encode(DECISIONS, [{k: v for k, v in row.items() if k != "margin"}])
    with pytest.raises(ValueError, match="column question_id misses a value"):
        encode(DECISIONS, [row | {"question_id": None}])
    option = decision("c", "q", {"a": 0.6, "b": 0.4}).options[0]
    with pytest.raises(ValueError, match="label_token_id holds a fraction"):
        encode(OPTION_PROBABILITIES, [option | {"label_token_id": 1.5}])


def test_a_marker_survives_the_round_trip(tmp_path: Path) -> None:
    out = str(tmp_path)
    file = write_table(out, KEY, "errors", "part-0", [error("a", 1)])
    marker = PartMarker("part-0", "d", (file,), {"records": 1}, {"steps": 2}, {"cpu": "x"}, "r0")
    assert read_marker(out, KEY, "part-0") is None
    write_marker(out, KEY, marker)
    assert read_marker(out, KEY, "part-0") == marker


def test_an_interrupted_write_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "deep" / "file.bin"
    storage.write_atomic(str(path), b"old")

    def interrupted(descriptor: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupted)
    with pytest.raises(KeyboardInterrupt):
        storage.write_atomic(str(path), b"new")
    assert path.read_bytes() == b"old"
    assert list(path.parent.iterdir()) == [path]


def test_leftovers_of_a_killed_process_are_removed(tmp_path: Path) -> None:
    storage.write_atomic(str(tmp_path / "a" / "kept.parquet"), b"x")
    (tmp_path / "a" / ".unfinished-123").write_bytes(b"half")
    assert storage.remove_leftovers(str(tmp_path)) == 1
    assert [p.name for p in (tmp_path / "a").iterdir()] == ["kept.parquet"]


def test_missing_files_are_an_error_locally() -> None:
    with pytest.raises(FileNotFoundError):
        storage.read_bytes("/no/such/file")
    assert storage.find("/no/such/*") == []
