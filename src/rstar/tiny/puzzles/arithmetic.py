"""Search families over expressions: the game of 24, and countdown (any target).

A move replaces two of the remaining numbers by their sum, difference, product or quotient. Reference solutions use only
positive integers and write the larger number first, so that equal moves are equal texts; every drawn problem has such a
solution. The answer is an expression, and many are right: `Instance.check` says how to verify.

Held out. *Countdown*: the target. It is part of every state ("these numbers, to make that target") and never changes,
so no state of a held-out problem occurs in a trained one; 24 is never a target. *Game of 24*: the target is always the
same, so the states are the multisets of two or three remaining numbers on all ways to 24, not only the reference's.
Held-out problems therefore over-represent those with few ways, trained ones those with many. The start needs no state
of its own: any training path through it led to a good state.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import lru_cache

from rstar.tiny.family import Family, RejectedError
from rstar.tiny.templates import Draft, family
from rstar.tiny.words import joined

Numbers = tuple[int, ...]
"""Remaining numbers, in ascending order."""
Move = tuple[int, str, int, int]
"""First number, sign, second number, result."""

GAME_24 = 24
HELPER = """\
def use(x, sign, y):
    left.remove(x)
    left.remove(y)
    left.append(f'({x} {sign} {y})')
    assert sign in '+-*/' and eval(left[-1]) > 0 and eval(left[-1]) % 1 == 0
    return left[-1]"""
FINISH = "assert len(left) == 1 and eval(left[0]) == goal\nprint(left[0][1:-1])"

GAME_LEVELS = {1: (3, 13), 2: (4, 10), 3: (4, 13), 4: (4, 18), 5: (4, 25)}
"""How many numbers, largest number."""
COUNTDOWN_LEVELS = {1: (3, 10, 60), 2: (3, 25, 99), 3: (4, 12, 99), 4: (4, 25, 150), 5: (5, 25, 199)}
"""How many numbers, largest number, largest target."""
SMALLEST_TARGET = 10
LARGEST_VALUE = 400


@lru_cache(maxsize=1 << 15)
def _moves(state: Numbers) -> tuple[tuple[Move, Numbers], ...]:
    """Moves from a state (positive integers only, larger number first), each with the state it leads to."""
    moves: dict[Move, Numbers] = {}
    for i, b in enumerate(state):
        for j in range(i + 1, len(state)):
            a = state[j]
            rest = state[:i] + state[i + 1 : j] + state[j + 1 :]
            for sign, value in _results(a, b):
                moves[a, sign, b, value] = tuple(sorted((*rest, value)))
    return tuple(moves.items())


def _results(a: int, b: int) -> Iterator[tuple[str, int]]:
    """Results of combining two numbers, ``a >= b > 0``."""
    yield "+", a + b
    yield "*", a * b
    if a > b:
        yield "-", a - b
    if a % b == 0:
        yield "/", a // b


@lru_cache(maxsize=1 << 17)
def _reaches_24(state: Numbers) -> bool:
    if len(state) == 1:
        return state[0] == GAME_24
    return any(_reaches_24(after) for _, after in _moves(state))


@lru_cache(maxsize=1 << 15)
def _good_states(start: Numbers) -> frozenset[str]:
    """All states strictly between `start` and 24 that lie on some solution."""
    found: set[Numbers] = set()
    border = {start}
    while border:
        border = {s for b in border for _, s in _moves(b) if len(s) > 1 and s not in found and _reaches_24(s)}
        found |= border
    return frozenset(map(_text, found))


def _text(state: Numbers) -> str:
    return " ".join(map(str, state))


def _draft(
    numbers: list[int], goal: int, moves: list[Move], path: tuple[str, ...], states: frozenset[str] | None = None
) -> Draft:
    """The draft with this chain of moves; each result is named, and later steps use the name instead of its value."""
    left = [(n, str(n), str(n)) for n in numbers]  # value, name, expression
    steps = [("the problem", f"left, goal = {numbers}, {goal}\n{HELPER}")]
    for name, (a, sign, b, value) in zip("abcd", moves, strict=False):
        first = next(piece for piece in left if piece[0] == a)
        left.remove(first)
        second = next(piece for piece in left if piece[0] == b)
        left.remove(second)
        left.append((value, name, f"({first[2]} {sign} {second[2]})"))
        steps.append((f"{name} = {first[1]} {sign} {second[1]}", f"{name} = use({first[1]}, '{sign}', {second[1]})"))
    return Draft(
        fields={"numbers": joined(numbers), "goal": goal},
        steps=steps,
        finish=FINISH,
        answer=left[0][2][1:-1],
        numbers=tuple(sorted(numbers)) if goal == GAME_24 else (*sorted(numbers), goal),
        path=path,
        check={"kind": "expression", "numbers": numbers, "target": goal},
        states=states,
    )


@family("search", share=0.45)
def game24(rng: random.Random, level: int) -> Draft:
    """Make 24 from three or four numbers."""
    count, top = GAME_LEVELS[level]
    numbers = [rng.randint(1, top) for _ in range(count)]
    start = tuple(sorted(numbers))
    if not _reaches_24(start):
        raise RejectedError
    moves, path, state = [], [], start
    while len(state) > 1:
        move, state = rng.choice([(m, after) for m, after in _moves(state) if _reaches_24(after)])
        moves.append(move)
        path.append(_text(state))
    return _draft(numbers, GAME_24, moves, tuple(path[:-1]), _good_states(start))


@family("search")
def countdown(rng: random.Random, level: int) -> Draft:
    """Make a target from three to five numbers."""
    # Combine random numbers: the result is the target, the way there the reference solution.
    count, top, highest = COUNTDOWN_LEVELS[level]
    numbers = [rng.randint(1, top) for _ in range(count)]
    moves, state = [], tuple(sorted(numbers))
    while len(state) > 1:
        # A factor of 1 is legal but dull.
        possible = [(m, after) for m, after in _moves(state) if m[3] <= LARGEST_VALUE and (m[2] > 1 or m[1] in "+-")]
        if not possible:
            raise RejectedError
        move, state = rng.choice(possible)
        moves.append(move)
    goal = state[0]
    if not SMALLEST_TARGET <= goal <= highest or goal in (GAME_24, *numbers):
        raise RejectedError
    return _draft(numbers, goal, moves, (str(goal),))


FAMILIES: tuple[Family, ...] = (game24, countdown)
