"""``rstar bench``: benchmarks of this machine. On a shared machine, trust only the ratios within one run."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rstar.cli.common import AsJson, console, print_json
from rstar.prompts import code_steps as prompt
from rstar.specs import Bundled
from rstar.tiny.generate import draw
from rstar.view.chart import curves, page
from rstar.view.chart import table as html_table
from rstar.view.progress import progress
from rstar.view.tables import Column, Grid

if TYPE_CHECKING:
    from rstar.judge.bench import LoadResult

PROGRAM_TOKENS = 512
"""Most tokens of a solution in the engine's benchmark."""

app = typer.Typer(
    no_args_is_help=True, help="Measure the sandbox, the engine, the search, extraction, grading, the judge."
)


@app.command("search")
def search(
    expansions: Annotated[int, typer.Option(help="Node expansions to time.", min=100)] = 10_000,
    as_json: AsJson = False,
) -> None:
    """Node expansions per second of the search itself: a model and a sandbox that take no time."""
    from rstar.search.bench import bench_search

    figures = bench_search(expansions)
    if as_json:
        print_json(asdict(figures))
        return
    console().print(
        f"{figures.expansions_per_cpu_second:,.0f} node expansions per CPU-second "
        f"({figures.expansions:,} expansions of {figures.samples} samples, {figures.cpu_seconds:.2f} s)",
        highlight=False,
    )


@app.command("sandbox")
def sandbox(as_json: AsJson = False) -> None:
    """Calls per second and CPU per call by program and isolation level; a step at depth 8 against replaying."""
    from rstar.sandbox.bench import DEPTH, measure

    report = asyncio.run(measure())
    if as_json:
        print_json(asdict(report))
        return
    numbers = [Column(name, number=True) for name in ("calls/s", "CPU ms/call")]
    table = Grid([Column("isolation"), Column("program", flow="wrap"), *numbers])
    for call in report.calls:
        table.add(call.level, call.program, f"{call.per_second:,.0f}", f"{call.cpu_ms:.2f}")
    console().print(table)
    for step in report.steps:
        console().print(
            f"{step.level}: step {DEPTH} takes {step.cpu_ms:.1f} ms of CPU from its parent's state, "
            f"{step.replay_cpu_ms:.1f} ms replaying the prefix in a warm interpreter: {step.ratio:.1f} times less",
            highlight=False,
        )


@app.command("extract")
def extract(
    trees: Annotated[int, typer.Option(help="Trees to make and extract from.", min=1)] = 10_000,
    as_json: AsJson = False,
) -> None:
    """Seconds and memory of turning search trees into training data."""
    from rstar.evolve.bench import bench_extract

    found = bench_extract(trees)
    if as_json:
        print_json(asdict(found))
        return
    console().print(
        f"{found.trees:,} trees ({found.megabytes:,.0f} MB) in {found.seconds:.1f} s, at most"
        f" {found.peak_megabytes:,.0f} MB of memory",
        highlight=False,
    )


@app.command("engine")
def engine(
    model: Annotated[
        Path | None, typer.Option(help="Folder of a model.", show_default="the bundled one", exists=True)
    ] = None,
    n: Annotated[int, typer.Option("--n", help="Problems that it solves, greedily.", min=1)] = 256,
    threads: Annotated[int, typer.Option(help="Threads of each.", min=1)] = 1,
    dtype: Annotated[str, typer.Option(help="float32, bfloat16 or float16.")] = "float32",
    as_json: AsJson = False,
) -> None:
    """Tokens per second of the local engine against `transformers.generate`: same weights, same run, greedy.

    Three kinds of work: a model writes solutions of held-out problems; models with random weights write completions
    that all have the same length (uniform), or each a length of its own (ragged).
    """
    from rstar.models.bench import SHAPES, bench_engine, ragged_work, text_work, uniform_work, write_random_model
    from rstar.models.spec import local_folder

    folder = model or local_folder(Bundled())
    prompts = [prompt.prompt(drawn.instance.question) for drawn in draw(n, seed=0)]
    rows = {}
    with tempfile.TemporaryDirectory() as scratch, progress(1 + 2 * len(SHAPES), "measurements") as advance:
        work = text_work(folder, prompts, prompt.END_CODE, PROGRAM_TOKENS)
        rows[f"{n} problems"] = bench_engine(folder, work, dtype=dtype, threads=threads)
        advance()
        for shape, config in SHAPES.items():
            write_random_model(Path(scratch), config)
            for kind, work in (("ragged", ragged_work()), ("uniform", uniform_work())):
                rows[f"{shape}, {kind}"] = bench_engine(Path(scratch), work, dtype=dtype, threads=threads)
                advance()
    if as_json:
        print_json({name: asdict(row) | {"ratio": row.ratio} for name, row in rows.items()})
        return
    names = ("tokens/s", "transformers.generate", "ratio", "equal texts")
    table = Grid([Column("work", flow="wrap", least=12), *(Column(name, number=True) for name in names)])
    for name, row in rows.items():
        speeds = f"{row.local:,.0f}", f"{row.transformers:,.0f}"
        table.add(name, *speeds, f"{row.ratio:.2f}", f"{100 * row.equal:.0f}%")
    console().print(table)


