"""What a run's fingerprint says, flat, and which factor each difference belongs to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pipeline.runs import Run

FACTORS: dict[str, tuple[str, ...]] = {
    "flag": ("single_pass_reads",),
    "dtype": ("dtype",),
    "batch shape": (
        "max_num_seqs",
        "max_num_batched_tokens",
        "enable_prefix_caching",
        "block_size",
        "batch_size",
        "max_batch_size",
        "min_batch_size",
    ),
    "label sets": ("joined_label_sets",),
    "machine": ("cpu_model", "cpu_features", "machine_type", "threads", "memory_gib"),
    "engine": (
        "vllm_version",
        "torch_version",
        "transformers_version",
        "onepass_version",
        "plugin_version",
        "python_version",
        "compile",
    ),
    "model": ("model", "model_sha256", "tokenizer_sha256"),
}
"""Factor -> names of the fingerprint's facts that belong to it; what is in none is its own."""

_FACTOR_OF = {name: factor for factor, names in FACTORS.items() for name in names}

# Names of things, not things that can move a decision.
_NAMES_ONLY = {"name", "distinct_engines"}


def flat(fingerprint: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """Fingerprint as dotted names and text values, in order.

    >>> flat({"job": {"build": {"dtype": "bfloat16"}}})
    {'job.build.dtype': 'bfloat16'}
    """
    found: dict[str, str] = {}
    for key, value in sorted(fingerprint.items()):
        if isinstance(value, Mapping):
            found |= flat(value, f"{prefix}{key}.")
        elif isinstance(value, list | tuple):
            found[f"{prefix}{key}"] = " ".join(str(v) for v in value)
        else:
            found[f"{prefix}{key}"] = "" if value is None else str(value)
    return found


def facts(run: Run) -> dict[str, str]:
    """Flat fingerprint of a run, with the release that made it."""
    return flat({**run.fingerprint, "onepass_version": run.row["onepass_version"]})


def differing_factors(first: Mapping[str, str], second: Mapping[str, str]) -> list[str]:
    """Factors in which two runs' facts differ, sorted; empty for a repeat of the same build."""
    found = set()
    for name in first.keys() | second.keys():
        leaf = name.rpartition(".")[2]
        if leaf not in _NAMES_ONLY and first.get(name, "") != second.get(name, ""):
            found.add(_FACTOR_OF.get(leaf, leaf))
    return sorted(found)
