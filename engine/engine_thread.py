"""One thread that does all of an engine's work.

OpenMP keeps a pool of threads per thread that enters a parallel region: were callers to take turns
under a lock, each would bring its own pool, and reads would take a third longer.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from engine.reads import EngineDeadError

T = TypeVar("T")


class EngineThread:
    """Runs what `call` is given, one after another, always on the same thread.

    A daemon: a process that forgets to `stop` it can still exit.
    """

    def __init__(self, name: str) -> None:
        self._jobs: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None]
        self._jobs = queue.SimpleQueue()
        self._stopped = threading.Event()
        self._gate = threading.Lock()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def call(self, job: Callable[[], T]) -> T:
        """Run `job` on the thread; its result or its exception. Callable from any thread.

        Raises `EngineDeadError` once `stop` was called.
        """
        future: Future[T] = Future()
        with self._gate:
            if self._stopped.is_set():
                raise EngineDeadError("the engine was closed")
            self._jobs.put((future, job))
        return future.result()

    def stop(self) -> None:
        """Finish the jobs handed in so far and end the thread. Repeatable."""
        with self._gate:
            if self._stopped.is_set():
                return
            self._stopped.set()
            self._jobs.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (item := self._jobs.get()) is not None:
            future, job = item
            try:
                future.set_result(job())
            except BaseException as error:  # the caller's, whatever it is
                future.set_exception(error)
