"""Choosing, arranging and pairing: `FAMILIES`. Templates and drafts: see `rstar.tiny.templates`."""

from __future__ import annotations

from itertools import combinations, pairwise
from math import prod
from random import Random

from rstar.tiny.family import Family, RejectedError
from rstar.tiny.templates import Draft, family
from rstar.tiny.words import PUPILS, SMALL, TOWNS, people, things


def _pascal(n: int, k: int) -> int:
    """Number of subsets of size k of n items, by Pascal's triangle."""
    row = [1]
    for _ in range(n):
        row = [1, *(a + b for a, b in pairwise(row)), 1]
    return row[k] if k <= n else 0


@family("counting")
def choose(r: Random, level: int) -> Draft:
    """Unordered choices from one to three groups, with some that must or must not be chosen."""
    n, k = r.randint(6, 30), r.randint(2, 5)
    m, j = (r.randint(4, 9), r.randint(2, 3)) if level in (2, 4, 5) else (None, None)
    f, g = (r.randint(4, 8), r.randint(2, 3)) if level == 5 else (None, None)
    if n <= k + 2:
        raise RejectedError
    form = r.choice(("must", "no")) if level >= 3 and k > 2 else "no" if level >= 3 else ""
    must = r.randint(2, k - 1) if form == "must" else 0
    no = r.randint(2, (n - k) // 2 + 1) if form == "no" else 0
    load = "from math import comb\n"
    steps = []
    if must:
        steps = [(f"{must} are taken, {k} - {must} to choose", f"n = {n} - {must}\nk = {k} - {must}")]
        steps.append(("choose k of n", f"{load}x = comb(n, k)"))
    elif no:
        steps = [(f"{n} without {no}", f"n = {n} - {no}"), (f"choose {k} of n", f"{load}x = comb(n, {k})")]
    else:
        steps = [(f"choose {k} of {n}", f"{load}x = comb({n}, {k})")]
    steps += [(f"choose {j} of {m}", f"y = comb({m}, {j})")] if m else []
    steps += [(f"choose {g} of {f}", f"z = comb({f}, {g})")] if f else []
    steps += [("all together", f"x = x * y{' * z' if f else ''}")] if m else []
    answer = _pascal(n - must - no, k - must) * _pascal(m or 0, j or 0) * _pascal(f or 0, g or 0)
    i1, i2, i3 = things(r, 3, SMALL)
    return Draft(
        fields={
            "p": people(r, 1)[0], "who": r.choice(PUPILS), "i1": i1, "i2": i2, "i3": i3, "n": n, "k": k, "m": m, "j": j,
            "f": f, "g": g, "c": must or None, "o": no or None, "z": r.randint(20, 90) if level >= 4 else None,
        },
        steps=steps,
        answer=answer,
        numbers=(n, k, m, j, f, g, must, no),
    )  # fmt: skip


@family("counting")
def arrange(r: Random, level: int) -> Draft:
    """Arrangements in order, of all or some, with some that stay together."""
    some = level in (1, 4)
    n, k = (r.randint(5, 40), r.randint(2, 4)) if some else (r.randint(4, 9), None)
    c = r.randint(2, n - 1) if level in (3, 5) else None
    m = r.randint(3, 8) if level in (2, 4, 5) else None
    steps = [(f"{k} of {n} in order", f"from math import perm\nx = perm({n}, {k})")]
    if c:
        steps = [
            (f"{c} together are one thing", f"k = {n} - {c} + 1"),
            (f"orders of k, and of the {c}", f"from math import factorial\nx = factorial(k) * factorial({c})"),
        ]
    elif not k:
        steps = [(f"orders of {n}", f"from math import factorial\nx = factorial({n})")]
    load = "from math import factorial\n" if k else ""
    steps += [(f"orders of {m}", f"{load}y = factorial({m})"), ("both", "x = x * y")] if m else []
    whole = prod(range(1, n - (c or 1) + 2)) * prod(range(1, (c or 1) + 1))
    answer = (prod(n - i for i in range(k)) if k else whole) * prod(range(1, (m or 1) + 1))
    if answer > 10**8:
        raise RejectedError
    (p, q), (item, other) = people(r, 2), things(r, 2, SMALL)
    return Draft(
        fields={
            "p": p, "q": q, "item": item, "other": other, "who": r.choice(PUPILS),
            "town": r.choice(TOWNS), "n": n, "k": k, "c": c, "m": m,
            "all": None if k else True, "z": r.randint(20, 90) if level >= 4 else None,
        },
        steps=steps,
        answer=answer,
        numbers=(n, k, c, m),
    )  # fmt: skip


@family("counting")
def pairs(r: Random, level: int) -> Draft:
    """Handshakes and games of everyone with everyone else, and how many people there are."""
    n = r.randint(4, 60) if level > 1 else r.randint(4, 300)
    k = r.randint(2, 12) if level == 2 else None
    g = r.randint(2, 8) if level == 3 else None
    c = r.randint(3, 12) if level == 5 else None
    count = n * (n - 1) // 2
    match level:
        case 3:
            answer = sum(n * n for _ in combinations(range(g or 0), 2))
            steps = [
                ("each with the other groups", f"k = {n} * ({g} - 1)"),
                (f"{g} times {n} people", f"n = {g} * {n}"),
                ("each pair once", "x = n * k // 2"),
            ]
        case 4:
            n = r.randint(4, 300)
            count = sum(range(n))
            answer = n
            steps = [("try from 2", "n = 2"), (f"until {count}", f"while n * (n - 1) // 2 < {count}:\n    n = n + 1")]
            steps.append(("check", f"assert n * (n - 1) // 2 == {count}"))
        case 5:
            everyone = 2 * (c or 0) + n
            answer = sum(range(everyone)) - (c or 0)
            steps = [
                (f"{c} pairs and {n}", f"n = 2 * {c} + {n}"),
                ("all with all", "x = n * (n - 1) // 2"),
                (f"without {c} pairs", f"x = x - {c}"),
            ]
        case _:
            answer = sum(range(n)) * (k or 1)
            steps = [("each pair once", f"x = {n} * ({n} - 1) // 2")]
            steps += [(f"{k} times", f"x = x * {k}")] if k else []
    return Draft(
        fields={
            "p": people(r, 1)[0], "town": r.choice(TOWNS), "n": None if level == 4 else n, "k": k, "g": g, "c": c,
            "total": count if level == 4 else None, "z": r.randint(20, 90) if level >= 4 else None,
        },
        steps=steps,
        show="n" if level == 4 else "x",
        answer=answer,
        numbers=(n, k, g, c, level == 4),
    )  # fmt: skip


FAMILIES: tuple[Family, ...] = (choose, arrange, pairs)
