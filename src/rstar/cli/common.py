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
from rstar.specs import BUNDLED
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
    typer.Option("--set", help="Set one setting, as `KEY=VALUE`; the option may be repeated.", show_default=False),
]
MODEL = f"The model: {', '.join(f'`{name}`' for name in BUNDLED)}, `hf:PATH`, `openai:URL#MODEL` or `fake:KIND`."
SEED = "Seed for all random choices."
Policy = Annotated[str | None, typer.Option(help=MODEL, show_default="tiny; tiny:agent for agents")]
Seed = Annotated[int | None, typer.Option(help=SEED, show_default="0")]
GradedProblems = Annotated[
    Path, typer.Option("--problems", help="Problem file with gold answers.", exists=True, dir_okay=False)
]
RunFolder = Annotated[Path, typer.Option("--out", help="Run folder. If it already holds a run, that run is resumed.")]
QuestionField = Annotated[
    str | None,
    typer.Option(help="Field of the problem file that holds the question.", show_default="question, problem, prompt"),
]
AnswerField = Annotated[
    str | None,
    typer.Option(
        help="Field of the problem file that holds the gold answer.",
        show_default="answer, final_answer, … (docs/solving.md)",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]


def console(stderr: bool = False) -> Screen:
    """A console for text; without a terminal, nothing is wrapped or cut."""
    terminal = (sys.stderr if stderr else sys.stdout).isatty()
    width = None if terminal else UNLIMITED
    return Screen(stderr=stderr, soft_wrap=False, emoji=False, width=width)  # xs[0:m:2] is not an emoji


def interrupted(out: Path) -> typer.Exit:
    """Say how to resume a run that Ctrl-C has interrupted. Returns what the command then raises."""
    console(stderr=True).print(f"interrupted; to resume [bold]{escape(str(out))}[/], repeat the command")
    return typer.Exit(130)


def counted(n: int, singular: str, plural: str = "") -> str:
    """A number with its noun.

    >>> counted(1, "problem"), counted(1_200, "family", "families")
    ('1 problem', '1,200 families')
    """
    return f"{n:,} {singular if n == 1 else plural or singular + 's'}"


def print_json(value: Any) -> None:
    """One JSON object on one line of stdout."""
    try:
        sys.stdout.write(visible_json(value) + "\n")
    except UnicodeEncodeError:  # the terminal is not UTF-8
        sys.stdout.write(json.dumps(value) + "\n")


def print_result(result: Any, as_json: bool, *shown: str | Grid) -> None:
    """A command's result: as JSON, or the lines and tables `shown`."""
    if as_json:
        print_json(result)
        return
    for part in shown:
        console().print(part, highlight=False)


def print_settings(kind: type[Section], as_json: bool, whole: Sequence[type[Section]] = ()) -> None:
    """Print all settings with defaults; each group of a kind in `whole` counts as one setting."""
    table = Grid([Column("setting"), Column("default", flow="wrap", least=8), Column("meaning", flow="wrap")])
    rows = []
    for setting in settings_of(kind, whole):
        default, meaning = _default(setting), setting.field.description
        rows.append({"setting": setting.key, "methods": setting.variants, "default": default, "meaning": meaning})
        methods = f"{', '.join(setting.variants)}: " if setting.variants else ""
        unset = "" if setting.field.is_required() or isinstance(_value(setting), Section) else "unset"
        table.add(setting.key, escape(unset if default is None else str(default)), escape(methods + (meaning or "")))
    print_result(rows, as_json, table)


def _value(setting: Setting) -> Any:
    return setting.field.get_default(call_default_factory=True)


def _default(setting: Setting) -> Any:
    """The default as plain data; None for a required setting or a group."""
    default = _value(setting)
    if default is None or isinstance(default, bool | int | float | str | list | dict):
        return default
    return None if setting.field.is_required() or isinstance(default, Section) else str(default)


def run_folder(name: str) -> Path:
    """A new folder below ``runs/`` in the working directory, named by its purpose and the time."""
    return Path("runs") / f"{name}-{datetime.now():%Y%m%d-%H%M%S}"
