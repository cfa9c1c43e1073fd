"""This project's engine, as a pipeline's worker runs it."""

from __future__ import annotations

from typing import Any

from engine.builds import Build
from engine.engine import DecisionEngine


class OnepassEngine(DecisionEngine):
    """A `DecisionEngine` that tells how it is configured."""

    def __init__(self, build: Build) -> None:
        super().__init__(build)

    def forget(self) -> None:
        self.reset_prefix_cache()

    def configuration(self) -> dict[str, Any]:
        return self.build.model_dump(mode="json")
