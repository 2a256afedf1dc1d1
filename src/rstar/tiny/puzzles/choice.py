"""Search families that choose items in order: subset sums, exact change, loading trucks, assignments.

A choice that fits now can leave a remainder that cannot be completed. Each problem has exactly one solution; the
generator counts solutions directly instead of searching.

Held out, so that no good state of a held-out problem occurs in a trained one. *subset-sum* and *loading*: the last item
of the list. Items are considered in list order and a state is "these items left, this much missing", so every state on
the way still contains it (and the number of trucks). *change*: the set of coins, part of every state. *assign*: the
table of who can do what, up to the names of the jobs, part of every state.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement

from rstar.tiny.family import Family, RejectedError
from rstar.tiny.templates import Draft, family
from rstar.tiny.words import joined

SUBSET_HELPER = """\
def take(n):
    global items, rest
    items, rest = items[items.index(n) + 1:], rest - n
    taken.append(n)
    assert 0 <= rest <= sum(items)"""
SUBSET_FINISH = "assert rest == 0\nprint(*taken, sep=', ')"
SUBSET_LEVELS = {1: (5, 2, 3, 20), 2: (6, 3, 3, 25), 3: (7, 3, 4, 30), 4: (8, 4, 5, 40), 5: (9, 4, 6, 60)}
"""Number of items, minimum and maximum number taken, largest item."""


@family("search", share=0.2)
def subset_sum(rng: random.Random, level: int) -> Draft:
    """Find the items that add up to a target."""
    count, least, most, top = SUBSET_LEVELS[level]
    items = rng.sample(range(2, top + 1), count)
    taken = sorted(rng.sample(range(count), rng.randint(least, most)))
    goal = sum(items[i] for i in taken)
    if _subsets(items, goal) != 1:
        raise RejectedError
    chosen = [items[i] for i in taken]
    moves = [(f"take {n}", f"take({n})") for n in chosen]
    return Draft(
        fields={"items": joined(items), "goal": goal},
        steps=[("the problem", f"items, rest, taken = {items}, {goal}, []\n{SUBSET_HELPER}"), *moves],
        finish=SUBSET_FINISH,
        answer=", ".join(map(str, chosen)),
        numbers=(*items, goal),
        path=(f"last {items[-1]}",),
    )


def _subsets(items: Sequence[int], goal: int) -> int:
    """Number of subsets with sum `goal`: the coefficient of x**goal in the product of all (1 + x**item)."""
    product = 1  # 16 bits per coefficient (at most 2**9 subsets)
    for item in items:
        product += product << 16 * item
    return product >> 16 * goal & 0xFFFF


CHANGE_HELPER = """\
def pay(coin):
    global rest, left
    rest, left = rest - coin, left - 1
    paid.append(coin)
    assert coin in coins and coin == min(paid)
    assert left * coins[-1] <= rest <= left * coin"""
CHANGE_FINISH = "assert rest == left == 0\nprint(*paid, sep=', ')"
CHANGE_LEVELS = {1: (3, 3, 15), 2: (4, 4, 20), 3: (4, 5, 30), 4: (5, 5, 40), 5: (5, 7, 50)}
"""Kinds of coins, coins to pay with, largest coin."""


@family("search")
def change(rng: random.Random, level: int) -> Draft:
    """Pay an exact amount with a given number of coins."""
    kinds, count, top = CHANGE_LEVELS[level]
    coins = sorted(rng.sample(range(2, top + 1), kinds), reverse=True)
    paid = tuple(sorted((rng.choice(coins) for _ in range(count)), reverse=True))
    goal = sum(paid)
    if len(set(paid)) == 1 or sum(sum(c) == goal for c in combinations_with_replacement(coins, count)) != 1:
        raise RejectedError
    moves = [(f"pay {coin}", f"pay({coin})") for coin in paid]
    return Draft(
        fields={"coins": joined(coins), "goal": goal, "count": count},
        steps=[("the problem", f"coins, rest, left, paid = {coins}, {goal}, {count}, []\n{CHANGE_HELPER}"), *moves],
        finish=CHANGE_FINISH,
        answer=", ".join(map(str, paid)),
        numbers=(*coins, goal, count),
        path=(str(coins),),
    )


LOADING_HELPER = """\
def load(item, truck):
    assert item == items.pop(0) and truck > 0
    room[truck - 1] -= item
    assert min(room) >= 0
    trucks.append(truck)"""
LOADING_FINISH = "assert not items and not any(room)\nprint(trucks)"
LOADING_LEVELS = {1: (4, 2, 20), 2: (6, 2, 25), 3: (6, 3, 30), 4: (7, 3, 40), 5: (8, 3, 60)}
"""Number of items, number of trucks, largest item."""


@family("search", share=0.2)
def loading(rng: random.Random, level: int) -> Draft:
    """Fill trucks exactly."""
    count, kinds, top = LOADING_LEVELS[level]
    items = rng.sample(range(2, top + 1), count)
    trucks = [rng.randint(1, kinds) for _ in items]
    room = [sum(n for n, t in zip(items, trucks, strict=True) if t == truck) for truck in range(1, kinds + 1)]
    if 0 in room or len(set(room)) < kinds or _ways_to_load(items, room) != 1:
        raise RejectedError
    moves = [(f"{item} in {truck}", f"load({item}, {truck})") for item, truck in zip(items, trucks, strict=True)]
    return Draft(
        fields={"items": joined(items), "room": joined(room), "count": kinds},
        steps=[("the problem", f"items, room, trucks = {items}, {room}, []\n{LOADING_HELPER}"), *moves],
        finish=LOADING_FINISH,
        answer=str(trucks),
        numbers=(*items, *room),
        path=(f"{kinds} trucks, last {items[-1]}",),
    )


def _ways_to_load(items: Sequence[int], room: Sequence[int]) -> int:
    """Number of ways to fill every truck exactly (the items weigh as much as there is room)."""
    ways = Counter({tuple(room): 1})
    for item in items:
        after: Counter[tuple[int, ...]] = Counter()
        for left, n in ways.items():
            for i, space in enumerate(left):
                if space >= item:
                    after[(*left[:i], space - item, *left[i + 1 :])] += n
        ways = after
    return ways.total()


ASSIGN_HELPER = """\
def give(now):
    global jobs
    assert now[:-1] == jobs and now[-1] not in jobs and now[-1] in can[len(jobs)]
    jobs = now"""
ASSIGN_FINISH = "assert len(jobs) == len(can)\nprint([int(job) for job in jobs])"
ASSIGN_SENTENCES = {
    "worker": "Worker {n} can do {jobs}.",
    "flat": "Flat {n} suits cat {jobs}.",
    "child": "Child {n} likes {jobs}.",
    "door": "Door {n} takes {jobs}.",
    "place": "Place {n} may hold {jobs}.",
    "singer": "Singer {n} knows {jobs}.",
    "guest": "Guest {n} accepts {jobs}.",
}


@dataclass(frozen=True, slots=True)
class Abilities:
    """The jobs that each worker can do, as sentences of the kind that the format spec names: ``{can:worker}``."""

    jobs: Sequence[Sequence[int]]

    def __format__(self, spec: str) -> str:
        return " ".join(
            ASSIGN_SENTENCES[spec].format(n=n, jobs=joined(able, "or")) for n, able in enumerate(self.jobs, 1)
        )


ASSIGN_LEVELS = {1: (4, 0.6, 2, 8), 2: (5, 0.7, 4, 16), 3: (6, 0.8, 12, 40), 4: (7, 0.8, 30, 120), 5: (8, 0.8, 80, 600)}
"""Number of workers, probability of an extra job, minimum and maximum number of options."""


@family("search")
def assign(rng: random.Random, level: int) -> Draft:
    """Give every worker a different job."""
    # A solution, with extra abilities that form no cycle of swaps, which keeps the solution unique.
    count, density, least, most = ASSIGN_LEVELS[level]
    jobs = rng.sample(range(1, count + 1), count)
    rank = rng.sample(range(count), count)
    extra = [[rank[j] > rank[i] and rng.random() < density for j in range(count)] for i in range(count)]
    can = [sorted(jobs[j] for j in range(count) if i == j or extra[i][j]) for i in range(count)]
    options = 1
    for worker in range(count):
        options *= len({*can[worker]} - {*jobs[:worker]})
    if not least <= options <= most:
        raise RejectedError
    text = "".join(map(str, jobs))
    moves = [(f"{worker}: {jobs[worker - 1]}", f"give('{text[:worker]}')") for worker in range(1, count + 1)]
    table = ["".join(map(str, able)) for able in can]
    # Rename the jobs so that worker i does job i: tables that differ only in job names become equal.
    return Draft(
        fields={"count": count, "can": Abilities(can)},
        steps=[("the problem", f"can, jobs = {table}, ''\n{ASSIGN_HELPER}"), *moves],
        finish=ASSIGN_FINISH,
        answer=str(jobs),
        numbers=tuple(table),
        path=(str([sorted(jobs.index(job) for job in able) for able in can]),),
    )


FAMILIES: tuple[Family, ...] = (subset_sum, change, loading, assign)
