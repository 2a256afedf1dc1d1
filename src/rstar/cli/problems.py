"""``rstar problems``: making problem files."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from rstar.cli.common import console, counted, progress
from rstar.errors import ConfigError
from rstar.tiny.family import LEVELS, Split
from rstar.tiny.generate import Drawn, draw_one, families, pick, spread

MOST_REPEATS = 20  # problems drawn for each one asked for, before giving up on finding different ones

app = typer.Typer(no_args_is_help=True, help="Make problem files from the synthetic families.")


@app.command("make")
def make(
    n: Annotated[int, typer.Option("--n", help="How many problems.", min=1)],
    out: Annotated[Path, typer.Option(help="JSONL file to write.", dir_okay=False)],
    seed: Annotated[int, typer.Option(help="Seed of the set.", min=0)] = 0,
    levels: Annotated[str, typer.Option(help="Difficulty, such as `3` or `1-5`.")] = "1-5",
    family: Annotated[
        list[str] | None,
        typer.Option(
            help="Family, kind of families or `all`, `search:3` for three times as many; may be repeated.",
            show_default="all",
        ),
    ] = None,
    split: Annotated[
        Split, typer.Option(help="`numbers`: held-out numbers; `templates`: held-out templates too; `train`.")
    ] = "numbers",
    solutions: Annotated[bool, typer.Option("--solutions", help="Add the reference solutions, for training.")] = False,
) -> None:
    """Draw problems with exact answers; by default ones that the bundled model was not trained on.

    Example: `rstar problems make --n 500 --seed 7 --family game24 --out game24.jsonl`
    """
    chosen = pick(family or [])
    span = _levels(levels)
    part = out.with_name(out.name + ".part")
    written = 0
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        file = part.open("w", encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"cannot write {out}: {error.strerror}") from error
    different: set[str] = set()
    drawing = (draw_one(i, seed, split, span, chosen) for i in spread(n, len(chosen) * len(span)))
    with progress(n, "problems") as advance, file:
        for drawn in islice(drawing, n) if split == "train" else _distinct(drawing, n):
            file.write(json.dumps(drawn.row(solutions), ensure_ascii=False) + "\n")
            written += 1
            different.add(drawn.family.name)
            advance()
    part.replace(out)
    console().print(
        f"{counted(written, 'problem')} of {counted(len(different), 'family', 'families')} written to"
        f" [bold]{escape(str(out))}[/]",
        highlight=False,
    )
    if written < n:
        console().print(f"[yellow]fewer than {n}: there are no more different ones at these levels[/]")


@app.command("families")
def list_families() -> None:
    """List the families."""
    table = Table(header_style="bold", pad_edge=False)
    for name in ("family", "kind", "about", "templates"):
        table.add_column(name)
    for name, family in families().items():
        forms = f"{len(family.templates)} + {len(family.held_templates)} held out"
        table.add_row(name, family.kind, family.about, forms)
    console().print(table)


def _distinct(drawing: Iterator[Drawn], n: int) -> Iterator[Drawn]:
    """Up to `n` problems without repeated questions: repeats would count one outcome twice."""
    seen: set[str] = set()
    for drawn in islice(drawing, n * MOST_REPEATS):
        if len(seen) == n:
            return
        if drawn.instance.question not in seen:
            seen.add(drawn.instance.question)
            yield drawn


def _levels(text: str) -> list[int]:
    match = re.fullmatch(r"(\d)(?:-(\d))?", text)
    first, last = (int(match[1]), int(match[2] or match[1])) if match else (0, 0)
    if not (match and first in LEVELS and last in LEVELS and first <= last):
        raise ConfigError(f"--levels {text!r}: expected a level from 1 to 5, or a range such as 1-5")
    return list(range(first, last + 1))
