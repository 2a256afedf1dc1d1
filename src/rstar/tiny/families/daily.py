"""Word problems about recipes, times of day, units, areas and averages: `FAMILIES`.

Templates and drafts: see `rstar.tiny.templates`.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from fractions import Fraction
from random import Random

from rstar.tiny.family import Family, RejectedError
from rstar.tiny.templates import Draft, family
from rstar.tiny.words import BAKED, SMALL, joined, people, things


@family("word")
def recipe(r: Random, level: int) -> Draft:
    """A recipe scaled to another number of servings, as a fraction where necessary."""
    s, n = r.randint(2, 12), r.randint(3, 30 + 6 * level)
    a = r.randint(2, 15)
    b = r.randint(2, 9) if level in (3, 5) else None
    need = Fraction((a + (b or 0)) * n, s)
    h = r.randint(1, max(1, int(need) - 1)) if level >= 4 else None
    if n == s or (level == 1 and n % s) or (h or 0) >= need or (level > 1 and need.denominator > 6) or h == 1:
        raise RejectedError
    if level == 1:
        steps = [(f"{n} is how many times {s}", f"k = {n} // {s}"), (f"{a} cups each time", f"x = {a} * k")]
    else:
        load = "from fractions import Fraction\n"
        steps = [(f"{a} and {b} cups", f"a = {a} + {b}")] if b else []
        steps.append((f"cups for one of {s}", f"{load}k = Fraction({'a' if b else a}, {s})"))
        steps.append((f"cups for {n}", f"x = k * {n}"))
        steps += [(f"{h} are there", f"x = x - {h}")] if h else []
    p, q = people(r, 2)
    x, y = r.sample(("flour", "sugar", "milk", "oats", "butter", "cocoa", "honey", "water"), 2)
    return Draft(
        fields={
            "p": p, "q": q, "cake": r.choice(BAKED), "x": x, "y": y, "s": s, "n": n, "a": a, "b": b, "h": h,
            "z": r.randint(13, 90) if level >= 4 else None,
        },
        steps=steps,
        answer=need - (h or 0),
        numbers=(s, n, a, b, h),
    )  # fmt: skip


@family("word")
def clock(r: Random, level: int) -> Draft:
    """Minutes between two times of day, less breaks, over days and weeks."""
    h1, m1 = r.randint(6, 12), r.randint(10, 59)
    h2, m2 = r.randint(h1 + 1, min(h1 + 9, 19)), r.randint(10, 59)
    c = r.randint(5, 45) if level >= 2 else None
    d = r.randint(2, 6) if level >= 3 else None
    k = r.randint(2, 9) if level >= 4 else None
    day = (datetime(1, 1, 1, h2, m2) - datetime(1, 1, 1, h1, m1)) // timedelta(minutes=1) - (c or 0)
    if day < 15:
        raise RejectedError
    steps = [
        (f"minutes at {h1}:{m1}", f"a = {h1} * 60 + {m1}"),
        (f"minutes at {h2}:{m2}", f"b = {h2} * 60 + {m2}"),
        ("time between", "x = b - a"),
    ]
    if level >= 3:
        steps = [(f"from {h1}:{m1} to {h2}:{m2}", f"a = {h1} * 60 + {m1}\nx = {h2} * 60 + {m2} - a")]
    steps += [(f"{c} minutes less", f"x = x - {c}")] if c else []
    steps += [(f"{d} days", f"x = x * {d}")] if d else []
    steps += [(f"{k} weeks", f"x = x * {k}")] if k else []
    p, q = people(r, 2)
    return Draft(
        fields={
            "p": p, "q": q, "t1": f"{h1}:{m1}", "t2": f"{h2}:{m2}", "c": c, "d": d, "k": k,
            "z": r.randint(5, 12) if level == 5 else None,
        },
        steps=steps,
        answer=day * (d or 1) * (k or 1),
        numbers=(h1, m1, h2, m2, c, d, k),
    )  # fmt: skip


_UNITS = (
    ("km", "m", 1000, "rope"), ("m", "cm", 100, "ribbon"), ("feet", "inches", 12, "wood"),
    ("yards", "feet", 3, "cloth"), ("cm", "mm", 10, "wire"), ("kg", "grams", 1000, "rice"),
    ("litres", "ml", 1000, "juice"), ("hours", "minutes", 60, "music"),
    ("minutes", "seconds", 60, "film"), ("days", "hours", 24, "work"), ("weeks", "days", 7, "holiday"),
)  # fmt: skip


@family("word")
def units(r: Random, level: int) -> Draft:
    """Mixed units: the amount left, and the number of parts it makes."""
    big, small, factor, stuff = r.choice(_UNITS)
    a = r.randint(2, 12 + 4 * level) if factor > 60 else r.randint(2, 30 + 10 * level)
    b = r.randint(2, factor - 1) if level >= 2 else None
    size = sum(factor for _ in range(a)) + (b or 0)
    u = r.randint(2, size // 2) if level >= 3 else None
    left = size - (u or 0)
    k = r.randint(2, max(2, left // 3)) if level >= 4 else None
    steps = [(f"{factor} {small} each", f"x = {a} * {factor}")]
    steps += [(f"{b} more", f"x = x + {b}")] if b else []
    steps += [(f"{u} less", f"x = x - {u}")] if u else []
    steps += [(f"whole parts of {k}", f"x = x // {k}")] if k else []
    if k == left or (k and level == 4 and left % k):
        raise RejectedError
    p, q = people(r, 2)
    return Draft(
        fields={
            "p": p, "q": q, "item": things(r, 1, SMALL)[0], "a": a, "b": b, "u": u, "k": k, "big": big, "small": small,
            "stuff": stuff, "z": r.randint(3, 90) if level == 5 else None,
        },
        steps=steps,
        answer=len(range(0, left - k + 1, k)) if k else left,
        numbers=(a, big, b, u, k),
    )  # fmt: skip


@family("word")
def area(r: Random, level: int) -> Draft:
    """Area or perimeter of a rectangle, with a part left out, and their cost."""
    asked = r.choice((("size", "round"), ("cost", "fence"), ("size", "fence"), ("cost",), ("both",))[level - 1])
    n, w = r.randint(5, 20 + 10 * level), r.randint(4, 20 + 5 * level)
    hole = level >= 4 or (level == 3 and asked == "size")
    a, b = (r.randint(2, n - 2), r.randint(2, w - 1)) if hole else (None, None)
    c = r.randint(2, 9) if asked in ("cost", "both") else None
    f = r.randint(2, 9 if level < 3 else 30) if asked in ("fence", "both") else None
    steps = []
    if asked in ("size", "cost", "both"):
        steps.append((f"area of {n} by {w}", f"x = {n} * {w}"))
        steps += [(f"without {a} by {b}", f"x = x - {a} * {b}")] if hole else []
        steps += [(f"at {c} each", f"x = x * {c}")] if c else []
    if asked in ("round", "fence", "both"):
        steps.append((f"around {n} by {w}", f"y = 2 * ({n} + {w})"))
        steps += [(f"at {f} each", f"y = y * {f}")] if f else []
    steps += [("both", "x = x + y")] if asked == "both" else []
    free = sum(w - (b or 0) if row < (a or 0) else w for row in range(n))
    border = sum(1 for x in range(n + 2) for y in range(w + 2) if x in (0, n + 1) or y in (0, w + 1)) - 4
    p, q = people(r, 2)
    return Draft(
        fields={
            "p": p, "q": q, "l": n, "w": w, "a": a, "b": b, "c": c, "f": f, "both": "both" if asked == "both" else None,
            "z": r.randint(11, 60) if level >= 4 else None, "size": asked if asked == "size" else None,
            "round": asked if asked == "round" else None,
        },
        steps=steps,
        show="y" if asked in ("round", "fence") else "x",
        answer=(free * (c or 1) if asked in ("size", "cost", "both") else 0) + border * (f or (asked == "round")),
        numbers=(n, w, a, b, c, f, asked),
    )  # fmt: skip


@family("word")
def average(r: Random, level: int) -> Draft:
    """Mean of a list, a missing value, two groups taken together."""
    n = (3, 4, 3, 4, 4)[level - 1]
    values = [r.randint(4, 30 + 15 * level) for _ in range(n)]
    goal = r.randint(10, 40 + 10 * level) if level in (3, 4) else None
    k, m = (r.randint(2, 6), r.randint(10, 90)) if level == 5 else (None, None)
    everyone = values + [m or 0] * (k or 0)
    size = len(everyone)
    excess = Fraction(sum(value - (goal or 0) for value in everyone))
    answer = goal - excess if goal else excess / size
    if answer.denominator > 1 or answer < 2:
        raise RejectedError
    steps = [(f"sum of {n} numbers", f"t = {' + '.join(map(str, values))}")]
    if goal:
        steps += [(f"sum for average {goal}", f"s = {goal} * ({n} + 1)"), ("the missing one", "x = s - t")]
        steps.append(("check the average", f"assert (t + x) // ({n} + 1) == {goal}"))
    elif k:
        steps += [
            (f"{k} numbers of {m}", f"s = {k} * {m}"),
            ("sum of all", "t = t + s"),
            (f"{n} and {k} numbers", f"n = {n} + {k}"),
            ("average", "assert t % n == 0\nx = t // n"),
        ]
    else:
        steps.append((f"shared by {n}", f"x = t // {size}"))
    p, q = people(r, 2)
    return Draft(
        fields={
            "p": p, "q": q, "item": things(r, 1, SMALL)[0], "list": joined(values), "n": n, "goal": goal, "k": k,
            "m": m, "z": r.randint(11, 90) if level >= 4 else None,
        },
        steps=steps,
        answer=answer,
        numbers=(*values, goal, k, m),
    )  # fmt: skip


FAMILIES: tuple[Family, ...] = (recipe, clock, units, area, average)
