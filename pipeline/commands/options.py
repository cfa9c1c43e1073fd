"""Options that several commands share, written once: a frame takes them, and its commands only
their own."""

from __future__ import annotations

from collections.abc import Callable
from inspect import Parameter, Signature, signature
from typing import Any, TypeVar

T = TypeVar("T")


def framed(frame: Callable[..., T], own: Callable[..., Any]) -> Callable[..., T]:
    """`frame` as the command `own`, with the options of both.

    What `own` takes by position alone is no option: the frame hands it over. `own`'s options come
    in as the frame's `**options`, and stand in the help between those that the frame takes by
    position and those it takes by name.
    """
    shared = [p for p in _parameters(frame) if p.kind is not Parameter.VAR_KEYWORD]
    options = [p for p in _parameters(own) if p.kind is not Parameter.POSITIONAL_ONLY]
    before = [p for p in shared if p.kind is not Parameter.KEYWORD_ONLY]
    after = [p for p in shared if p.kind is Parameter.KEYWORD_ONLY]
    together = [p.replace(kind=Parameter.KEYWORD_ONLY) for p in (*before, *options, *after)]

    def command(**given: Any) -> T:
        return frame(**given)

    command.__name__, command.__doc__ = own.__name__, own.__doc__
    command.__signature__ = Signature(together)  # type: ignore[attr-defined]
    return command


def _parameters(function: Callable[..., Any]) -> list[Parameter]:
    return list(signature(function, eval_str=True).parameters.values())
