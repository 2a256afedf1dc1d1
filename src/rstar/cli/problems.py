"""``rstar problems``: generates problem files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from rstar.cli.common import console, counted
from rstar.errors import ConfigError
from rstar.jsonl import encode_line, write_new
from rstar.runs import make_folder
from rstar.tiny.family import Split
from rstar.tiny.generate import draw_set, families, parse_levels, write_set
from rstar.tiny.workup import draw_cases
from rstar.view.progress import progress
from rstar.view.tables import Column, Grid

app = typer.Typer(no_args_is_help=True, help="Make problem files from the synthetic families.")


@app.command("make")
def make(
    n: Annotated[int, typer.Option("--n", help="Number of problems.", min=1)],
    out: Annotated[Path, typer.Option(help="JSONL file to write.", dir_okay=False)],
    seed: Annotated[int, typer.Option(help="Seed for drawing the problems.", min=0)] = 0,
    levels: Annotated[str, typer.Option(help="Difficulty levels, such as `3` or `1-5`.")] = "1-5",
    family: Annotated[
        list[str] | None,
        typer.Option(
            help="A family, a kind of family, or `all`. An appended weight, as in `search:3`, draws these families"
            " three times as often. May be repeated.",
            show_default="all",
        ),
    ] = None,
    split: Annotated[
        Split, typer.Option(help="`numbers`: held-out numbers; `templates`: also held-out templates; `train`: neither.")
    ] = "numbers",
    solutions: Annotated[bool, typer.Option("--solutions", help="Add the reference solutions, for training.")] = False,
    actions: Annotated[
        bool, typer.Option("--actions", help="Write the solutions as actions of mutual reasoning.")
    ] = False,
) -> None:
    """Draw synthetic problems with exact answers; by default, problems that the bundled model was not trained on.

    Example: `rstar problems make --n 500 --seed 7 --family game24 --out game24.jsonl`
    """
    if actions and not solutions:
        raise ConfigError("--actions: only with --solutions")
    drawing = draw_set(n, seed, split, levels, family or [])
    written = 0
    families_drawn: set[str] = set()
    with progress(n, "problems") as advance:
        for drawn in write_set(out, drawing, solutions, actions):
            written += 1
            families_drawn.add(drawn.family.name)
            advance()
    console().print(
        f"{counted(written, 'problem')} from {counted(len(families_drawn), 'family', 'families')} written to"
        f" [bold]{escape(str(out))}[/]",
        highlight=False,
    )
    if written < n:
        console().print(f"[yellow]fewer than {n}: these families and levels yield no more distinct problems[/]")


@app.command("workups")
def workups(
    n: Annotated[int, typer.Option("--n", help="Number of cases.", min=1)],
    out: Annotated[Path, typer.Option(help="JSONL file to write.", dir_okay=False)],
    seed: Annotated[int, typer.Option(help="Seed for drawing the cases.", min=0)] = 0,
    levels: Annotated[str, typer.Option(help="Difficulty levels, such as `3` or `1-5`.")] = "1-5",
) -> None:
    """Draw cases for an agent with the environment `workup`: ask about the history, order tests, name the condition.

    A case gives a table of invented conditions and the findings that each requires. The findings of the case are
    recorded, and the agent's tools look them up. Exactly one condition fits them all.

    Example: `rstar problems workups --n 500 --seed 7 --levels 1-3 --out cases.jsonl`
    """
    cases = draw_cases(n, seed, parse_levels(levels))
    make_folder(out.parent)
    with write_new(out) as lines:
        for i, case in enumerate(cases):
            lines.write(encode_line(case.row(f"workup-{seed}-{i}")))
    console().print(f"{counted(n, 'case')} written to [bold]{escape(str(out))}[/]", highlight=False)


@app.command("families")
def list_families() -> None:
    """List the families of synthetic problems, each with its numbers of trained and of held-out templates."""
    table = Grid([Column("family"), Column("kind", rank=1), Column("about", flow="wrap"), Column("templates", rank=2)])
    for name, family in families().items():
        forms = f"{len(family.templates)} + {len(family.held_templates)} held out"
        table.add(name, family.kind, family.about, forms)
    console().print(table)
