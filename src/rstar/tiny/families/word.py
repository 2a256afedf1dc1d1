"""Word problems about amounts of things: sharing, packing, stocks over time, comparisons, ages: `FAMILIES`.

Templates and drafts: see `rstar.tiny.templates`.
"""

from __future__ import annotations

from random import Random

from rstar.tiny.family import Family, RejectedError
from rstar.tiny.templates import Draft, family
from rstar.tiny.words import BOXES, FOOD, PLACES, PUPILS, SMALL, TOWNS, people, things


@family("word")
def sharing(r: Random, level: int) -> Draft:
    """Equal shares and what is left over."""
    rest = r.random() < 0.5
    a, b = r.randint(2, 4 + 3 * level), r.randint(3, 6 + 4 * level)
    c = r.randint(4, 20 * level) if level >= 3 else None
    e = r.randint(2, 10 * level) if level >= 4 else None
    n = r.randint(12, 150) if level == 1 else a * b + (c or 0) - (e or 0)
    fitting = [k for k in range(3, 6 + 2 * level) if n >= 2 * k and (n % k != 0) is rest]
    if not fitting:
        raise RejectedError
    k = r.choice(fitting)
    steps = [(f"{a} times {b}", f"n = {a} * {b}")] if level >= 2 else []
    steps += [(f"{c} more", f"n = n + {c}")] if c else []
    steps += [(f"{e} less", f"n = n - {e}")] if e else []
    total = str(n) if level == 1 else "n"
    if rest:
        steps.append((f"left over from {total} for {k}", f"x = {total} % {k}"))
    else:
        steps.append((f"{total} shared by {k}", f"assert {total} % {k} == 0\nx = {total} // {k}"))
    item, other = things(r, 2, FOOD)
    p, q = people(r, 2)
    some = {"n": n} if level == 1 else {"a": a, "b": b}
    return Draft(
        fields={
            "p": p, "q": q, "k": k, "who": r.choice(PUPILS), "item": item, "other": other, "box": r.choice(BOXES),
            "c": c, "e": e, "d": r.randint(2, 40) if level >= 4 else None, "rest": rest or None, **some,
        },
        steps=steps,
        answer=n - k * max(i for i in range(n + 1) if i * k <= n) if rest else next(i for i in range(n) if i * k == n),
        numbers=(*some.values(), c, e, k, rest),
    )  # fmt: skip


@family("word")
def packing(r: Random, level: int) -> Draft:
    """Boxes needed for items, and their price."""
    a, b = r.randint(3, 5 + 3 * level), r.randint(5, 8 + 5 * level)
    n = r.randint(20, 200) if level == 1 else None
    c = r.randint(5, 20 * level) if level >= 3 else None
    e = r.randint(2, 12) if level >= 4 else None
    m = r.randint(2, 9) if level == 5 else None
    k = r.randint(4, 8 + 2 * level)
    size = (n or a * b) + (c or 0) - (e or 0)
    boxes = sum(1 for _ in range(0, size, k))
    if boxes < 2:
        raise RejectedError
    steps = [(f"{a} times {b}", f"n = {a} * {b}")] if not n else []
    steps += [(f"{c} more", f"n = n + {c}")] if c else []
    steps += [(f"{e} less", f"n = n - {e}")] if e else []
    steps.append((f"{n or 'n'} in groups of {k}, rounded up", f"x = -(-{n or 'n'} // {k})"))
    steps += [(f"x at {m} each", f"t = x * {m}")] if m else []
    item, other = things(r, 2, SMALL)
    p, q = people(r, 2)
    return Draft(
        fields={
            "p": p, "q": q, "item": item, "other": other, "box": r.choice(BOXES), "place": r.choice(PLACES), "k": k,
            "n": n, "c": c, "e": e, "m": m, "d": r.randint(3, 60) if level >= 4 else None,
            **({} if n else {"a": a, "b": b}),
        },
        steps=steps,
        show="t" if m else "x",
        answer=boxes * (m or 1),
        numbers=(n or (a, b), c, e, k, m),
    )  # fmt: skip


@family("word")
def ages(r: Random, level: int) -> Draft:
    """Ages now, in some years and some years ago."""
    b, times = r.randint(3, 25 + 5 * level), r.random() < 0.5 and level != 5
    k = r.randint(2, 5) if times else None
    a = None if k else r.randint(2, 25 + 4 * level)
    e = m = None
    if level == 5:  # in e years the older one is m times as old
        m, e = r.randint(2, 4), r.randint(2, 15)
        a = (b + e) * (m - 1)
    old = b * k if k else b + (a or 0)
    later = r.choice("fg") if level in (2, 3, 5) else ""
    years = r.randint(2, min(12, old - 1))
    sum_ = old + b if level in (3, 4) else None
    if old > 99:
        raise RejectedError
    match level:
        case 1 | 2:
            steps = [(f"{k} times {b}", f"n = {b} * {k}") if k else (f"{a} years more than {b}", f"n = {b} + {a}")]
        case 3 | 4 if k:
            steps = [(f"{sum_} is 1 and {k} parts", f"b = {sum_} // (1 + {k})"), (f"{k} parts", f"n = b * {k}")]
        case 3 | 4:
            steps = [(f"twice the younger is {sum_} - {a}", f"b = ({sum_} - {a}) // 2"), (f"{a} more", f"n = b + {a}")]
        case _:
            steps = [
                (f"then {a} is {m} - 1 times the younger", f"b = {a} // ({m} - 1)"),
                (f"{e} years before", f"b = b - {e}"),
                (f"{a} years older", f"n = b + {a}"),
            ]
    if level in (3, 4):
        steps.append((f"ages make {sum_}", f"assert n + b == {sum_}"))
    if level == 5:
        steps.append((f"check in {e} years", f"assert n + {e} == {m} * (b + {e})"))
    if later == "f":
        steps.append((f"{years} years later", f"n = n + {years}"))
    if later == "g":
        steps.append((f"{years} years ago", f"n = n - {years}"))
    young = [n for n in range(1, 120) if (sum_ is None or n * (k or 1) + (a or 0) + n == sum_)
             and (not m or n + (a or 0) + (e or 0) == m * (n + (e or 0)))]  # fmt: skip
    found = young[0] if level >= 3 else b
    p, q, x = people(r, 3)
    town, town2 = r.sample(TOWNS, 2)
    return Draft(
        fields={
            "p": p, "q": q, "x": x, "town": town, "town2": town2, "a": a, "k": k, "e": e, "m": m,
            "b": b if level <= 2 else None, "sum": sum_, "f": years if later == "f" else None,
            "g": years if later == "g" else None,
            "d": r.randint(20, 90) if level >= 4 else None,
        },
        steps=steps,
        show="n",
        answer=found * (k or 1) + (a or 0) + (years if later == "f" else -years if later else 0),
        numbers=(a, k, b, e, m, later, years if later else 0, level >= 3),
    )  # fmt: skip


FAMILIES: tuple[Family, ...] = (sharing, packing, ages)
