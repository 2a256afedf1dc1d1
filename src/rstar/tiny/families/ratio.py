"""Shares in a ratio, mixtures, exchanges and fractions of the rest: `FAMILIES`.

Templates and drafts: see `rstar.tiny.templates`.
"""

from __future__ import annotations

from fractions import Fraction
from math import gcd, prod
from random import Random

from rstar.tiny.family import Family, RejectedError
from rstar.tiny.templates import Draft, family
from rstar.tiny.words import SMALL, people, things


@family("ratio")
def ratio_split(r: Random, level: int) -> Draft:
    """Shares in a ratio of two or three parts."""
    three = level in (3, 5)
    parts = [r.randint(1, 5 + level), *([r.randint(1, 9)] if three else []), r.randint(2, 9 + level)]
    ask = (("first",), ("diff",), ("mid", "first"), ("all", "first"), ("all", "mid", "first"))[level - 1]
    asked, unit = r.choice(ask), r.randint(2, 12 + 6 * level)
    shares = [part * unit for part in parts]
    if shares[-1] <= shares[0] or Fraction(*parts[-2:]).denominator != parts[-1]:
        raise RejectedError
    answer = {"all": sum(shares), "diff": shares[-1] - shares[0], "mid": shares[1], "first": shares[0]}[asked]
    total = " + ".join(map(str, parts))
    match level:
        case 4:
            exact = f"assert {shares[-1]} % {parts[-1]} == 0\n"
            steps = [(f"{shares[-1]} is {parts[-1]} parts", f"{exact}u = {shares[-1]} // {parts[-1]}")]
        case 5:
            more = shares[-1] - shares[0]
            steps = [
                (f"{more} is the difference of {parts[-1]} and {parts[0]} parts", f"k = {parts[-1]} - {parts[0]}"),
                ("one part", f"assert {more} % k == 0\nu = {more} // k"),
            ]
        case _:
            exact = f"assert {sum(shares)} % k == 0\n"
            steps = [("number of parts", f"k = {total}")]
            steps.append((f"one part of {sum(shares)}", f"{exact}u = {sum(shares)} // k"))
    if asked == "diff":
        steps.append((f"{parts[-1]} parts less {parts[0]}", f"x = u * ({parts[-1]} - {parts[0]})"))
    elif asked == "all":
        steps += [("number of parts", f"k = {total}"), ("all parts", "x = u * k")]
    else:
        part = parts[1] if asked == "mid" else parts[0]
        steps.append((f"{part} parts", f"x = u * {part}"))
    p, q, x = people(r, 3)
    item, other = things(r, 2, SMALL)
    return Draft(
        fields={
            "p": p, "q": q if three else None, "x": x, "item": item, "other": other,
            "ratio": ":".join(map(str, parts)), "n": sum(shares) if level <= 3 else None,
            "last": shares[-1] if level == 4 else None, "more": shares[-1] - shares[0] if level == 5 else None,
            "z": r.randint(2, 90) if level >= 4 else None, "mid3": True if three else None,
            **{key: True if asked == key else None for key in ("all", "diff", "mid")},
        },
        steps=steps,
        answer=answer,
        numbers=(*parts, unit, asked, level >= 4),
    )  # fmt: skip


@family("ratio")
def mixture(r: Random, level: int) -> Draft:
    """Pure amount and percentage of a mixture of two solutions and water."""
    a, u = r.randint(2, 30 + 10 * level), r.choice(range(5, 96, 5))
    b, v = (r.randint(2, 30 + 10 * level), r.choice(range(5, 96, 5))) if level in (2, 3, 5) else (None, None)
    w = r.randint(2, 40) if level >= 4 else None
    percent = level >= 3
    pure = Fraction(a * u + (b or 0) * (v or 0), 100)
    share = pure * 100 / (a + (b or 0) + (w or 0))
    if (share if percent else pure).denominator > 1 or (pure.denominator > 1 and level < 3) or (v == u):
        raise RejectedError
    steps = [(f"{u}% of {a}", f"x = {a} * {u}"), (f"{v}% of {b}", f"y = {b} * {v}"), ("both", "x = x + y")]
    if not b:
        steps = steps[:1]
    if percent:
        total = " + ".join(str(part) for part in (a, b, w) if part)
        steps += [("whole amount", f"t = {total}"), ("percent of it", "x = x // t")]
    else:
        steps.append(("from percent", "x = x // 100"))
    if level == 5:
        steps[-1] = ("percent of it", "assert x % t == 0\nx = x // t")
    return Draft(
        fields={
            "p": people(r, 1)[0], "a": a, "u": u, "b": b, "v": v, "w": w, "percent": percent or None,
            "z": r.randint(2, 90) if level >= 4 else None,
        },
        steps=steps,
        answer=share if percent else pure,
        numbers=(a, u, b, v, w),
    )  # fmt: skip


