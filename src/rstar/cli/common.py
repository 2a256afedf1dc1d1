"""What several commands share: the console, a progress bar, option types."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

ConfigFile = Annotated[
    Path | None,
    typer.Option("--config", help="TOML file with settings.", dir_okay=False, exists=True, show_default=False),
]
Overrides = Annotated[
    list[str] | None,
    typer.Option("--set", help="One setting, such as `search.rollouts=64`; may be repeated.", show_default=False),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for machines instead of text for people.")]


def console(stderr: bool = False) -> Console:
    """For text that people read."""
    return Console(stderr=stderr, soft_wrap=False, emoji=False)  # xs[0:m:2] is no emoji


def counted(n: int, one: str, many: str = "") -> str:
    """A number with its noun.

    >>> counted(1, "problem"), counted(1_200, "family", "families")
    ('1 problem', '1,200 families')
    """
    return f"{n:,} {one if n == 1 else many or one + 's'}"


def print_json(value: Any) -> None:
    """One JSON object on one line of stdout."""
    try:
        sys.stdout.write(json.dumps(value, ensure_ascii=False) + "\n")
    except UnicodeEncodeError:  # a terminal of another encoding, or half a character
        sys.stdout.write(json.dumps(value) + "\n")


def run_folder(name: str) -> Path:
    """A fresh folder below ``runs/`` in the working directory, named by what it is for and the time."""
    return Path("runs") / f"{name}-{datetime.now():%Y%m%d-%H%M%S}"


@contextmanager
def progress(total: int, what: str) -> Iterator[Any]:
    """A progress bar on stderr, off when that is no terminal; yields a function (advance, note, total)."""
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("[dim]{task.fields[note]}"),
        console=Console(stderr=True, emoji=False),
        disable=not sys.stderr.isatty(),
        transient=True,
    )
    with bar:
        task = bar.add_task(what, total=total, note="")

        def advance(n: int = 1, note: str = "", total: int | None = None) -> None:
            bar.update(task, advance=n, note=note, total=total)

        yield advance
