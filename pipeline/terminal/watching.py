"""Shows on the terminal how far a run has got.

Finished parts are counted by their markers, which works whatever process writes them. What this
process reports (records found, reads answered) makes the display finer when the work runs here.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from pipeline import storage
from pipeline.deciding.progress import Progress as Done
from pipeline.deciding.progress import listening
from pipeline.output.runs import RunKey

_STARTING, _DECIDING = "Reading shards, starting the engine", "Deciding"
_SECONDS_BETWEEN_LINES = 5.0


class Watch:
    """Counts of one run, from its markers and from this process."""

    def __init__(self, output: str, key: RunKey) -> None:
        self._pattern = key.record_path(output, "parts", "*.json")
        self._seen: set[str] = set()
        self._lock = threading.Lock()
        self._started = time.monotonic()
        self._first_read: float | None = None
        self._reads_here = 0
        self._reads_in_markers = 0
        self.records_found = 0
        self.records = 0

    def listen(self, done: Done) -> None:
        """Take in what this process reports."""
        with self._lock:
            self.records_found += done.records_found
            self._reads_here += done.reads
            if done.reads and self._first_read is None:
                self._first_read = time.monotonic()

    def look(self) -> None:
        """Take in parts that were finished since the last look."""
        for path in storage.find(self._pattern):
            if path in self._seen:
                continue
            marker = json.loads(storage.read_bytes(path))
            with self._lock:
                self._seen.add(path)
                self.records += marker["counts"]["records"]
                if marker["copied_from"] is None:
                    self._reads_in_markers += int(marker["engine"].get("reads", 0))

    @property
    def reads(self) -> int:
        """Reads answered."""
        return max(self._reads_here, self._reads_in_markers)

    def line(self) -> str:
        """All of it in one line."""
        with self._lock:
            of = f" of {self.records_found:,}" if self.records_found else ""
            text = (
                f"{self.records:,}{of} records in {len(self._seen):,} parts, {self.reads:,} reads"
            )
            if self._first_read is not None:
                seconds = time.monotonic() - self._first_read
                # The first batch was answered when the clock started; a rate needs a while.
                if seconds > 1:
                    text += f", {self.reads / seconds:,.0f} reads/s"
            return text

    @property
    def phase(self) -> str:
        """What the run is doing, in words."""
        return _DECIDING if self.reads else _STARTING


@contextmanager
def watching(console: Console, output: str, key: RunKey) -> Iterator[None]:
    """Show the run's progress while the block runs: a bar on a terminal, else lines."""
    watch = Watch(output, key)
    stop = threading.Event()
    show = _show_bar if console.is_terminal else _show_lines
    thread = threading.Thread(target=show, args=(console, watch, stop), daemon=True)
    with listening(watch.listen):
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()


def _show_bar(console: Console, watch: Watch, stop: threading.Event) -> None:
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[line]}", style="dim"),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task(_STARTING, total=None, line="")
        while not stop.wait(0.3):
            watch.look()
            progress.update(
                task,
                description=watch.phase,
                total=watch.records_found or None,
                completed=watch.records,
                line=watch.line(),
            )


def _show_lines(console: Console, watch: Watch, stop: threading.Event) -> None:
    shown = ""
    while not stop.wait(_SECONDS_BETWEEN_LINES):
        watch.look()
        line = f"{watch.phase}: {watch.line()}"
        if line != shown:
            console.print(line, highlight=False)
            shown = line
