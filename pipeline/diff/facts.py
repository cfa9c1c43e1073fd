"""What a run's fingerprint says, flat, and which factor each difference belongs to."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from pipeline.output.runs import Run

FACTORS: dict[str, tuple[str, ...]] = {
    "flag": ("single_pass_reads",),
    "dtype": ("dtype",),
    "batch shape": (
        "max_num_seqs",
        "max_num_batched_tokens",
        "enable_prefix_caching",
        "block_size",
    ),
    "label sets": ("joined_label_sets",),
    "machine": ("cpu_model", "cpu_features", "cpus", "machine_type", "memory_gib", "threads"),
    "engine": (
        "engine",
        "vllm_version",
        "torch_version",
        "transformers_version",
        "onepass_version",
        "compile",
        "preloaded",
    ),
    "model": ("model", "model_sha256", "tokenizer_sha256"),
}
"""Factor -> names of the fingerprint's facts that belong to it; what is in none is its own."""

_FACTOR_OF = {name: factor for factor, names in FACTORS.items() for name in names}

# Names of things, not things that can move a decision.
_NAMES_ONLY = {"name", "distinct_engines"}


def flat(fingerprint: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """Fingerprint as dotted names and text values, in order.

    A list of things with an id, such as rubrics, becomes one line for each: version and hash.

    >>> flat({"job": {"build": {"dtype": "bfloat16"}, "seed": 42}})
    {'job.build.dtype': 'bfloat16', 'job.seed': '42'}
    """
    found: dict[str, str] = {}
    for key, value in sorted(fingerprint.items()):
        name = f"{prefix}{key}"
        if isinstance(value, Mapping):
            found |= flat(value, f"{name}.")
        elif isinstance(value, list | tuple):
            things = [item for item in value if isinstance(item, Mapping) and "id" in item]
            found |= {f"{name}.{thing['id']}": _digest(thing) for thing in things}
            if not things:
                found[name] = " ".join(str(item) for item in value)
        else:
            found[name] = "" if value is None else str(value)
    return found


def _digest(thing: Mapping[str, Any]) -> str:
    digest = hashlib.sha256(json.dumps(thing, sort_keys=True).encode()).hexdigest()
    return f"version {thing.get('version', '–')}, {digest[:12]}"


def facts(run: Run) -> dict[str, str]:
    """Flat fingerprint of a run, with the release that made it."""
    fingerprint = run.fingerprint
    # The engine repeats the build that the job states.
    engine = {key: value for key, value in fingerprint["engine"].items() if key != "build"}
    release = run.row["onepass_version"]
    return flat({**fingerprint, "engine": engine, "onepass_version": release})


def differing_factors(first: Mapping[str, str], second: Mapping[str, str]) -> list[str]:
    """Factors in which two runs' facts differ, sorted; empty for a repeat of the same build."""
    found = set()
    for name in first.keys() | second.keys():
        leaf = name.rpartition(".")[2]
        if leaf not in _NAMES_ONLY and first.get(name, "") != second.get(name, ""):
            found.add("rubrics" if ".rubrics." in name else _FACTOR_OF.get(leaf, leaf))
    return sorted(found)
