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

from rstar.tiny.family import Family, Instance, RejectedError
from rstar.tiny.puzzles.common import listing, question, solution

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

GAME_FORMS = {
    "cards": (
        "Four numbers game: combine the cards {numbers} with +, -, * and / to make 24. Use every card exactly once."
    ),
    "plain": "Use each of the numbers {numbers} exactly once, with +, -, * and /, to get 24.",
    "write": (
        "Write an expression that equals 24. It must contain each of {numbers} exactly once, and only +, -, * and /."
    ),
    "friend": (
        "Mia deals the numbers {numbers} and asks for 24. Find an expression with +, -, * and / that uses each of "
        "them once."
    ),
    "result": "The result must be 24. You have {numbers}, each to be used once, and the signs +, -, * and /.",
    "puzzle": (
        "Puzzle: insert +, -, * or / and brackets between the numbers {numbers}, in any order, so that the value is 24."
    ),
}
GAME_HELD = {
    "how": (
        "How can you reach 24 with {numbers} if every number has to be used exactly one time and only +, -, * and / "
        "are allowed?"
    ),
    "dice": (
        "Someone rolled {numbers}. Calculate with all of these numbers, each one once, until you arrive at 24 by +, "
        "-, * and /."
    ),
}
COUNTDOWN_FORMS = {
    "plain": "Use each of the numbers {numbers} exactly once, with +, -, * and /, to get {goal}.",
    "show": (
        "Countdown: the tiles show {numbers} and the target is {goal}. Use every tile exactly once with +, -, * and /."
    ),
    "write": (
        "Write an expression that equals {goal}. It must contain each of {numbers} exactly once, and only +, -, * and"
        " /."
    ),
    "target": "The target is {goal}. Combine all of {numbers}, each once, with +, -, * and / to hit it.",
    "teacher": (
        "A teacher writes {numbers} on the board. Make {goal} out of them with +, -, * and /, using every number once."
    ),
    "lock": "A lock opens at the value {goal}. The keys are {numbers}; join all of them, each once, by +, -, * and /.",
}
COUNTDOWN_HELD = {
    "how": (
        "How can {goal} be made from {numbers} if every number has to be used exactly one time, with +, -, * and / "
        "only?"
    ),
    "robot": (
        "A robot holds the numbers {numbers}. Tell it a calculation with +, -, * and / that uses each once and ends "
        "at {goal}."
    ),
}
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


def _steps(numbers: list[int], goal: int, way: list[Move]) -> tuple[str, ...]:
    """Steps of a solution; each result is named, and later steps use the name instead of its value."""
    left = [(n, str(n)) for n in numbers]
    moves = []
    for name, (a, sign, b, value) in zip("abcd", way, strict=False):
        first = next(one for one in left if one[0] == a)
        left.remove(first)
        second = next(one for one in left if one[0] == b)
        left.remove(second)
        left.append((value, name))
        moves.append((f"{name} = {first[1]} {sign} {second[1]}", f"{name} = use({first[1]}, '{sign}', {second[1]})"))
    return solution(f"left, goal = {numbers}, {goal}\n{HELPER}", moves, FINISH)


def _expression(numbers: list[int], way: list[Move]) -> str:
    """Expression of a chain of moves, with brackets around every operation but the outermost."""
    pieces = [(n, str(n)) for n in numbers]
    for a, sign, b, value in way:
        first = next(p for p in pieces if p[0] == a)
        pieces.remove(first)
        second = next(p for p in pieces if p[0] == b)
        pieces.remove(second)
        pieces.append((value, f"({first[1]} {sign} {second[1]})"))
    return pieces[0][1][1:-1]


def _make_24(rng: random.Random, level: int, template: str) -> Instance:
    count, top = GAME_LEVELS[level]
    numbers = [rng.randint(1, top) for _ in range(count)]
    start = tuple(sorted(numbers))
    if not _reaches_24(start):
        raise RejectedError
    way, path, state = [], [], start
    while len(state) > 1:
        move, state = rng.choice([(m, after) for m, after in _moves(state) if _reaches_24(after)])
        way.append(move)
        path.append(_text(state))
    return Instance(
        question=question(GAME_FORMS | GAME_HELD, template, numbers=listing(numbers)),
        answer=_expression(numbers, way),
        steps=_steps(numbers, GAME_24, way),
        template=template,
        numbers=start,
        states=_good_states(start),
        path=tuple(path[:-1]),
        check={"kind": "expression", "numbers": numbers, "target": GAME_24},
    )


def _make_countdown(rng: random.Random, level: int, template: str) -> Instance:
    """Combine random numbers: the result is the target, the way there the reference solution."""
    count, top, highest = COUNTDOWN_LEVELS[level]
    numbers = [rng.randint(1, top) for _ in range(count)]
    way, state = [], tuple(sorted(numbers))
    while len(state) > 1:
        # A factor of 1 is legal but dull.
        moves = [(m, after) for m, after in _moves(state) if m[3] <= LARGEST_VALUE and (m[2] > 1 or m[1] in "+-")]
        if not moves:
            raise RejectedError
        move, state = rng.choice(moves)
        way.append(move)
    goal = state[0]
    if not SMALLEST_TARGET <= goal <= highest or goal in (GAME_24, *numbers):
        raise RejectedError
    held_class = str(goal)
    return Instance(
        question=question(COUNTDOWN_FORMS | COUNTDOWN_HELD, template, numbers=listing(numbers), goal=goal),
        answer=_expression(numbers, way),
        steps=_steps(numbers, goal, way),
        template=template,
        numbers=(*sorted(numbers), goal),
        states=frozenset({held_class}),
        path=(held_class,),
        check={"kind": "expression", "numbers": numbers, "target": goal},
    )


FAMILIES = (
    Family(
        "game24",
        "search",
        "make 24 from three or four numbers",
        _make_24,
        templates=GAME_FORMS,
        held_templates=GAME_HELD,
        share=0.45,
    ),
    Family(
        "countdown",
        "search",
        "make a target from three to five numbers",
        _make_countdown,
        templates=COUNTDOWN_FORMS,
        held_templates=COUNTDOWN_HELD,
    ),
)
