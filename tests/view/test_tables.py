"""Tables in terminals of every width, and where there is no terminal."""

import io

import pytest
from rich.console import Console

from rstar.view.tables import UNLIMITED, Column, Grid, chosen, shared

COLUMNS = [
    Column("id"),
    Column("problem", flow="cut"),
    Column("why", flow="wrap", rank=2),
    Column("tokens", number=True, rank=1),
    Column("p", number=True),
]
LONG = "word " * 60 + "end-of-problem"


def drawn(grid: Grid, width: int) -> str:
    screen = Console(width=width, file=io.StringIO(), record=True)
    screen.print(grid)
    return screen.export_text()


def grid(title: str = "") -> Grid:
    rows = [("numbers-7-0", LONG, "reason " * 12 + "end-of-reason", "1,234", "0.05"), ("b", "q", "", "5", "")]
    return Grid(COLUMNS, [*rows], title=title)


@pytest.mark.parametrize("width", [30, 60, 80, 120, 200])
def test_what_must_be_there_is_there_in_one_piece_at_every_width(width: int) -> None:
    text = drawn(grid(), width)
    assert all(len(line) <= width for line in text.splitlines())
    if width >= 60:
        assert "numbers-7-0" in text
        assert "0.05" in text.splitlines()[2]


def test_columns_leave_by_rank_and_are_named() -> None:
    assert "too narrow for" not in drawn(grid(), 120)
    middle = drawn(grid(), 60)
    assert "too narrow for: why\n" in middle
    assert "1,234" in middle
    assert "too narrow for: why, tokens\n" in drawn(grid(), 40)


def test_excerpts_are_cut_and_other_text_is_wrapped() -> None:
    text = drawn(grid(), 120)
    assert "…" in text
    assert "end-of-problem" not in text
    assert "end-of-reason" in text


def test_nothing_is_cut_or_wrapped_where_there_is_no_terminal() -> None:
    lines = drawn(grid("A title"), UNLIMITED).splitlines()
    assert lines[0].strip() == "A title"
    assert len(lines) == 5
    assert LONG in lines[3]
    assert all(cell in lines[3] for cell in ("numbers-7-0", "end-of-reason", "1,234", "0.05"))
    assert "…" not in "".join(lines)


def test_every_row_has_a_cell_for_every_column() -> None:
    with pytest.raises(ValueError, match="2 cells for 5 columns"):
        grid().add("a", "b")


def test_room_is_shared_among_flowing_columns() -> None:
    columns = [Column("a"), Column("b", flow="cut"), Column("c", flow="wrap")]
    assert shared(columns, [5, 100, 25], 80) == [5, 46, 25]
    assert shared(columns, [5, 10, 10], 80) == [5, 10, 10]
    assert sum(shared(columns, [50, 100, 100], 40)) == 40 - 4
    assert chosen(columns, [50, 100, 100], 40) == [0, 1, 2], "columns of rank 0 stay"
