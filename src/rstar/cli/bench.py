"""``rstar bench``: measuring this machine. Ratios within one run are what to trust on a shared one."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from typing import Annotated

import typer
from rich.table import Table

from rstar.cli.common import AsJson, console, print_json

app = typer.Typer(no_args_is_help=True, help="Measure the sandbox, the engine and the search.")


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
    table = Table(header_style="bold", pad_edge=False)
    for name in ("isolation", "program", "calls/s", "CPU ms/call"):
        table.add_column(name, justify="left" if name in ("isolation", "program") else "right")
    for call in report.calls:
        table.add_row(call.level, call.program, f"{call.per_second:,.0f}", f"{call.cpu_ms:.2f}")
    console().print(table)
    for step in report.steps:
        console().print(
            f"{step.level}: step {DEPTH} takes {step.cpu_ms:.1f} ms of CPU from its parent's state, "
            f"{step.replay_cpu_ms:.1f} ms replaying the prefix in a warm interpreter: {step.ratio:.1f} times less",
            highlight=False,
        )


@app.command("engine")
def engine(as_json: AsJson = False) -> None:
    """Tokens per second of the local engine against `transformers.generate`, same weights, same run."""
    from rstar.models.bench import SHAPES, bench_engine

    rows = {shape: bench_engine(shape) for shape in SHAPES}
    if as_json:
        print_json({shape: asdict(row) | {"ratio": row.ratio} for shape, row in rows.items()})
        return
    for shape, row in rows.items():
        console().print(
            f"{shape} parameters: {row.local:,.0f} tokens/s, transformers.generate {row.transformers:,.0f}: "
            f"{row.ratio:.1f} times as fast, equal greedy text for {100 * row.equal:.0f}%",
            highlight=False,
        )
