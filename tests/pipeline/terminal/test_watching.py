from __future__ import annotations

import time
from pathlib import Path

import pytest
from rich.console import Console

from pipeline.deciding.progress import Progress, listening, report
from pipeline.output.runs import RunKey
from pipeline.terminal import watching
from pipeline.terminal.watching import Watch
from tests.pipeline.synthetic import decision, write_run

KEY = RunKey("2026-01-02", "baseline", "r1")


def written(folder: Path) -> str:
    """A run of two parts with a decision each."""
    decided = [decision(f"c{i}", "q", {"a": 0.6, "b": 0.4}) for i in range(2)]
    write_run(str(folder), decided, run_id="r1", parts=2)
    return str(folder)


def test_parts_are_counted_by_their_markers_once(tmp_path: Path) -> None:
    watch = Watch(written(tmp_path), KEY)
    assert watch.phase == "Reading shards, starting the engine"
    watch.look()
    watch.look()
    assert (watch.records, watch.reads) == (2, 2)
    assert watch.line() == "2 records in 2 parts, 2 reads"
    assert watch.phase == "Deciding"


def test_reports_of_this_process_make_it_finer(tmp_path: Path) -> None:
    watch = Watch(str(tmp_path), KEY)
    with listening(watch.listen):
        report(Progress(records_found=1000))
        report(Progress(reads=64, steps=4))
    report(Progress(reads=64))  # nobody listens any more
    assert watch.line() == "0 of 1,000 records in 0 parts, 64 reads"


@pytest.mark.parametrize("terminal", [True, False])
def test_progress_is_visible_on_terminals_and_elsewhere(
    tmp_path: Path, terminal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "_SECONDS_BETWEEN_LINES", 0.05)
    output = written(tmp_path / "out")
    with open(tmp_path / "shown", "w", encoding="utf-8") as file:
        console = Console(file=file, force_terminal=terminal, width=120)
        with watching.watching(console, output, KEY):
            report(Progress(records_found=2, reads=2))
            time.sleep(0.6)
    shown = (tmp_path / "shown").read_text(encoding="utf-8")
    assert "Deciding" in shown
    assert "2 of 2 records in 2 parts" in shown
