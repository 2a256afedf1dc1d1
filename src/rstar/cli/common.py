"""Shared by the commands: console, option types."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from rstar.sections import Section, Setting, settings_of
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
    return Screen(stderr=stderr, soft_wrap=False, emoji=False, width=width)  # xs[0:m:2] is not an emoji


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
    except UnicodeEncodeError:  # the terminal is not UTF-8
        sys.stdout.write(json.dumps(value) + "\n")


def print_settings(kind: type[Section], as_json: bool, whole: Sequence[type[Section]] = ()) -> None:
    """All that can be set, with defaults; groups of the kinds `whole` are not taken apart."""
    settings = settings_of(kind, whole)
    if as_json:
        print_json(
            [
                {"setting": one.key, "methods": one.variants, "default": _plain(one), "meaning": one.field.description}
                for one in settings
            ]
        )
        return
    table = Grid([Column("setting"), Column("default", flow="wrap", least=8), Column("meaning", flow="wrap")])
    for one in settings:
        methods = f"{', '.join(one.variants)}: " if one.variants else ""
        table.add(one.key, escape(_shown(one)), escape(methods + (one.field.description or "")))
    console().print(table)


def _plain(setting: Setting) -> Any:
    default = setting.field.get_default(call_default_factory=True)
    if default is None or isinstance(default, bool | int | float | str | list | dict):
        return default
    return None if setting.field.is_required() or isinstance(default, Section) else str(default)


def _shown(setting: Setting) -> str:
    default = setting.field.get_default(call_default_factory=True)
    if setting.field.is_required() or isinstance(default, Section):
        return ""
    return "unset" if default is None else str(default)


def run_folder(name: str) -> Path:
    """A fresh folder below ``runs/`` in the working directory, named by what it is for and the time."""
    return Path("runs") / f"{name}-{datetime.now():%Y%m%d-%H%M%S}"
