"""`onepass report --bench`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.pipeline.command_line import onepass


def test_a_benchmark_becomes_a_page(tmp_path: Path) -> None:
    result, page = tmp_path / "cost.json", tmp_path / "page" / "bench.html"
    assert onepass("bench", "cost", "--output", str(result)) == 0
    assert onepass("report", "--bench", str(result), "--file", str(page)) == 0
    text = page.read_text(encoding="utf-8")
    assert text.startswith("<!doctype html>")
    assert "<svg" in text


def test_a_file_that_is_no_result_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "not.json"
    path.write_text("{}", encoding="utf-8")
    assert onepass("report", "--bench", str(path)) == 2
    assert "no benchmark result" in capsys.readouterr().err
