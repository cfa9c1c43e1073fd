"""How far a run has got, for whoever shows it.

Work reports to the listeners of its own process. Work in other processes cannot reach them; there
the markers of finished parts tell.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

_listeners: list[Callable[[Progress], None]] = []


@dataclass(frozen=True, slots=True)
class Progress:
    """What was just done: records found in the input, reads answered, engine steps taken."""

    records_found: int = 0
    reads: int = 0
    steps: int = 0


def report(progress: Progress) -> None:
    """Tell every listener of this process."""
    for listener in list(_listeners):
        listener(progress)


@contextmanager
def listening(listener: Callable[[Progress], None]) -> Iterator[None]:
    """Call `listener` with all progress of this process while the block runs."""
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)
