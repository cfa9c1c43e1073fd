"""Options that several commands share, written once."""

from __future__ import annotations

from collections.abc import Callable
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

T = TypeVar("T")

JobArgument = Annotated[str, typer.Argument(help="A job that ships, or the path of one.")]
BuildOption = Annotated[str | None, typer.Option(help="Build instead of the job's.")]
LimitOption = Annotated[int | None, typer.Option(min=1, help="Only the first N records.")]
MachinesOption = Annotated[
    Path | None,
    typer.Option("--machines", help="Your own prices and speeds instead of machines.yaml."),
]
VerboseOption = Annotated[bool, typer.Option("--verbose", help="Show the log.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]


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
