"""Search families on a board written as a string of digits: queens, and cross sums (a two-row Kakuro).

Each move appends a digit: the column of the queen in the next row, or the digit of the next cell in reading order.
Several digits clash with nothing yet; a wrong one shows some moves later, when no digit is left.

Held out: the completed board. Every problem has exactly one. A good state is a beginning of it and, under the
constraints in the question, determines it, so no good state of a held-out problem occurs in a trained one. There are
only 10 placements of 5 queens, 40 of 7 and 92 of 8 (and 4 of 6, so no problem has 6), but memorising the trained ones
reveals none of the held-out ones.
"""

from __future__ import annotations

import random
from collections import Counter
from functools import lru_cache
from itertools import permutations

from rstar.tiny.family import Family, RejectedError
from rstar.tiny.templates import Draft, family
from rstar.tiny.words import joined

# Queens: a placement is a string of digits, the queen's column in each row from the top.

QUEENS_HELPER = """\
def put(now):
    global queens
    row, column = len(now), int(now[-1])
    assert now[:-1] == queens and 1 <= column <= size and (row, column) not in blocked
    for r, c in [*given, *enumerate(map(int, queens), 1)]:
        assert (r, c) == (row, column) or r != row and c != column and abs(r - row) != abs(c - column)
    queens = now"""
QUEENS_FINISH = "assert len(queens) == size\nprint([int(c) for c in queens])"
QUEENS_LEVELS = {1: (5, 0, 4, 20), 2: (7, 2, 6, 24), 3: (7, 1, 20, 60), 4: (8, 2, 20, 60), 5: (8, 1, 60, 1000)}
"""Size, given queens, minimum and maximum number of options."""


@lru_cache(maxsize=8)
def _queens(size: int) -> tuple[tuple[int, ...], ...]:
    """All placements of `size` non-attacking queens, as columns from 1."""
    found: list[tuple[int, ...]] = [()]
    for _ in range(size):
        found = [(*q, c) for q in found for c in range(1, size + 1) if _is_free(q, c)]
    return tuple(found)


def _is_free(queens: tuple[int, ...], column: int) -> bool:
    return all(c != column and abs(c - column) != len(queens) - r for r, c in enumerate(queens))


def _block(rng: random.Random, goal: tuple[int, ...], rivals: list[tuple[int, ...]]) -> list[tuple[int, int]]:
    """Squares to block until `goal` is the only placement; each excludes the most rivals, or one less."""
    blocked: list[tuple[int, int]] = []
    while rivals:
        squares = Counter((r, c) for q in rivals for r, c in enumerate(q, 1) if goal[r - 1] != c)
        best = max(squares.values())
        square = rng.choice([s for s, n in squares.items() if n >= best - 1])
        blocked.append(square)
        rivals = [q for q in rivals if q[square[0] - 1] != square[1]]
    return sorted(blocked)


def _queen_options(goal: tuple[int, ...], given: list[tuple[int, int]], blocked: list[tuple[int, int]]) -> int:
    """Product over the rows of the number of legal columns when the row is filled."""
    total = 1
    for row in range(1, len(goal) + 1):
        known = {**dict(enumerate(goal[: row - 1], 1)), **dict(given)}
        total *= sum(
            (row, column) not in blocked
            and all(
                (r == row and c == column) or (r != row and c != column and abs(r - row) != abs(c - column))
                for r, c in known.items()
            )
            for column in range(1, len(goal) + 1)
        )
    return total


@family("search", share=0.25)
def queens(rng: random.Random, level: int) -> Draft:
    """Place 5, 7 or 8 queens."""
    size, count, least, most = QUEENS_LEVELS[level]
    goal = rng.choice(_queens(size))
    given = [(r + 1, goal[r]) for r in sorted(rng.sample(range(size), count))]
    rivals = [q for q in _queens(size) if q != goal and all(q[r - 1] == c for r, c in given)]
    blocked = _block(rng, goal, rivals)
    if not least <= _queen_options(goal, given, blocked) <= most:
        raise RejectedError
    columns = "".join(map(str, goal))
    moves = [(f"row {row}: column {columns[row - 1]}", f"put('{columns[:row]}')") for row in range(1, size + 1)]
    setup = f"size, given, blocked = {size}, {given}, {blocked}\nqueens = ''\n{QUEENS_HELPER}"
    return Draft(
        fields={
            "size": size,
            "given": "".join(f" In row {r}, column {c} must be used." for r, c in given),
            "blocked": f" Not allowed, as (row, column): {joined(blocked)}." if blocked else "",
        },
        steps=[("the problem", setup), *moves],
        finish=QUEENS_FINISH,
        answer=str(list(goal)),
        numbers=(size, *given, *blocked),
        path=(columns,),
    )


# Cross sums: a board is its digits in reading order.

SUMS_HELPER = """\
def put(now):
    global cells
    d, width = [int(c) for c in now], len(columns)
    assert now[:-1] == cells and now[-1] not in cells and 1 <= d[-1] <= top
    assert len(d) != width or sum(d) == rows[0]
    assert len(d) <= width or d[-1] + d[-1 - width] == columns[len(d) - 1 - width]
    cells = now"""
SUMS_FINISH = "assert len(cells) == 2 * len(columns)\nprint([int(c) for c in cells])"
SUMS_LEVELS = {1: (2, 2, 9), 2: (2, 3, 7), 3: (2, 3, 8), 4: (2, 3, 9), 5: (2, 4, 8)}
"""Rows, columns, largest digit."""


@lru_cache(maxsize=8)
def _sums_boards(height: int, width: int, top: int) -> tuple[tuple[int, ...], ...]:
    """Boards of distinct digits that share all their sums with no other board."""
    by_sums: dict[tuple[int, ...], tuple[int, ...] | None] = {}
    for board in permutations(range(1, top + 1), height * width):
        key = _sums(board, width)
        by_sums[key] = None if key in by_sums else board
    return tuple(board for board in by_sums.values() if board is not None)


def _sums(board: tuple[int, ...], width: int) -> tuple[int, ...]:
    """Row sums, then column sums."""
    rows = (sum(board[i : i + width]) for i in range(0, len(board), width))
    return (*rows, *(sum(board[i::width]) for i in range(width)))


@family("search")
def cross_sums(rng: random.Random, level: int) -> Draft:
    """Fill a small table with given row and column sums."""
    height, width, top = SUMS_LEVELS[level]
    board = rng.choice(_sums_boards(height, width, top))
    sums = _sums(board, width)
    rows, columns = list(sums[:height]), list(sums[height:])
    cells = "".join(map(str, board))
    moves = [
        (f"row {i // width + 1}: {' + '.join(cells[i - i % width : i + 1])}", f"put('{cells[: i + 1]}')")
        for i in range(len(board))
    ]
    return Draft(
        fields={"height": height, "width": width, "top": top, "rows": joined(rows), "columns": joined(columns)},
        steps=[("the problem", f"rows, columns, top, cells = {rows}, {columns}, {top}, ''\n{SUMS_HELPER}"), *moves],
        finish=SUMS_FINISH,
        answer=str(list(board)),
        numbers=(top, *sums),
        path=(f"{width} {board}",),
    )


FAMILIES: tuple[Family, ...] = (queens, cross_sums)
