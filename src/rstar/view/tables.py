"""The table that all commands print: fitted to a terminal, complete anywhere else.

In a terminal, columns of the highest `rank` are dropped first until the others fit; their names are printed below the
table. Excerpts are cut with an ellipsis, other text wraps, and nothing else is shortened. Without a terminal the width
is `UNLIMITED`, so every cell stays on its line.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from rich import box
from rich.console import Console, ConsoleOptions, RenderResult
from rich.markup import escape
from rich.table import Table
from rich.text import Text

UNLIMITED = 1_000_000
"""Width, in characters, if the output is not a terminal."""

GAP, FEWEST = 2, 8
"""Characters between columns, and in the narrowest flowing column."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table.

    Attributes:
        name: its header.
        number: align right.
        rank: 0: always shown; the higher, the sooner it is dropped from a narrow table.
        flow: how cells without room are shortened: ``wrap``, or ``cut`` with an ellipsis; None: they keep their width
            while another column can shrink.
        least: width to which a flowing column shrinks before columns are dropped.
    """

    name: str
    number: bool = False
    rank: int = 0
    flow: Literal["wrap", "cut"] | None = None
    least: int = 20


@dataclass(slots=True)
class Grid:
    """Rows of cells in rich's markup, drawn to the available width."""

    columns: Sequence[Column]
    rows: list[Sequence[str]] = field(default_factory=list)
    title: str = ""
    head: bool = True

    def add(self, *cells: str) -> None:
        """Add a row: one cell per column."""
        if len(cells) != len(self.columns):
            raise ValueError(f"{len(cells)} cells for {len(self.columns)} columns")
        self.rows.append(cells)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Render the table for rich."""
        widths = [self._width(place) for place in range(len(self.columns))]
        shown = chosen(self.columns, widths, options.max_width)
        room = shared([self.columns[i] for i in shown], [widths[i] for i in shown], options.max_width)
        table = Table(
            title=self.title or None, title_justify="left", show_header=self.head, header_style="bold",
            box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0),
        )  # fmt: skip
        for place, width in zip(shown, room, strict=True):
            column = self.columns[place]
            cut = column.flow == "cut"
            table.add_column(
                column.name,
                justify="right" if column.number else "left",
                width=width,
                no_wrap=cut,
                overflow="ellipsis" if cut else "fold",
            )
        for row in self.rows:
            table.add_row(*(row[place] for place in shown))
        yield table
        if absent := [column.name for place, column in enumerate(self.columns) if place not in shown]:
            yield Text(f"too narrow for: {', '.join(absent)}", style="dim")

    def _width(self, place: int) -> int:
        cells = [row[place] for row in self.rows] + [self.columns[place].name] * self.head
        return max((Text.from_markup(cell).cell_len for cell in cells), default=0)


def figures_table(first: str, ranks: Mapping[str, int] | Sequence[str], title: str = "", least: int = 20) -> Grid:
    """An empty table of figures: a wrapping first column, then columns of numbers, perhaps with their ranks."""
    numbers = ranks if isinstance(ranks, Mapping) else dict.fromkeys(ranks, 0)
    columns = [Column(escape(name), number=True, rank=rank) for name, rank in numbers.items()]
    return Grid([Column(first, flow="wrap", least=least), *columns], title=title)


def chosen(columns: Sequence[Column], widths: Sequence[int], room: int) -> list[int]:
    """Indices of the columns that are shown.

    Args:
        columns: all columns.
        widths: preferred width of each.
        room: width of the whole table.
    """
    shown = list(range(len(columns)))
    while sum(_need(columns[i], widths[i]) for i in shown) + GAP * (len(shown) - 1) > room:
        last = max(shown, key=lambda i: columns[i].rank)  # the first on ties
        if columns[last].rank == 0:
            break
        shown.remove(last)
    return shown


def shared(columns: Sequence[Column], widths: Sequence[int], room: int) -> list[int]:
    """The width of each column: what it needs; flowing columns share the rest.

    If even that is too wide, flowing columns shrink, down to `FEWEST`, and then the widest of all.
    """
    granted = [_need(column, width) for column, width in zip(columns, widths, strict=True)]
    left = room - sum(granted) - GAP * (len(columns) - 1)
    flowing = sorted((i for i, column in enumerate(columns) if column.flow), key=lambda i: widths[i])
    for rest, i in zip(range(len(flowing), 0, -1), flowing, strict=True):
        more = max(0, min(widths[i] - granted[i], left // rest))
        granted[i] += more
        left -= more
    while left < 0 and max(granted) > 1:
        narrowed = [i for i in flowing if granted[i] > FEWEST] or range(len(granted))
        granted[max(narrowed, key=lambda i: granted[i])] -= 1
        left += 1
    return granted


def _need(column: Column, width: int) -> int:
    return min(width, column.least) if column.flow else width
