"""`onepass rubric check` and `onepass rubric show`."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text
from tokenizers import Tokenizer

import engine.tiny
from pipeline.commands.options import framed
from rubrics.canvas import Canvas
from rubrics.compiler import CompiledRubric, Dialect, compile_rubric
from rubrics.encoding import TextEncoder
from rubrics.errors import RubricError
from rubrics.model import load_rubric

app = typer.Typer(help="Check rubrics and show how they are asked.", no_args_is_help=True)

EMBEDDED_TOKENIZER = Path(engine.tiny.__file__).parent / "tokenizer.json"


@dataclass(frozen=True)
class _Compiler:
    """Everything but the rubric that compiling takes."""

    encoder: TextEncoder
    dialect: Dialect
    canvas_length: int
    max_label_ids: int

    def compile(self, source: str) -> CompiledRubric:
        """A rubric that ships, or the one at a path; raises `RubricError`."""
        return compile_rubric(
            load_rubric(source),
            self.encoder,
            dialect=self.dialect,
            canvas_length=self.canvas_length,
            max_label_ids=self.max_label_ids,
        )


def _compiles(own: Callable[..., None]) -> Callable[..., None]:
    """A command that gets a `_Compiler` and whether to print JSON, then its own arguments."""

    def frame(
        *,
        tokenizer: Annotated[
            Path,
            typer.Option(help="The model's tokenizer.json, or its folder.", show_default=False),
        ] = EMBEDDED_TOKENIZER,
        dialect: Annotated[Dialect, typer.Option(help="How the rubric is phrased.")] = "lines",
        canvas_length: Annotated[
            int, typer.Option(min=2, help="Widest canvas the engine serves.")
        ] = 64,
        max_label_ids: Annotated[
            int, typer.Option(min=2, help="Most label ids one read may report.")
        ] = 128,
        as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
        **options: Any,
    ) -> None:
        compiler = _Compiler(_encoder(tokenizer), dialect, canvas_length, max_label_ids)
        own(compiler, as_json, **options)

    return framed(frame, own)


@app.command()
@_compiles
def check(
    compiler: _Compiler,
    as_json: bool,
    /,
    rubrics: Annotated[list[str], typer.Argument(help="Rubric files, or names of shipped ones.")],
) -> None:
    """Report every problem of every rubric at once; exit code 1 if there is one."""
    console = Console(highlight=False)
    failed = False
    for source in rubrics:
        try:
            compiled = compiler.compile(source)
        except RubricError as error:
            failed = True
            if as_json:
                typer.echo(json.dumps({"source": source, "ok": False, "problems": error.problems}))
            else:
                console.print(f"{source}: {len(error.problems)} problem(s)", style="bold red")
                for problem in error.problems:
                    console.print(f"  {problem}", markup=False)
            continue
        if as_json:
            typer.echo(json.dumps({"source": source, "ok": True, "problems": []}))
        else:
            console.print(f"{source}: {_summary(compiled)}", style="green", markup=False)
    if failed:
        raise typer.Exit(1)


@app.command()
@_compiles
def show(
    compiler: _Compiler,
    as_json: bool,
    /,
    rubric: Annotated[str, typer.Argument(help="A rubric file, or the name of a shipped one.")],
) -> None:
    """Show the prompt's rubric and each canvas: positions, tokens, slots and label ids."""
    encoder = compiler.encoder
    try:
        compiled = compiler.compile(rubric)
    except RubricError as error:
        for problem in error.problems:
            typer.echo(problem, err=True)
        raise typer.Exit(1) from error
    if as_json:
        typer.echo(json.dumps(_as_json(compiled, encoder), indent=2, ensure_ascii=False))
        return
    console = Console(highlight=False)
    console.print(f"{compiled.rubric.id}: {_summary(compiled)}", style="bold", markup=False)
    console.print(compiled.system_text, style="dim", markup=False)
    for stage, canvases in enumerate(compiled.stages, 1):
        for canvas in canvases:
            console.print(_canvas_table(canvas, encoder, stage))


def _encoder(path: Path) -> TextEncoder:
    file = path / "tokenizer.json" if path.is_dir() else path
    try:
        return TextEncoder(Tokenizer.from_file(str(file)))
    except RubricError as error:
        raise typer.BadParameter(f"{file}: {error}", param_hint="--tokenizer") from error
    except Exception as error:
        # `tokenizers` raises bare Exception for a missing file and for a broken one.
        raise typer.BadParameter(
            f"{file}: not a readable tokenizer.json: {error}", param_hint="--tokenizer"
        ) from error


def _summary(compiled: CompiledRubric) -> str:
    widths = ", ".join(str(canvas.width) for canvas in compiled.canvases)
    return (
        f"version {compiled.rubric.version}, {len(compiled.rubric.questions)} question(s), dialect "
        f"{compiled.dialect}, {len(compiled.stages)} stage(s), canvas width(s) {widths}, "
        f"{len(compiled.shared_prefix_ids)} prompt tokens before the conversation"
    )


def _canvas_table(canvas: Canvas, encoder: TextEncoder, stage: int) -> Table:
    table = Table(
        title=f"stage {stage}, width {canvas.width}, {len(canvas.label_ids)} label ids, "
        f"canvas {canvas.sha256[:12]}",
        title_justify="left",
    )
    for name in ("position", "id", "token", "slot of", "labels"):
        table.add_column(name, justify="right" if name in ("position", "id") else "left")
    slots = {slot.position: slot for slot in canvas.slots}
    end = canvas.template_ids.index(encoder.turn[1])
    for position, token_id in enumerate(canvas.template_ids[: end + 1]):
        slot = slots.get(position)
        cells = [str(position), str(token_id), repr(encoder.token(token_id))]
        if slot:
            labels = " ".join(f"{encoder.token(i)!r}={i}" for i in slot.label_ids)
            cells += [slot.question_id, labels]
        # Text, not str: tokens such as '[/b]' are no markup.
        table.add_row(*map(Text, cells), style="bold" if slot else "dim")
    table.caption = Text(f"then {canvas.width - end - 1} x {encoder.token(encoder.pad)}")
    return table


def _as_json(compiled: CompiledRubric, encoder: TextEncoder) -> dict[str, Any]:
    return {
        "rubric_id": compiled.rubric.id,
        "rubric_version": compiled.rubric.version,
        "dialect": compiled.dialect,
        "system_text": compiled.system_text,
        "shared_prefix_tokens": len(compiled.shared_prefix_ids),
        "canvases": [
            {
                "stage": stage,
                "width": canvas.width,
                "sha256": canvas.sha256,
                "template_ids": canvas.template_ids,
                "tokens": [encoder.token(token_id) for token_id in canvas.template_ids],
                "slots": [
                    {
                        "question_id": slot.question_id,
                        "position": slot.position,
                        "label_ids": slot.label_ids,
                        "labels": [encoder.token(token_id) for token_id in slot.label_ids],
                    }
                    for slot in canvas.slots
                ],
                "label_ids": canvas.label_ids,
            }
            for stage, canvases in enumerate(compiled.stages, 1)
            for canvas in canvases
        ],
    }
