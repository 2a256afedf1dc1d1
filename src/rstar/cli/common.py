"""What several commands share: the console, a progress bar, option types."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from rstar.config import Section, settings_of
from rstar.view.screen import Screen, visible_json
from rstar.view.tables import UNLIMITED, Column, Grid

ConfigFile = Annotated[
    Path | None,
    typer.Option(
        "--config",
        help="TOML file with settings (see `rstar info --settings`).",
        dir_okay=False,
        exists=True,
        show_default=False,
    ),
]
Overrides = Annotated[
    list[str] | None,
    typer.Option("--set", help="One setting, such as `search.rollouts=64`; may be repeated.", show_default=False),
]
QuestionField = Annotated[
    str | None,
    typer.Option(help="Field of the problem file that holds the question.", show_default="question, problem, prompt"),
]
AnswerField = Annotated[
    str | None,
    typer.Option(help="Field that holds the gold answer.", show_default="answer, final_answer, … (docs/solving.md)"),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for machines instead of text for people.")]


def console(stderr: bool = False) -> Screen:
    """For text that people read. Nothing is wrapped or cut where it is no terminal."""
    terminal = (sys.stderr if stderr else sys.stdout).isatty()
    width = None if terminal else UNLIMITED
    return Screen(stderr=stderr, soft_wrap=False, emoji=False, width=width)  # xs[0:m:2] is no emoji


def counted(n: int, one: str, many: str = "") -> str:
    """A number with its noun.

    >>> counted(1, "problem"), counted(1_200, "family", "families")
    ('1 problem', '1,200 families')
    """
    return f"{n:,} {one if n == 1 else many or one + 's'}"


def print_json(value: Any) -> None:
    """One JSON object on one line of stdout."""
    try:
        sys.stdout.write(visible_json(value) + "\n")
    except UnicodeEncodeError:  # a terminal of another encoding
        sys.stdout.write(json.dumps(value) + "\n")


def print_settings(kind: type[Section], as_json: bool, whole: Sequence[type[Section]] = ()) -> None:
    """All that can be set, with defaults; groups of the kinds `whole` are not taken apart."""
    rows = {key: (field.get_default(call_default_factory=True), field) for key, field in settings_of(kind, whole)}
    if as_json:
        print_json({k: {"default": _plain(default), "meaning": f.description} for k, (default, f) in rows.items()})
        return
    table = Grid([Column("setting"), Column("default", flow="wrap", least=8), Column("meaning", flow="wrap")])
    for key, (default, field) in rows.items():
        shown = "" if field.is_required() or isinstance(default, Section) else _shown(default)
        table.add(key, escape(shown), escape(field.description or ""))
    console().print(table)


def _plain(default: Any) -> Any:
    return default if default is None or isinstance(default, bool | int | float | str | list | dict) else None


def _shown(default: Any) -> str:
    return "unset" if default is None else str(default)


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
        console=console(stderr=True),
        disable=not sys.stderr.isatty(),
        transient=True,
    )
    with bar:
        task = bar.add_task(what, total=total, note="")

        def advance(n: int = 1, note: str = "", total: int | None = None) -> None:
            bar.update(task, advance=n, note=note, total=total)

        yield advance
