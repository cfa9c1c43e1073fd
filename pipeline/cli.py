"""The `onepass` command: one module of `pipeline.commands` per command.

Exit codes: 0 done; 1 failed, or a gate not met; 2 wrong usage or configuration. The modules are
light to import; what a command needs (Beam, DuckDB, the engine) loads when it runs.
"""

from __future__ import annotations

import sys

import typer

from engine.checkpoints import CheckpointError
from engine.environment import yield_waiting_threads
from pipeline.commands import (
    ask,
    bench,
    demo,
    diff,
    doctor,
    import_,
    launch,
    plan,
    query,
    report,
    rubric,
    run,
    train_tiny,
)
from pipeline.output.runs import RunNotFoundError
from pipeline.yaml_files import ConfigError
from rubrics.errors import RubricError

WRONG_USAGE = 2

app = typer.Typer(
    name="onepass",
    help="Decide about conversations in bulk: a probability for every option of every question.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_show_locals=False,
)
app.command("demo")(demo.demo)
app.command("ask")(ask.ask)
app.command("run", context_settings=run.BEAM_FLAGS_PASS)(run.run)
app.command("diff", context_settings=run.BEAM_FLAGS_PASS)(diff.diff)
app.command("plan")(plan.plan)
app.command("launch")(launch.launch)
app.command("query")(query.query)
app.command("doctor")(doctor.doctor)
app.command("train-tiny", hidden=True)(train_tiny.train_tiny)
app.command("measure-tiny", hidden=True)(train_tiny.measure_tiny)
app.command("report")(report.report)
app.add_typer(bench.app, name="bench")
app.add_typer(rubric.app, name="rubric")
app.add_typer(import_.app, name="import")


def main() -> None:
    """Entry point of the installed command."""
    yield_waiting_threads()  # before a command loads Beam, and with it torch
    try:
        app()
    except (ConfigError, RubricError, CheckpointError, RunNotFoundError) as error:
        problems = getattr(error, "problems", None) or [str(error)]
        for problem in problems:
            print(problem, file=sys.stderr)
        sys.exit(WRONG_USAGE)


if __name__ == "__main__":
    main()
