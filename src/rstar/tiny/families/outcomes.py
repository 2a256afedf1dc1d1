"""Dice, multiples in a range, paths, codes and draws from a bag: `FAMILIES`.

Templates and drafts: see `rstar.tiny.templates`.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from math import prod
from random import Random

from rstar.tiny.family import Family, RejectedError
from rstar.tiny.templates import Draft, family
from rstar.tiny.words import SMALL, joined, people, things


@family("counting")
def dice(r: Random, level: int) -> Draft:
    """Sums of dice: how many outcomes, and their probability."""
    count = 2 if level <= 3 else 3
    sides = [r.randint(4, 12) for _ in range(count)]
    if level != 3 and r.random() < 0.5:
        sides = sides[:1] * count
    low, high = count, sum(sides)
    s = r.randint(low + 1, high - 1)
    form = ("exact", "most", "exact", r.choice(("exact", "least")), r.choice(("most", "even")))[level - 1]
    chance = level == 3 or (level > 3 and r.random() < 0.5)
    test = {"exact": f"k == {s}", "most": f"k <= {s}", "least": f"k >= {s}", "even": f"k > {s} and k % 2 == 0"}[form]
    what = {"exact": f"{s}", "most": f"at most {s}", "least": f"at least {s}", "even": f"even and more than {s}"}[form]
    rolls = list(product(*(range(1, side + 1) for side in sides)))
    good = sum(1 for roll in rolls if {
        "exact": sum(roll) == s, "most": sum(roll) <= s, "least": sum(roll) >= s,
        "even": sum(roll) > s and sum(roll) % 2 == 0}[form])  # fmt: skip
    if good in (0, len(rolls)):
        raise RejectedError
    steps = [("the first", f"d = range(1, {sides[0]} + 1)")]
    steps += [(f"and one with {side}", f"d = [n + k for n in d for k in range(1, {side} + 1)]") for side in sides[1:]]
    steps.append((what, f"x = sum(1 for k in d if {test})"))
    if chance:
        steps.append(("part of all", "from fractions import Fraction\nx = Fraction(x, len(d))"))
    number = {2: "two", 3: "three"}[count]
    text = f"{number} dice with {joined(sides)} sides"
    if len(set(sides)) == 1:
        text = f"{number} dice with {sides[0]} sides each"
    p, q = people(r, 2)
    return Draft(
        fields={"p": p, "q": q, "dice": text, "Dice": text.capitalize(), "what": what, "chance": chance or None},
        steps=steps,
        answer=Fraction(good, len(rolls)) if chance else good,
        numbers=(*sorted(sides), what, chance),
    )


@family("counting")
def multiples(r: Random, level: int) -> Draft:
    """Multiples in a range, of one number, of either or of exactly one of two, of one but not another."""
    a, b, c = r.sample(range(3, 10 + 2 * level), 3)
    u = r.randint(2, 100) if level in (2, 5) else 1
    v = u + r.randint(40, 100 + 100 * level)
    form = ("one", "one", "or", r.choice(("xor", "or not")), r.choice(("or not", "two not")))[level - 1]
    what = {"one": f"{a}", "or": f"{a} or {b}", "xor": f"{a} or {b} but not of both", "or not": f"{a} but not of {b}",
            "two not": f"{a} or {b} but not of {c}"}[form]  # fmt: skip
    if a % b == 0 or (a % c == 0 and b % c == 0):
        raise RejectedError
    hits = {a: set(range(a, v + 1, a)), b: set(range(b, v + 1, b)), c: set(range(c, v + 1, c))}
    found = {"one": hits[a], "or": hits[a] | hits[b], "xor": hits[a] ^ hits[b], "or not": hits[a] - hits[b],
             "two not": (hits[a] | hits[b]) - hits[c]}[form]  # fmt: skip
    below = f" - ({u} - 1) // {{}}" if u > 1 else ""
    steps = [(f"multiples of {a}", f"x = {v} // {a}{below.format(a)}")]
    if form in ("or", "xor"):
        steps += [
            (f"multiples of {b}", f"y = {v} // {b}"),
            ("of both", f"from math import lcm\nz = {v} // lcm({a}, {b})"),
            ("not counted twice" if form == "or" else "without both", f"x = x + y - {'' if form == 'or' else '2 * '}z"),
        ]
    elif form == "or not":
        steps += [
            (f"multiples of {a} and {b}", f"from math import lcm\nk = lcm({a}, {b})"),
            ("from the range", f"y = {v} // k{below.format('k')}"),
            ("without them", "x = x - y"),
        ]
    elif form == "two not":
        steps = [
            (f"numbers from {u} to {v}", f"d = range({u}, {v} + 1)"),
            (f"multiples of {a} or {b}", f"d = [n for n in d if n % {a} == 0 or n % {b} == 0]"),
            (f"not of {c}", f"d = [n for n in d if n % {c} != 0]"),
            ("how many", "x = len(d)"),
        ]
    return Draft(
        fields={"p": people(r, 1)[0], "u": u, "u2": u + 1, "v": v, "what": what, "by": what.replace("of ", "by ")},
        steps=steps,
        answer=sum(1 for n in found if n >= u),
        numbers=(u, v, what),
    )


@family("counting")
def grid_paths(r: Random, level: int) -> Draft:
    """Paths right and up on a grid, through a point or around one."""
    w, h = r.randint(3, 14), r.randint(3, 14)
    through, avoid = level in (2, 4, 5), level in (3, 5)
    a, b = (r.randint(2, w), r.randint(2, h)) if through else (0, 0)
    c, d = (r.randint(max(a, 2), w), r.randint(max(b, 2), h)) if avoid else (0, 0)
    if (through and (a, b) == (w, h)) or (avoid and (c, d) in ((a, b), (w, h), (0, 0))):
        raise RejectedError
    ways = {(0, 0): 1}  # dynamic programming over the grid
    for x, y in product(range(w + 1), range(h + 1)):
        ways.setdefault((x, y), ways.get((x - 1, y), 0) + ways.get((x, y - 1), 0))
        missed = through and (x + y == a + b) and (x, y) != (a, b)
        if missed or (avoid and (x, y) == (c, d)):
            ways[x, y] = 0
    if ways[w, h] == 0:
        raise RejectedError
    steps = []
    if through:
        steps.append((f"to {a}, {b}", f"from math import comb\nx = comb({a} + {b}, {a})"))
        steps.append(("from there", f"w = {w} - {a}\nh = {h} - {b}"))
        steps.append(("to the end", "y = comb(w + h, w)"))
    else:
        steps.append((f"{w} right of all", f"from math import comb\ny = comb({w} + {h}, {w})"))
    if avoid:
        c2, d2 = (f"{c} - {a}", f"{d} - {b}") if through else (str(c), str(d))
        steps.append((f"by way of {c}, {d}", f"k = comb({c2} + {d2}, {c2})"))
        steps.append(("and on to the end", f"m = comb({w} - {c} + {h} - {d}, {w} - {c})"))
        steps.append(("without these", "y = y - k * m"))
    if through:
        steps.append(("both parts", "y = x * y"))
    return Draft(
        fields={
            "p": people(r, 1)[0], "w": w, "h": h, **({"a": a, "b": b} if through else {}),
            **({"c": c, "d": d} if avoid else {}),
        },
        steps=steps,
        show="y",
        answer=ways[w, h],
        numbers=(w, h, a, b, c, d),
    )  # fmt: skip


@family("counting")
def codes(r: Random, level: int) -> Draft:
    """Strings of letters and digits, without repetition or with at least one of a kind."""
    n, k = r.randint(2, 6), r.randint(3, 26)
    form = ("free", "free", r.choice(("once", "some")), r.choice(("once", "some")), "some")[level - 1]
    m, j = (r.randint(2, 5), r.randint(2, 10)) if level in (2, 4, 5) else (None, None)
    start = f"{k} choices, {n} times"
    if form == "once":
        steps = [(f"{n} of {k} in order", f"from math import perm\nx = perm({k}, {n})")]
        whole = prod(k - i for i in range(n))
    elif form == "some":
        steps = [(start, f"x = {k} ** {n}"), ("without it one choice less", f"y = ({k} - 1) ** {n}")]
        steps.append(("at least one", "x = x - y"))
        whole = sum((k - 1) ** i * k ** (n - 1 - i) for i in range(n))  # by the place of the first
    else:
        steps, whole = [(start, f"x = {k} ** {n}")], prod([k] * n)
    steps += [(f"{j} choices, {m} times", f"z = {j} ** {m}"), ("both", "x = x * z")] if m else []
    answer = whole * prod([j or 1] * (m or 1))
    if n > k or answer > 10**8:
        raise RejectedError
    (p,), (item, other) = people(r, 1), things(r, 2, SMALL)
    return Draft(
        fields={
            "p": p, "item": item, "other": other, "n": n, "k": k, "m": m, "j": j,
            "once": "once" if form == "once" else None, "some": "one" if form == "some" else None,
        },
        steps=steps,
        answer=answer,
        numbers=(n, k, m, j, form),
    )  # fmt: skip


@family("counting")
def bag(r: Random, level: int) -> Draft:
    """The probability of colours drawn from a bag."""
    a, b = r.randint(2, 8 + 4 * level), r.randint(2, 8 + 4 * level)
    c = r.randint(2, 15) if level >= 4 else None
    form = r.choice((("red", "not"), ("red",), ("same", "some"), ("same", "red"), ("some", "each"))[level - 1])
    n = (1, 2, 2, 2, 3)[level - 1]
    colours = "r" * a + "b" * b + "g" * (c or 0)
    everything = f"{a} + {b}" + (f" + {c}" if c else "")
    event = {
        "red": f"{'it is' if n == 1 else 'both are'} red", "not": "it is not red", "same": "both have the same colour",
        "some": f"at least one of the {n} is red", "each": "each has another colour",
    }[form]  # fmt: skip
    if level == 1:
        steps = [("all of them", f"n = {everything}")]
        steps.append((event, f"from fractions import Fraction\nx = Fraction({a if form == 'red' else b}, n)"))
    else:
        ways = {
            "red": f"comb({a}, {n})", "some": f"t - comb(n - {a}, {n})", "each": f"{a} * {b} * {c}",
            "same": " + ".join(f"comb({colour}, {n})" for colour in (a, b, c) if colour),
        }[form]  # fmt: skip
        steps = [
            ("all of them", f"n = {everything}"),
            (f"ways to take {n}", f"from math import comb\nt = comb(n, {n})"),
            (event, f"x = {ways}"),
            ("part of all", "from fractions import Fraction\nx = Fraction(x, t)"),
        ]
    answer = Fraction(0)
    for taken in product(sorted(set(colours)), repeat=n):  # in order, without replacement
        chance, rest = Fraction(1), list(colours)
        for colour in taken:
            chance *= Fraction(rest.count(colour), len(rest))
            if chance:
                rest.remove(colour)
        kinds = set(taken)
        good = {"red": kinds == {"r"}, "not": "r" not in kinds, "some": "r" in kinds, "same": len(kinds) == 1,
                "each": len(kinds) == 3}  # fmt: skip
        answer += chance if good[form] else 0
    (p, q), (item,) = people(r, 2), things(r, 1, SMALL)
    return Draft(
        fields={
            "p": p, "q": q, "item": item, "a": a, "b": b, "c": c, "n": "one" if n == 1 else n, "event": event,
            "single": "one" if n == 1 else None, "back": "back" if n > 1 else None,
            "z": r.randint(3, 90) if level >= 4 else None,
        },
        steps=steps,
        answer=answer,
        numbers=(a, b, c, n, form),
    )  # fmt: skip


FAMILIES: tuple[Family, ...] = (dice, multiples, grid_paths, codes, bag)