@family("ratio")
def exchange(r: Random, level: int) -> Draft:
    """Things that are worth other things: a chain of proportions."""
    links = (1, 1, 2, 2, 3)[level - 1]
    rates = [(r.randint(2, 9), r.randint(2, 9)) for _ in range(links)]
    n, more = r.randint(2, 20 + 10 * level), r.randint(2, 40) if level in (2, 4, 5) else None
    amounts, steps, last = [Fraction(n)], [], str(n)
    for give, get in rates:
        amounts.append(amounts[-1] / give * get)
        steps.append((f"{get} for {give}", f"assert {last} % {give} == 0\nx = {last} // {give} * {get}"))
        last = "x"
    whole = all((x / give).denominator == 1 for x, (give, _) in zip(amounts, rates, strict=False))
    if not whole or any(x == y for x, y in rates):
        raise RejectedError
    steps += [(f"{more} more", f"x = x + {more}")] if more else []
    (p, q), (*items, other) = people(r, 2), things(r, 5, SMALL)
    flat = [number for rate in rates for number in rate]
    return Draft(
        fields={
            "p": p, "q": q, "n": n, "more": more, "other": other, "get": items[links],
            **dict(zip("abcdef", flat, strict=False)), **{f"i{k}": item for k, item in enumerate(items, 1)},
            "z": r.randint(2, 60) if level >= 4 else None,
        },
        steps=steps,
        answer=n * Fraction(prod(flat[1::2]), prod(flat[::2])) + (more or 0),
        numbers=(n, *flat, more),
    )  # fmt: skip


@family("ratio")
def fraction_left(r: Random, level: int) -> Draft:
    """What is left after fractions of the rest are taken, one after another."""
    taken = (1, 2, 2, 2, 3)[level - 1]
    parts = []
    for _ in range(taken):
        below = r.choice((2, 3, 4, 5, 6, 8, 10)) if level < 5 else r.choice((2, 3, 4, 5))
        above = r.choice([n for n in range(1, below) if gcd(n, below) == 1])
        parts.append((above, below))
    n = r.randint(3, 40 if level == 1 else 60) * (parts[0][1] if level == 1 else r.choice((4, 6, 10, 12)))
    k = r.randint(2, 30) if level in (3, 4, 5) else None
    left, steps, last = Fraction(n), [], str(n)
    for above, below in parts:
        if (left / below).denominator > 1:
            raise RejectedError
        steps.append((f"{above}/{below} less", f"x = {last} - {last} * {above} // {below}"))
        left, last = left * Fraction(below - above, below), "x"
    steps += [(f"{k} less", f"x = x - {k}")] if k else []
    if left - (k or 0) < 1:
        raise RejectedError
    (p, q, x), (item, other) = people(r, 3), things(r, 2, SMALL)
    return Draft(
        fields={
            "p": p, "q": q, "x": x, "item": item, "other": other, "n": n, "k": k,
            **{f"f{at}": f"{above}/{below}" for at, (above, below) in enumerate(parts, 1)},
            "z": r.randint(2, 60) if level >= 4 else None,
        },
        steps=steps,
        answer=n * prod(1 - Fraction(*part) for part in parts) - (k or 0),
        numbers=(n, *parts, k),
    )  # fmt: skip


FAMILIES: tuple[Family, ...] = (ratio_split, mixture, exchange, fraction_left)
