"""Where comparisons of an output folder are recorded; one without a record is unfinished."""

from __future__ import annotations

import json

from pipeline import storage

_FOLDER = "_comparisons"


def comparison_path(output: str, identity: str) -> str:
    """The record's file."""
    return storage.join(output, _FOLDER, f"{identity}.json")


def comparison_ids(output: str) -> list[str]:
    """Ids of finished comparisons under `output`, in no order of time."""
    paths = storage.find(storage.join(output, _FOLDER, "*.json"))
    return [path.rpartition("/")[2].removesuffix(".json") for path in paths]


def list_comparisons(output: str) -> list[str]:
    """Ids of finished comparisons under `output`, oldest first; reads their records."""

    def made_at(identity: str) -> str:
        record = json.loads(storage.read_bytes(comparison_path(output, identity)))
        return str(record["made_at"])

    return sorted(sorted(comparison_ids(output)), key=made_at)
