"""Progress bars, and lines instead of them where output goes to a file."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from rstar.view.screen import Screen

_LINE_SECONDS = 60.0
"""Seconds between two lines."""
_ELAPSED, _REMAINING = TimeElapsedColumn(), TimeRemainingColumn()


@contextmanager
def progress(total: int | None, what: str) -> Iterator[Any]:
    """A progress bar on stderr; yields a function (advance, note, total).

    If stderr is not a terminal, a line says once a minute how far the work is.
    """
    terminal = sys.stderr.isatty()
    screen = Screen(stderr=True, emoji=False)
    bar = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        _ELAPSED,
        _REMAINING,
        TextColumn("{task.fields[note]}", style="dim", markup=False),
        console=screen,
        disable=not terminal,
        transient=True,
    )
    with bar:
        task = bar.add_task(what, total=total, note="")
        shown = time.monotonic()

        def advance(n: int = 1, note: str = "", total: int | None = None) -> None:
            nonlocal shown
            bar.update(task, advance=n, note=note, total=total)
            if not terminal and time.monotonic() - shown >= _LINE_SECONDS:
                shown = time.monotonic()
                screen.print(_line(bar, what, note), markup=False, highlight=False, soft_wrap=True)

        yield advance


def _line(bar: Progress, what: str, note: str) -> str:
    task = bar.tasks[0]
    of = "" if task.total is None else f" of {task.total:g}"
    left = "" if task.time_remaining is None else f", about {_REMAINING.render(task).plain} left"
    return f"{what}: {task.completed:g}{of} after {_ELAPSED.render(task).plain}{left}{note and f'; {note}'}"
