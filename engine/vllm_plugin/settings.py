"""What is switched on, from vLLM's `additional_config` or the environment.

vLLM hands `--additional-config` to plugins unread:

    vllm serve MODEL --additional-config '{"onepass": {"single_pass_reads": true}}'

`ONEPASS_VLLM` holds the same JSON object (the value of `onepass`) for programs whose vLLM
arguments are out of reach. `additional_config` wins.
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Mapping
from typing import Any

CONFIG_KEY = "onepass"
ENVIRONMENT_VARIABLE = "ONEPASS_VLLM"


@dataclasses.dataclass(frozen=True, slots=True)
class Settings:
    """The plugin's switches, all off by default.

    Attributes:
        single_pass_reads: an eligible read runs in one engine step instead of two.
        joined_label_sets: a step whose reads have different labels computes logits of the union
            of their labels, instead of the whole vocabulary.
        canvas_only_last_layer: the last layer computes keys and values of all positions, and the
            rest of itself for canvas positions only.
    """

    single_pass_reads: bool = False
    joined_label_sets: bool = False
    canvas_only_last_layer: bool = False


def read_settings(additional_config: Any) -> Settings:
    """The settings in vLLM's `additional_config`, else in the environment, else all off.

    Raises `ValueError` for unknown names, values that are not booleans, and broken JSON.
    """
    if isinstance(additional_config, Mapping) and CONFIG_KEY in additional_config:
        return _parse(additional_config[CONFIG_KEY], f"additional_config[{CONFIG_KEY!r}]")
    text = os.environ.get(ENVIRONMENT_VARIABLE)
    if not text:
        return Settings()
    try:
        values = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"{ENVIRONMENT_VARIABLE}={text!r} is not JSON: {error}") from None
    return _parse(values, ENVIRONMENT_VARIABLE)


def _parse(values: Any, source: str) -> Settings:
    names = [field.name for field in dataclasses.fields(Settings)]
    if not isinstance(values, Mapping):
        raise ValueError(f"{source} is {values!r}; use an object with {', '.join(names)}")
    for name, value in values.items():
        if name not in names:
            raise ValueError(f"{source} has {name!r}; known are {', '.join(names)}")
        if not isinstance(value, bool):
            raise ValueError(f"{source} sets {name} to {value!r}; use true or false")
    return Settings(**values)
