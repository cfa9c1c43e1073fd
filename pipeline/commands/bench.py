"""`onepass bench`: step counts, latency, throughput, batches, cost, peers, the roofline."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import Progress

from engine.bench.arms import ArmError
from pipeline.bench.arms import Bench, DType
from pipeline.bench.results import BenchResult, Size, read_result
from pipeline.bench.workload import (
    Request,
    fixed_length_requests,
    item_requests,
    jevbench_requests,
    workload_requests,
)
from pipeline.commands.options import framed
from pipeline.estimating.machines import load_machines
from pipeline.terminal.quiet import log_level

app = typer.Typer(
    help="Measure steps, latency, throughput, batches, cost, peers, the roofline.",
    no_args_is_help=True,
)

RESULTS = Path("out/bench")

PassesOption = Annotated[int, typer.Option(min=1, help="How often everything is measured.")]
FormatsOption = Annotated[
    list[str] | None, typer.Option("--format", help="Formats of the workload; all if unset.")
]
LengthsOption = Annotated[
    list[int] | None,
    typer.Option("--prompt-tokens", help="Reads of these lengths instead of the workload."),
]
CountOption = Annotated[int, typer.Option(min=1, help="Reads per length.")]


def _shows(measure: Callable[..., BenchResult]) -> Callable[..., None]:
    """A command that writes and shows what `measure` finds; an arm that fails ends it."""

    def frame(
        *,
        as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
        output: Annotated[
            Path | None, typer.Option(help="Result file; a name in out/bench/ if unset.")
        ] = None,
        **options: Any,
    ) -> None:
        try:
            with log_level(verbose=False):
                result = measure(**options)
            _show(result, as_json, output)
        except ArmError as error:
            typer.echo(str(error), err=True)
            raise typer.Exit(1) from None

    return framed(frame, measure)


def _measures(measure: Callable[..., BenchResult]) -> Callable[..., None]:
    """A command that measures with engines: `measure` gets a `Bench`, then its own options."""

    def frame(
        model: Annotated[
            str, typer.Option(help="tiny, random-1b (built once), random-tiny, a folder or gs://.")
        ] = "tiny",
        *,
        dtype: Annotated[
            DType, typer.Option(help="Precision of weights and arithmetic.")
        ] = "float32",
        threads: Annotated[
            int | None, typer.Option(min=1, help="Threads; all cores if unset.")
        ] = None,
        quick: Annotated[
            bool, typer.Option("--quick", help="Prove that it runs; ignore times.")
        ] = False,
        **options: Any,
    ) -> BenchResult:
        size: Size = "quick" if quick else "full"
        return measure(Bench(model, dtype, size, threads=threads), **options)

    return _shows(framed(frame, measure))


@app.command()
@_measures
def steps(
    bench: Bench,
    /,
    reads: Annotated[
        list[str] | None,
        typer.Option(help="items, workload, jevbench-240; the first two if unset."),
    ] = None,
    jevbench: Annotated[Path, typer.Option(help="Where JevBench-240's cases are.")] = Path(
        "../shared/data/jevbench-240"
    ),
) -> BenchResult:
    """Engine steps of the same reads, single_pass_reads off and on; exact counts."""
    from pipeline.bench import steps as bench_steps

    sets: dict[str, list[Request]] = {}
    for name in reads or ["items", "workload"]:
        if name == "items":
            found = item_requests(bench.checkpoint)
        elif name == "workload":
            formats = workload_requests(bench.checkpoint)
            found = [request for requests in formats.values() for request in requests]
        elif name == "jevbench-240":
            found = jevbench_requests(bench.checkpoint, jevbench)
        else:
            raise typer.BadParameter(f"{name}: use items, workload or jevbench-240")
        sets[name] = found[:8] if bench.quick else found
    return bench_steps.run(bench, sets)


@app.command()
@_measures
def latency(
    bench: Bench,
    /,
    passes: PassesOption = 4,
    formats: FormatsOption = None,
    prompt_tokens: LengthsOption = None,
    count: CountOption = 12,
    flag_off: Annotated[
        bool, typer.Option(help="Also the optimisation build with its flag off.")
    ] = True,
    target: Annotated[float, typer.Option(help="Seconds a request should take at most.")] = 1.0,
) -> BenchResult:
    """One request at a time: baseline, baseline again, flag off, flag on."""
    from pipeline.bench import latency as bench_latency

    sets = _sets(bench, formats, prompt_tokens, count)
    passes = 1 if bench.quick else passes
    with _progress("requests") as progress:
        return bench_latency.run(bench, sets, passes, target, progress, with_flag_off=flag_off)


@app.command()
@_measures
def throughput(
    bench: Bench,
    /,
    passes: PassesOption = 4,
    formats: FormatsOption = None,
    prompt_tokens: LengthsOption = None,
    count: CountOption = 40,
    concurrency: Annotated[
        list[int] | None, typer.Option(help="Requests in flight; 1 to 20 if unset.")
    ] = None,
) -> BenchResult:
    """Decisions per second and median latency as requests in flight grow."""
    from pipeline.bench import throughput as bench_throughput

    sets = _sets(bench, formats, prompt_tokens, count)
    levels = concurrency or ([1, 4] if bench.quick else [1, 2, 3, 5, 10, 15, 20])
    with _progress("rounds") as progress:
        return bench_throughput.run(bench, sets, levels, 1 if bench.quick else passes, progress)


@app.command()
@_measures
def batches(
    bench: Bench,
    /,
    passes: PassesOption = 3,
    shared: Annotated[int, typer.Option(min=2, help="Reads that share a rubric.")] = 256,
) -> BenchResult:
    """Mixed rubrics, and a large batch of one rubric, against stock vLLM."""
    from pipeline.bench import batches as bench_batches

    passes, shared = (1, 16) if bench.quick else (passes, shared)
    return bench_batches.run(bench, passes, shared)


@app.command()
@_shows
def cost(
    result: Annotated[
        Path | None, typer.Option(help="A throughput result to price; the seed's rates if unset.")
    ] = None,
    machine: Annotated[str, typer.Option(help="Replica whose price it gets.")] = "c4-standard-24",
    volume: Annotated[
        list[int] | None, typer.Option(help="Decisions a month; 100,000 and 1,000,000 if unset.")
    ] = None,
    prices: Annotated[
        Path | None, typer.Option(help="Prices; configs/machines.yaml if unset.")
    ] = None,
) -> BenchResult:
    """Dollars per 1,000 decisions: always on, busy, in batch; where machines break even."""
    from pipeline.bench import cost as bench_cost

    measured = read_result(result) if result else None
    if measured and measured.bench != "throughput":
        raise typer.BadParameter(f"{result} is a {measured.bench} result, not a throughput one")
    volumes = volume or [100_000, 1_000_000]
    return bench_cost.run(load_machines(prices), volumes, measured, machine)


@app.command()
@_measures
def peers(
    bench: Bench,
    /,
    peer: Annotated[
        list[str] | None, typer.Option(help="onepass, stock, reference, beam, systemone; all.")
    ] = None,
    passes: PassesOption = 3,
) -> BenchResult:
    """The same questions on vLLM, its server, Beam's handler and Transformers."""
    from pipeline.bench import peers as bench_peers

    chosen = peer or list(bench_peers.PEERS)
    _check_known(chosen, bench_peers.PEERS, "use")
    passes = 1 if bench.quick else passes
    return bench_peers.run(bench, chosen, passes, lambda name: typer.echo(f"{name} ...", err=True))


