"""Search families on a 4-by-4 board filled in reading order: Latin squares and small Sudokus.

In reading order the next cell often has several digits that clash with nothing yet; a wrong one shows some cells later,
when no digit is left. `options` measures difficulty: the product, along the solution, of the number of legal moves,
which is the inverse of a random legal player's chance.

Held out: the completed board. A good state contains the problem's clues, so it has a unique completion, and no good
state of a held-out problem occurs in a trained one. The two families share no board either.
"""

from __future__ import annotations

import random
from functools import lru_cache
from itertools import permutations

from rstar.tiny.family import Family, RejectedError
from rstar.tiny.templates import Draft, family

LATIN_HELPER = """\
def put(now):
    global grid
    i = grid.index('0')
    d = now[i]
    assert now == grid.replace('0', d, 1) and d in '1234'
    for line in now.split()[i // 5], now[i % 5::5]:
        assert line.count(d) == 1
    grid = now"""
SUDOKU_HELPER = """\
def put(now):
    global grid
    i = grid.index('0')
    d, b = now[i], i // 10 * 10 + i % 5 // 2 * 2
    assert now == grid.replace('0', d, 1) and d in '1234'
    for part in now.split()[i // 5], now[i % 5::5], now[b:b + 2] + now[b + 5:b + 7]:
        assert part.count(d) == 1
    grid = now"""
SQUARE_FINISH = "assert '0' not in grid\nprint([int(row) for row in grid.split()])"
LATIN_LEVELS = {1: (5, 1, 2), 2: (6, 2, 4), 3: (7, 4, 6), 4: (8, 6, 12), 5: (9, 12, 64)}
SUDOKU_LEVELS = {1: (5, 1, 2), 2: (6, 2, 2), 3: (7, 3, 4), 4: (8, 6, 8), 5: (9, 8, 64)}
"""Empty cells, minimum and maximum number of options."""


@lru_cache(maxsize=2)
def _squares(boxes: bool) -> tuple[str, ...]:
    """All Latin squares of order 4 that are Sudokus (`boxes`) or are not, so the two families share no state."""
    rows = ["".join(p) for p in permutations("1234")]
    boards = [""]
    for _ in range(4):
        boards = [b + r for b in boards for r in rows if all(d not in b[c::4] for c, d in enumerate(r))]
    return tuple(b for b in boards if boxes == all(len({*b[i : i + 2], *b[i + 4 : i + 6]}) == 4 for i in (0, 2, 8, 10)))


@lru_cache(maxsize=2)
def _packed(boxes: bool) -> tuple[int, ...]:
    """Boards that obey the family's rules, one hexadecimal digit per cell."""
    return tuple(int(board, 16) for kind in {boxes, True} for board in _squares(kind))


def _is_unique(board: str, holes: list[int], boxes: bool) -> bool:
    mask = int("".join("0" if i in holes else "f" for i in range(16)), 16)
    clues = int(board, 16) & mask
    return sum(other & mask == clues for other in _packed(boxes)) == 1


def _legal_digits(cells: str, i: int, boxes: bool) -> int:
    """Number of digits that fit cell `i` of a partly filled board."""
    row, column = divmod(i, 4)
    seen = {*cells[4 * row : 4 * row + 4], *cells[column::4]}
    if boxes:
        corner = row // 2 * 8 + column // 2 * 2
        seen |= {*cells[corner : corner + 2], *cells[corner + 4 : corner + 6]}
    return len({*"1234"} - seen)


def _rows(cells: str) -> str:
    return " ".join(cells[i : i + 4] for i in range(0, 16, 4))


def _square(rng: random.Random, level: int, boxes: bool) -> Draft:
    count, least, most = (SUDOKU_LEVELS if boxes else LATIN_LEVELS)[level]
    board = rng.choice(_squares(boxes))
    # Prefer empty cells near the top, which are filled before much is known.
    holes = sorted(sorted(range(16), key=lambda i: rng.random() ** (1 + i / 8), reverse=True)[:count])
    start = "".join("0" if i in holes else d for i, d in enumerate(board))
    options, boards = 1, [start]
    for i in holes:
        cells = boards[-1]
        options *= _legal_digits(cells, i, boxes)
        boards.append(cells[:i] + board[i] + cells[i + 1 :])
    if not least <= options <= most or not _is_unique(board, holes, boxes):
        raise RejectedError
    moves = [
        (f"row {i // 4 + 1} column {i % 4 + 1}: {board[i]}", f"put('{_rows(after)}')")
        for i, after in zip(holes, boards[1:], strict=True)
    ]
    helper = SUDOKU_HELPER if boxes else LATIN_HELPER
    return Draft(
        fields={"grid": _rows(start)},
        steps=[("the problem", f"grid = '{_rows(start)}'\n{helper}"), *moves],
        finish=SQUARE_FINISH,
        answer=str([int(row) for row in _rows(board).split()]),
        numbers=(start,),
        path=(board,),
    )


@family("search")
def latin(rng: random.Random, level: int) -> Draft:
    """Complete a 4 by 4 Latin square."""
    return _square(rng, level, boxes=False)


@family("search")
def sudoku4(rng: random.Random, level: int) -> Draft:
    """Solve a 4 by 4 Sudoku."""
    return _square(rng, level, boxes=True)


FAMILIES: tuple[Family, ...] = (latin, sudoku4)