@app.command("grading")
def grading(
    seconds: Annotated[float, typer.Option(help="Least processor time of each measurement.", min=0.1)] = 2.0,
    as_json: AsJson = False,
) -> None:
    """Verdicts per CPU-second on exact golds and on expressions; math-verify beside it, where it is installed."""
    from rstar.grading.bench import bench_grading

    found = bench_grading(seconds)
    if as_json:
        print_json({name: asdict(speed) for name, speed in found.items()})
        return
    names = ("verdicts per CPU-second", "wrong")
    table = Grid([Column("work", flow="wrap"), *(Column(name, number=True) for name in names)])
    for name, speed in found.items():
        table.add(name, f"{speed.verdicts_per_cpu_second:,.0f}", f"{speed.wrong} of {speed.pairs:,}")
    console().print(table)
    if len(found) < 3:
        hint = "with math-verify installed, that grader is in the table, too: pip install 'math-verify[antlr4_13_2]'"
        console().print(hint, markup=False, highlight=False)


@app.command("judge")
def judge(
    url: Annotated[
        str | None, typer.Option(help="A running service.", show_default="one that is started for this")
    ] = None,
    calls: Annotated[int, typer.Option(help="Calls of each kind of load.", min=10)] = 1_000,
    burst: Annotated[int, typer.Option(help="Also this many calls submitted at once, in batches of 32.", min=0)] = 0,
    loops: Annotated[
        list[int] | None,
        typer.Option(help="Also this many endless loops at once: how late each is ended. May be given several times."),
    ] = None,
    redis: Annotated[
        str | None, typer.Option(help="Queue of the service that is started.", show_default="memory")
    ] = None,
    pid: Annotated[
        int, typer.Option(help="Process of a running service here, for its processor time.", show_default=False)
    ] = 0,
    token_file: Annotated[
        Path | None, typer.Option(help="File with the token of a running service.", show_default=False)
    ] = None,
    report: Annotated[Path | None, typer.Option(help="HTML page with the burst's curves.", show_default=False)] = None,
    as_json: AsJson = False,
) -> None:
    """Calls per second, latency and CPU per call of a judge service, under several kinds of load.

    One call at a time and batches of each program; a mix of them, with and without endless loops among them; with
    `--burst 45000`, so many calls at once. The load keeps to what Code Judge offers, so `--url` may be one of those.
    """
    from rstar.judge.bench import bench_judge
    from rstar.judge.settings import read_token

    token = None if token_file is None else read_token(token_file)
    with progress(0, "loads") as advance:
        work = bench_judge(url, calls, burst, loops or (), redis=redis, pid=pid, token=token, advance=advance)
        loads = asyncio.run(work)
    if report is not None:
        report.write_text(_report_page(loads), encoding="utf-8")
    if as_json:
        print_json({name: load.plain() for name, load in loads.items()})
        return
    ranks = {
        "calls/s": 0,
        "p50 ms": 0,
        "p95 ms": 3,
        "p99 ms": 0,
        "max ms": 3,
        "CPU ms/call": 1,
        "memory MiB": 2,
        "wrong": 0,
    }
    figures = [Column(name, number=True, rank=rank) for name, rank in ranks.items()]
    table = Grid([Column("load", flow="wrap", least=12), *figures])
    for name, load in loads.items():
        row = load.plain()
        table.add(
            name,
            *("" if row[key] is None else f"{row[key]:,}" for key in row if key != "wrong"),
            str(row["wrong"] or ""),
        )
    console().print(table)


def _report_page(loads: Mapping[str, LoadResult]) -> str:
    """An HTML page: the figures of all loads, latency and queue of the last one."""
    rows = {
        name: f"{load.per_second:,.0f} calls/s, p50 {1e3 * load.percentile(50):,.1f} ms, p99"
        f" {1e3 * load.percentile(99):,.1f} ms, {sum(load.wrong.values())} wrong"
        for name, load in loads.items()
    }
    name, last = list(loads.items())[-1]
    steps = range(1, 100)
    charts = [
        curves(f"{name}: latency", {"": [(p, last.percentile(p)) for p in steps]}, "percent of the calls", "seconds"),
        curves(f"{name}: queue", {"": [(t, float(n)) for t, n in last.queue]}, "seconds", "calls that wait"),
    ]
    return page("rstar judge under load", [html_table([], [*rows.items()]), *charts])
