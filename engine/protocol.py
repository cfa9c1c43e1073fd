"""The contract every engine keeps, real or fake; `tests/engine/contract.py` holds both to it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from engine.reads import EngineCounters, Read, ReadResult


class Engine(Protocol):
    """Answers reads.

    `read` returns exactly one result per read, in order. A read the engine cannot accept costs
    its own result (`error`), never its neighbours'. A dead engine raises `EngineDeadError`, from
    then on at every call. Calls from several threads are serialised.
    """

    def read(self, reads: Sequence[Read]) -> list[ReadResult]: ...

    def counters(self) -> EngineCounters: ...

    def fingerprint(self) -> dict[str, Any]:
        """JSON-serialisable facts that can move a decision: versions, flags, dtype, hashes, CPU."""
        ...

    def close(self) -> None: ...
