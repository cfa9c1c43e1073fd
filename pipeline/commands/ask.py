"""`onepass ask`: decide one conversation and show the probabilities."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from pipeline.commands.options import JsonOption, VerboseOption

if TYPE_CHECKING:
    from pipeline.deciding.answering import DecidedPart
    from pipeline.deciding.inference import EngineSource

_BAR = 30


def ask(
    rubric: Annotated[str, typer.Argument(help="A rubric that ships, or the path of one.")],
    text: Annotated[
        str, typer.Argument(help="What the user says; - reads it from standard input.")
    ] = "-",
    build: Annotated[str, typer.Option(help="Build that decides: name or path.")] = "single_pass",
    samples: Annotated[int, typer.Option(min=1, max=32, help="Draws to average.")] = 1,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the canvas noise.")] = 42,
    verbose: VerboseOption = False,
    as_json: JsonOption = False,
) -> None:
    """Decide one conversation under a rubric and show the probability of every option."""
    content = _standard_input() if text == "-" else text
    console = Console(stderr=True, highlight=False)
    from pipeline.terminal.quiet import log_level

    with log_level(verbose), console.status("Starting the engine"):
        decided = decide_text(rubric, content, build=build, samples=samples, seed=seed)
    errors = decided.tables["errors"]
    if as_json:
        tables = {name: decided.tables[name] for name in ("decisions", "option_probabilities")}
        typer.echo(json.dumps({**tables, "errors": errors}, indent=1, default=str))
    elif decided.tables["decisions"]:
        show(decided, Console(highlight=False))
    for error in errors:
        console.print(f"{error['code']}: {error['message']}", style="red", markup=False)
    if errors:
        raise typer.Exit(1)


def _standard_input() -> str:
    try:
        return sys.stdin.buffer.read().decode()
    except UnicodeDecodeError as error:
        raise typer.BadParameter(
            f"standard input is not UTF-8 from byte {error.start} on; convert it"
        ) from None


def decide_text(
    rubric: str,
    content: str,
    *,
    build: str,
    samples: int = 1,
    seed: int = 42,
    source: EngineSource | None = None,
) -> DecidedPart:
    """Decide a conversation of one user message; raises ConfigError, RubricError."""
    from engine.checkpoints import resolve
    from pipeline.deciding.answering import Decider
    from pipeline.deciding.inference import EngineSource, SharedEngine
    from pipeline.deciding.planning import PlanSettings, plan_part
    from pipeline.deciding.spec import compile_rubrics
    from pipeline.input.conversations import Conversation, Message
    from pipeline.jobs.config import load_build, load_rubrics

    source = source or EngineSource()
    loaded = load_build(build)
    rubrics = load_rubrics([rubric])
    checkpoint = resolve(loaded.model)
    compiled = compile_rubrics(rubrics, checkpoint, loaded, "lines")
    settings = PlanSettings(samples, seed, "reject", loaded.max_model_len)
    conversation = Conversation("ask", (Message("user", content),), source="ask")
    part = plan_part("ask", "", [conversation], compiled, settings)
    decider = Decider(compiled, settings, checkpoint.vocab_size, loaded.max_num_seqs, source.clock)
    engine = SharedEngine(lambda: source.start(loaded))
    try:
        return decider.decide(part, engine)
    finally:
        engine.close()


def show(decided: DecidedPart, console: Console) -> None:
    """Every question with a bar for every option."""
    options: dict[str, list[dict[str, Any]]] = {}
    for row in decided.tables["option_probabilities"]:
        options.setdefault(row["question_id"], []).append(row)
    table = Table(box=None, pad_edge=False)
    for name, justify in (("question", "left"), ("option", "left"), ("", "left"), ("p", "right")):
        table.add_column(name, justify=justify)  # type: ignore[arg-type]
    for decision in decided.tables["decisions"]:
        question = decision["question_id"]
        if decision["skipped_because"]:
            table.add_row(question, f"not asked, because of {decision['skipped_because']}")
        for index, option in enumerate(options.get(question, [])):
            table.add_row(
                "" if index else question,
                option["option"],
                bar(option["probability"], _BAR),
                f"{option['probability']:.3f}",
                style="bold green" if option["is_decision"] else "dim",
            )
        table.add_section()
    console.print(table)


def bar(share: float, width: int) -> str:
    """A bar of `share` of `width` characters, in eighths of a character.

    >>> bar(0.5, 4), bar(1, 2)
    ('██', '██')
    """
    eighths = round(share * width * 8)
    rest = " ▏▎▍▌▋▊▉"[eighths % 8].strip()
    return "█" * (eighths // 8) + rest