@app.command()
@_measures
def roofline(
    bench: Bench,
    /,
    prompt_tokens: LengthsOption = None,
    count: CountOption = 12,
) -> BenchResult:
    """The least time a read can take here and elsewhere, and where the rest goes."""
    from pipeline.bench import roofline as bench_roofline

    lengths = prompt_tokens or [190, 1250]
    return bench_roofline.run(bench, lengths[:1] if bench.quick else lengths, count)


def _sets(
    bench: Bench, formats: list[str] | None, lengths: list[int] | None, count: int
) -> Mapping[str, list[Request]]:
    """The workload's formats or reads of fixed lengths; a few of each when quick."""
    if lengths:
        sets = fixed_length_requests(bench.checkpoint, lengths, count)
    else:
        sets = workload_requests(bench.checkpoint)
        _check_known(formats or (), sets, "formats are")
        sets = {name: sets[name] for name in formats or sets}
    return {name: found[:3] for name, found in sets.items()} if bench.quick else sets


def _check_known(names: Iterable[str], known: Iterable[str], remedy: str) -> None:
    if unknown := set(names) - set(known):
        raise typer.BadParameter(f"{', '.join(sorted(unknown))}: {remedy} {', '.join(known)}")


@contextmanager
def _progress(what: str) -> Iterator[Callable[[int, int], None]]:
    """A progress bar on a terminal, silence elsewhere."""
    with Progress(console=Console(stderr=True), disable=not sys.stderr.isatty()) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def _show(result: BenchResult, as_json: bool, output: Path | None) -> None:
    path = result.write(output or result.default_path(RESULTS))
    if as_json:
        typer.echo(result.model_dump_json(indent=1))
        return
    from pipeline.bench.tables import tables

    console = Console(highlight=False)
    for table in tables(result):
        console.print(table)
    if result.size == "quick":
        console.print("A quick run: it proves that the benchmark works; its times mean nothing.")
    console.print(f"Everything is in {path}")
