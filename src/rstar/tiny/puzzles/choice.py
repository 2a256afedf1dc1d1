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


@family(
    "search",
    trained="""
    - Which of the numbers {items} add up to exactly {goal}? Each may be used once. List them in the order given.
    - Stones weigh {items} kg. Some of them together weigh exactly {goal} kg. Which ones? Keep the order.
    - A shop has one article at each of these prices: {items} dollars. Paul spends exactly {goal} dollars. List the
      prices he paid, in the order given.
    - Planks of {items} cm lie in a row. Which ones, end to end, make exactly {goal} cm? Name them from left to right.
    - A list has songs of {items} minutes. Which songs fill a break of exactly {goal} minutes? Give their lengths in
      the order of the list.
    - The targets of a stand give {items} points and fall when hit. Eva has exactly {goal} points. Which targets fell?
      List their points in the order above.
    """,
    held="""
    - Select some of {items} such that their sum is {goal}, and write the selected ones in the same order.
    - Groups of {items} people wait at a river, in this order. A boat with {goal} seats shall leave full, and no group
      is split. Which groups go aboard? Name their sizes in order.
    """,
    share=0.2,
)
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


@family(
    "search",
    trained="""
    - There are coins of {coins} cents, as many as you like of each. Pay exactly {goal} cents with exactly {count}
      coins. List the coins, largest first.
    - On an island the coins are worth {coins} shells. Anna pays {goal} shells with {count} coins and gets nothing
      back. Which coins does she use, from the largest to the smallest?
    - A letter needs stamps worth exactly {goal} cents, and it has room for exactly {count} stamps. Stamps of {coins}
      cents are at hand. List the stamps, largest first.
    - A dart scores {coins} points, depending on the ring. After {count} darts, all of which scored, Ben has {goal}
      points. List the scores, highest first.
    - Pipes come in lengths of {coins} feet. Exactly {count} pipes are joined to a line of exactly {goal} feet. List
      their lengths, longest first.
    - Write {goal} as a sum of exactly {count} numbers, each of them one of {coins}. A number may occur several times.
      List them from large to small.
    """,
    held="""
    - A machine takes coins of {coins} cents and wants {goal} cents in {count} coins, no more and no fewer. Which
      coins do you put in? Begin with the largest.
    - Pens are sold in packs of {coins}. A school bought {count} packs with {goal} pens in all. Name the sizes of the
      packs, the big ones first.
    """,
)
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


@family(
    "search",
    trained="""
    - Boxes of {items} kg go into {count} trucks that carry {room} kg. All trucks are full in the end. List the number
      of the truck of each box, in the order of the boxes.
    - Books {items} cm thick fill {count} shelves of {room} cm without any gap. On which shelf, 1 to {count}, is each
      book? List the shelves in the order of the books.
    - Groups of {items} people fill {count} boats with {room} seats to the last seat, and no group is split. List the
      number of the boat, from 1 to {count}, of each group in this order.
    - Sort each of the numbers {items} into one of {count} sets so that the sums of the sets, from set 1 on, are
      {room}. List the number of the set for each number in turn.
    - Files of {items} GB fill {count} disks of {room} GB completely. Give the list of the disks, numbered from 1, on
      which the files are, file by file.
    """,
    held="""
    - Ida pours cups of {items} spoons into {count} jars that hold {room} spoons, each cup into one jar, until every
      jar is full to the brim. Which jar, 1 to {count}, gets each cup? List them in order.
    - Print jobs of {items} pages keep {count} printers busy, which have {room} sheets of paper, one for each page,
      and none is left. On which printer, from printer 1, runs each job? Write the list, job by job.
    """,
    share=0.2,
)
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


@family(
    "search",
    trained="""
    - There are {count} workers and {count} jobs, and every worker gets a different job. {can:worker} List the jobs
      from worker 1 to worker {count}.
    - In a house of {count} flats, {count} cats, 1 to {count}, look for a home, one in each flat. {can:flat} Which cat
      gets which flat? List the cats by flat.
    - {count} children sit on {count} chairs, one on each. {can:child} List the chairs from child 1 to child {count}.
    - {count} doors are opened by {count} keys, and every key must stay in one door. {can:door} Give the list of the
      keys, door by door.
    - Find an arrangement of the numbers 1 to {count} in which each occurs once. {can:place} Write it as a list from
      place 1 on.
    """,
    held="""
    - A band has {count} singers and {count} songs, and nobody sings two. {can:singer} Which song does each sing? List
      them.
    - {count} guests book {count} rooms of a small inn. {can:guest} Give the list of rooms, guest by guest.
    """,
)
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
