"""The `onepass` command: one module of `pipeline.commands` per command."""

from __future__ import annotations

import typer

from pipeline.commands import diff, import_, rubric

app = typer.Typer(
    name="onepass",
    help="Decide about conversations in bulk: a probability for every option of every question.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_show_locals=False,
)
app.add_typer(rubric.app, name="rubric")
app.add_typer(import_.app, name="import")
app.command()(diff.diff)


def main() -> None:
    """Entry point of the installed command."""
    app()


if __name__ == "__main__":
    main()
