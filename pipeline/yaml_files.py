"""YAML files of configuration -> pydantic models, with every problem named by file and key."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from pipeline import storage

Model = TypeVar("Model", bound=BaseModel)


class ConfigError(ValueError):
    """Configuration that cannot be used.

    Attributes:
        problems: everything that is wrong, each with file and key.
    """

    def __init__(self, problems: list[str]) -> None:
        self.problems = problems
        super().__init__("\n".join(problems))


class _Loader(yaml.SafeLoader):
    """YAML in which a key that appears twice is an error, not a silent choice."""


def _mapping(loader: _Loader, node: yaml.MappingNode) -> dict[Hashable, Any]:
    found: dict[Hashable, Any] = {}
    for key_node, value_node in node.value:
        key = loader.construct_object(key_node, deep=True)
        if not isinstance(key, str) or key in found:
            what = f"key {key} appears twice" if isinstance(key, str) else f"key {key} is not text"
            raise yaml.constructor.ConstructorError(None, None, what, key_node.start_mark)
        found[key] = loader.construct_object(value_node, deep=True)
    return found


_Loader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _mapping)


def load_mapping(path: str) -> dict[str, Any]:
    """The mapping a YAML file (local or `gs://`) holds; raises ConfigError."""
    try:
        found = yaml.load(storage.read_bytes(path).decode("utf-8"), Loader=_Loader)
    except OSError as error:
        raise ConfigError([f"{path}: cannot be read: {error.strerror or 'no such file'}"]) from None
    except UnicodeDecodeError as error:
        raise ConfigError([f"{path}: not UTF-8 at byte {error.start}; save it as UTF-8"]) from None
    except yaml.YAMLError as error:
        reason = " ".join(str(error).split())
        raise ConfigError([f"{path}: not valid YAML: {reason}"]) from None
    if not isinstance(found, dict):
        raise ConfigError([f"{path}: must be a mapping of keys to values"])
    return found


def validated(
    model: type[Model],
    values: Mapping[str, Any],
    path: str,
    overrides: frozenset[str] = frozenset(),
) -> Model:
    """The model of these values; raises ConfigError.

    `path` names the file in problems; `overrides` are keys that did not come from it.
    """
    try:
        return model.model_validate(values)
    except ValidationError as error:
        problems = []
        for problem in error.errors(include_url=False):
            key = ".".join(str(step) for step in problem["loc"])
            source = "override" if key.split(".")[0] in overrides else path
            problems.append(f"{source}: {_describe(key, problem)}")
        raise ConfigError(problems) from None


def _describe(key: str, problem: Any) -> str:
    if problem["type"] == "missing":
        return f"{key}: is missing; add it"
    if problem["type"] == "extra_forbidden":
        return f"{key}: unknown key; remove it or correct its spelling"
    reason = problem["msg"].removeprefix("Value error, ")
    if not key:
        return str(reason)
    return f"{key}: {reason} (it is {problem['input']!r})"
