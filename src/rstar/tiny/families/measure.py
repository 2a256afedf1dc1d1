"""Word problems about speed, rates of work, recipes, time, units, areas and averages: `FAMILIES`.

Templates and drafts: see `rstar.tiny.templates`.
"""

from __future__ import annotations

from fractions import Fraction
from random import Random

from rstar.tiny.family import Family, RejectedError
from rstar.tiny.templates import Draft, family
from rstar.tiny.words import BAKED, CREW, GOODS, TOWNS, people, things


@family("word")
def travel(r: Random, level: int) -> Draft:
    """Distance, rate and time over several legs."""
    v, t = r.randint(8, 80 + 20 * level), r.randint(2, 9)
    u, s = (r.randint(8, 40 + 20 * level), r.randint(2, 9)) if level == 2 else (None, None)
    w, rest = r.randint(8, 90), r.randint(2, 9)
    left = r.randint(10, 200) if level == 3 else w * rest
    d = v * t + left if level >= 3 else None
    b = r.randint(2, 5) if level == 5 else None
    steps = [(f"{t} hours at {v}", f"x = {v} * {t}")]
    if u and s:
        steps += [(f"{s} hours at {u}", f"y = {u} * {s}"), ("all together", "x = x + y")]
    if d:
        steps.append((f"left of {d}", f"x = {d} - x"))
    if level >= 4:
        steps.append((f"hours at {w}", f"assert x % {w} == 0\nx = x // {w}"))
    if b:
        steps.append((f"{t} hours, {b} hours and x hours", f"x = {t} + {b} + x"))
    hours = next((h for h in range(1, 99) if v * t + w * h == d), 0)
    p, q = people(r, 2)
    town, town2 = r.sample(TOWNS, 2)
    return Draft(
        fields={
            "p": p, "q": q, "town": town, "town2": town2, "v": v, "t": t, "u": u, "s": s, "d": d, "b": b,
            "w": w if level >= 4 else None, "z": r.randint(10, 70) if level >= 4 else None,
        },
        steps=steps,
        answer=(v * t + (u or 0) * (s or 0), v * t + (u or 0) * (s or 0), left, hours, t + (b or 0) + hours)[level - 1],
        numbers=(v, t, u, s, d, w if level >= 4 else None, b),
    )  # fmt: skip


@family("word")
def machines(r: Random, level: int) -> Draft:
    """Output in proportion to workers and time."""
    each = r.randint(2, 20)
    k, h = r.randint(2, 9), r.randint(2, 9)
    m, g = r.randint(2, 6 + 2 * level), r.randint(2, 6 + 2 * level)
    ask = ("rate", "items", r.choice(("items", "hours")), r.choice(("hours", "count")), r.choice(("hours", "count")))
    n, y, asked = each * k * h, each * m * g, ask[level - 1]
    if (m, g) == (k, h):
        raise RejectedError
    steps = [(f"{n} by {k} in one hour", f"a = {n} // {h}"), (f"one of {k} in one hour", f"a = a // {k}")]
    if level >= 2:
        steps.append((f"check {n}", f"assert a * {k} * {h} == {n}"))
    if asked == "items":
        steps += [(f"{m} in one hour", f"b = a * {m}"), (f"{m} in {g} hours", f"x = b * {g}")]
    elif asked == "hours":
        steps += [
            (f"{m} in one hour", f"b = a * {m}"),
            (f"hours for {y}", f"x = {y} // b"),
            ("check", f"assert x * b == {y}"),
        ]
    elif asked == "count":
        steps += [
            (f"one in {g} hours", f"b = a * {g}"),
            (f"how many for {y}", f"x = {y} // b"),
            ("check", f"assert x * b == {y}"),
        ]
    rate = Fraction(n, k * h)
    answer = {"rate": rate, "items": rate * m * g, "hours": y / (rate * m), "count": y / (rate * g)}[asked]
    item, other = things(r, 2, GOODS)
    return Draft(
        fields={
            "p": people(r, 1)[0], "cake": r.choice(BAKED), "item": item, "other": other, "k": k, "n": n, "h": h,
            "m": m if asked in ("items", "hours") else None, "g": g if asked in ("items", "count") else None,
            "y": y if asked in ("hours", "count") else None, "z": r.randint(10, 90) if level >= 4 else None,
        },
        steps=steps,
        show="a" if asked == "rate" else "x",
        answer=answer,
        numbers=(k, h, n, asked, *((m, g) if asked != "rate" else ())),
    )  # fmt: skip


@family("word")
def crew(r: Random, level: int) -> Draft:
    """Time in inverse proportion to workers, some of whom join or leave."""
    k, n = r.randint(2, 30), r.randint(3, 30)
    e = r.randint(2, n - 1) if level >= 4 else 0
    left = k * (n - e)
    sizes = [m for m in range(2, 40) if left % m == 0 and abs(m - k) > 1 and (m > k or level != 4)]
    if level > 1 and not sizes:
        raise RejectedError
    m = r.choice(sizes) if level > 1 else 1
    asks_people = level in (2, 3) and m != n and r.random() < 0.5
    steps = [(f"{k} for {n} days", f"a = {k} * {n}")]
    if level in (2, 3):
        steps.append((f"shared by {m}", f"x = a // {m}"))
        steps.append(("the work is the same", f"assert x * {m} == {k} * {n}"))
    if level >= 4:
        steps = [(f"days left of {n} after {e}", f"b = {n} - {e}"), (f"work left for {k}", f"a = {k} * b")]
        steps.append((f"{m - k} more", f"m = {k} + {m - k}") if m > k else (f"{k - m} fewer", f"m = {k} - {k - m}"))
        steps.append(("shared by m", "x = a // m"))
        steps.append(("no work is left", "assert x * m == a"))
    return Draft(
        fields={
            "who": r.choice(CREW), "town": r.choice(TOWNS), "k": k, "n": n, "e": e or None,
            "m": m if m > 1 and level <= 3 and not asks_people else None, "m2": m if asks_people else None,
            "f": m - k if e and m > k else None, "g": k - m if e and m < k else None,
            "z": r.randint(10, 90) if level >= 3 else None,
        },
        steps=steps,
        show="a" if level == 1 else "x",
        answer=Fraction(k * n - k * e, m),
        numbers=(k, n, e, m, asks_people),
    )  # fmt: skip


FAMILIES: tuple[Family, ...] = (travel, machines, crew)
