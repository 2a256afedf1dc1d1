"""Search families of walks: buttons that change a number, and roads that visit every place once.

Each problem has exactly one walk. Held out, and part of every state: for *registers*, the buttons and the target
number; for *hamilton*, the map, up to the names of the places.
"""

from __future__ import annotations

import random
from itertools import pairwise

from rstar.tiny.family import Family, RejectedError
from rstar.tiny.templates import Draft, family
from rstar.tiny.words import joined

REGISTERS_HELPER = """\
def press(key):
    global shown, left
    shown, left = keys[key](shown), left - 1
    assert shown in range(100) and left >= 0
    pressed.append(key)"""
REGISTERS_FINISH = "assert shown == goal and left == 0\nprint(pressed)"
REGISTERS_LEVELS = {1: (3, 3), 2: (3, 4), 3: (3, 5), 4: (4, 4), 5: (4, 5)}
"""Number of buttons, number of presses."""

Operation = tuple[str, int]
"""Sign (``+ - * /``) and number; division only where it is exact."""
Walk = tuple[int, ...]
WORDS = {"+": "adds {}", "-": "subtracts {}", "*": "multiplies by {}", "/": "divides by {}, if there is no rest"}


def _operations(rng: random.Random, count: int) -> list[Operation]:
    """Draw `count` operations, at most four, with different signs."""
    return [(sign, rng.randint(2, 15) if sign in "+-" else rng.randint(2, 4)) for sign in rng.sample("+-*/", count)]


def _after(operation: Operation, value: int) -> int | None:
    """Result of the operation, or None if it is not allowed."""
    sign, n = operation
    if sign == "/":
        return value // n if value % n == 0 else None
    value = value + n if sign == "+" else value - n if sign == "-" else value * n
    return value if 0 <= value <= 99 else None


@family("search")
def registers(rng: random.Random, level: int) -> Draft:
    """Reach a number with a given number of button presses."""
    kinds, count = REGISTERS_LEVELS[level]
    keys, start = _operations(rng, kinds), rng.randint(1, 40)
    # For every reachable number: how many walks lead to it, and the buttons of one of them.
    walks: dict[int, tuple[int, Walk]] = {start: (1, ())}
    for _ in range(count):
        after: dict[int, tuple[int, Walk]] = {}
        for value, (ways, walk) in walks.items():
            for key, operation in enumerate(keys, 1):
                shown = _after(operation, value)
                if shown is not None:
                    after[shown] = (after.get(shown, (0, ()))[0] + ways, (*walk, key))
        walks = after
    goals = [v for v, (ways, walk) in walks.items() if ways == 1 and v != start and len(set(walk)) > 1]
    if not goals:
        raise RejectedError
    goal = rng.choice(goals)
    moves = [(f"button {key}: {' '.join(map(str, keys[key - 1]))}", f"press({key})") for key in walks[goal][1]]
    rules = [f"Button {key} {WORDS[sign].format(n)}." for key, (sign, n) in enumerate(keys, 1)]
    table = ", ".join(f"{key}: lambda n: n {sign} {n}" for key, (sign, n) in enumerate(keys, 1))
    setup = f"keys = {{{table}}}\nshown, goal, left, pressed = {start}, {goal}, {count}, []\n{REGISTERS_HELPER}"
    return Draft(
        fields={"start": start, "goal": goal, "count": count, "keys": " ".join(rules)},
        steps=[("the problem", setup), *moves],
        finish=REGISTERS_FINISH,
        answer=str(list(walks[goal][1])),
        numbers=(start, *keys, goal, count),
        path=(f"{sorted(keys)} {goal}",),
    )


HAMILTON_HELPER = """\
def go(now):
    global path
    assert now[:-1] == path and now[-1] not in path
    assert '-'.join(sorted(now[-2:])) in roads
    path = now"""
HAMILTON_FINISH = "assert len(path) == places\nprint([int(p) for p in path])"
HAMILTON_LEVELS = {1: (6, 2, 6), 2: (7, 6, 12), 3: (8, 10, 24), 4: (8, 24, 200), 5: (9, 40, 1000)}
"""Number of places, minimum and maximum number of options."""


def _is_only_path(roads: list[int], path: list[int]) -> bool:
    """Whether `path` is the only path from its start through all places. Bit q of `roads[p]`: road from p to q."""
    everything = sum(1 << place for place in path)
    found = 0
    stack = [(path[0], 1 << path[0])]
    while stack and found < 2:
        place, seen = stack.pop()
        if seen == everything:
            found += 1
        free = roads[place] & ~seen
        while free:
            bit = free & -free
            free ^= bit
            stack.append((bit.bit_length() - 1, seen | bit))
    return found == 1


@family("search", share=0.2)
def hamilton(rng: random.Random, level: int) -> Draft:
    """Visit every place on a small map once."""
    # A path, and additional roads that keep it the only one.
    size, least, most = HAMILTON_LEVELS[level]
    path = rng.sample(range(1, size + 1), size)
    roads = [0] * (size + 1)
    for a, b in pairwise(path):
        roads[a] |= 1 << b
        roads[b] |= 1 << a
    others = [(a, b) for i, a in enumerate(path) for b in path[i + 2 :]]
    rng.shuffle(others)
    for a, b in others[: rng.randint(len(others) // 2, len(others))]:
        roads[a] ^= 1 << b
        roads[b] ^= 1 << a
        if not _is_only_path(roads, path):
            roads[a] ^= 1 << b
            roads[b] ^= 1 << a
    options, free = 1, sum(1 << place for place in path)
    for place in path[:-1]:
        free ^= 1 << place
        options *= (roads[place] & free).bit_count()
    if not least <= options <= most:
        raise RejectedError
    pairs = [(a, b) for a in range(1, size + 1) for b in range(a + 1, size + 1) if roads[a] >> b & 1]
    text = "".join(map(str, path))
    moves = [(f"{text[n - 2]} to {text[n - 1]}", f"go('{text[:n]}')") for n in range(2, size + 1)]
    names = " ".join(f"{a}-{b}" for a, b in pairs)
    setup = f"places, path, roads = {size}, '{path[0]}', '{names}'.split()\n{HAMILTON_HELPER}"
    # Number the places by their order in the walk: maps that differ only in place names become equal.
    order = {place: n for n, place in enumerate(path)}
    return Draft(
        fields={"size": size, "start": path[0], "roads": joined(f"{a}-{b}" for a, b in pairs)},
        steps=[("the problem", setup), *moves],
        finish=HAMILTON_FINISH,
        answer=str(path),
        numbers=(path[0], names),
        path=(str(sorted(sorted((order[a], order[b])) for a, b in pairs)),),
    )


FAMILIES: tuple[Family, ...] = (registers, hamilton)
