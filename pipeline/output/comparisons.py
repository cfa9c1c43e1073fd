"""Where comparisons of an output folder are recorded; one without a record is unfinished."""

from __future__ import annotations

import json

from pipeline import storage

_FOLDER = "_comparisons"


def comparison_path(output: str, identity: str) -> str:
    """The record's file."""
    return storage.join(output, _FOLDER, f"{identity}.json")


def list_comparisons(output: str) -> list[str]:
    """Ids of finished comparisons under `output`, oldest first."""
    paths = storage.find(storage.join(output, _FOLDER, "*.json"))
    made = [(json.loads(storage.read_bytes(path))["made_at"], path) for path in paths]
    return [path.rpartition("/")[2].removesuffix(".json") for _, path in sorted(made)]
