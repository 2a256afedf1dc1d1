"""Equations in one and two unknowns: `FAMILIES`. Templates and drafts: see `rstar.tiny.templates`."""

from __future__ import annotations

from random import Random

from rstar.tiny.family import Family, RejectedError
from rstar.tiny.templates import Draft, Story, family, read_settings
from rstar.tiny.words import ANIMALS, FOOD, people, signed, things


def _line(a: int, b: int, x: str) -> str:
    return f"{a if a > 1 else ''}{x} {signed(b)}" if b else f"{a if a > 1 else ''}{x}"


@family("algebra")
def linear(r: Random, level: int) -> Draft:
    """A linear equation in one unknown."""
    x, v = r.randint(2, 10 + 8 * level), r.choice("xynkmtz")
    a, b = r.randint(3, 9 + 2 * level), r.randint(1, 10 + 10 * level) * (1 if level == 1 else r.choice((1, -1)))
    d = r.randint(1, a - 1) if level in (3, 5) else 0
    f = r.randint(1, 12) if level >= 4 else 0
    c = a * (x + f) + b - d * x
    left = f"{a}({v} + {f}) {signed(b)}" if f else _line(a, b, v)
    right = _line(d, c, v) if d else str(c)
    steps = [(f"{a} times {f}", f"m = {a} * {f}")] if f else []
    steps.append(("numbers to one side", f"c = {c} {signed(-b)}{' - m' if f else ''}"))
    steps += [(f"{a}{v} and {d}{v}", f"k = {a} - {d}")] if d else []
    steps.append(("divide", f"x = c // {'k' if d else a}"))
    code = f"{a} * (x + {f}) {signed(b)}" if f else f"{a} * x {signed(b)}"
    steps.append(("check both sides", f"assert {code} == {f'{d} * x {signed(c)}' if d else c}"))
    sides = (left, right) if level < 2 or r.random() < 0.6 else (right, left)
    return Draft(
        fields={"p": people(r, 1)[0], "x": v, "left": sides[0], "right": sides[1], "page": r.randint(100, 300)},
        steps=steps,
        answer=next(n for n in range(1, 100) if a * (n + f) + b == d * n + c),
        numbers=(a, b, d, f, c),
    )


_DEEDS = read_settings("undo")


@family("algebra")
def undo(r: Random, level: int) -> Draft:
    """A number found by undoing a series of operations, last one first."""
    first = n = r.randint(2, 20 + 20 * level)
    moves: list[tuple[str, int]] = []
    for _ in range(level):
        op = r.choice("+-*/" if not moves or moves[-1][0] in "+-" else "+-")
        by = r.randint(2, 9) if op in "*/" else r.randint(2, 20 + 10 * level)
        if op == "/" and n % by:
            raise RejectedError
        n = {"+": n + by, "-": n - by, "*": n * by, "/": n // by}[op]
        if n < 1:  # stories count things, or money
            raise RejectedError
        moves.append((op, by))
    if (level > 1 and not any(op in "*/" for op, _ in moves)) or not 2 <= n <= 2000:
        raise RejectedError
    steps, last = [], str(n)
    for op, by in reversed(moves):
        name = {"+": f"without {by} more", "-": f"without {by} less", "*": f"before times {by}", "/": f"before 1/{by}"}
        steps.append((name[op], f"x = {last} {({'+': '-', '-': '+', '*': '//', '/': '*'})[op]} {by}"))
        last = "x"
    forward, before = "x", ""
    for op, by in moves:
        forward = f"({forward})" if op in "*/" and before in ("+", "-") else forward
        forward, before = f"{forward} {'//' if op == '/' else op} {by}", op
    steps.append(("check forwards", f"assert {forward} == {n}"))
    (p,), (item,) = people(r, 1), things(r, 1, FOOD)
    told = [("start", 0), *moves, ("end", n)]
    return Draft(
        fields={"story": Story(_DEEDS, [(op, {"p": p, "item": item, "n": k}) for op, k in told], r)},
        steps=steps,
        answer=first,
        numbers=(n, *moves),
    )


@family("algebra")
def two_parts(r: Random, level: int) -> Draft:
    """Two unknowns from their sum and how they compare."""
    form = (0, r.randint(0, 1), 1, 2, 2)[level - 1]
    small = r.randint(2, 20 + 20 * level)
    k = r.randint(2, 9) if form else 1
    d = r.randint(2, 30 + 5 * level) if form != 1 else 0
    s, ask_small = small + small * k + d, r.random() < 0.5
    steps = [(f"{s} without {d}", f"m = {s} - {d}")] if d else []
    steps.append((f"1 and {k} parts", f"x = {'m' if d else s} // (1 + {k})"))
    if not form:
        steps[-1] = ("two equal parts", "x = m // 2")
    if not ask_small:
        steps.append(("the other", f"x = {s} - x"))
    if level >= 2:
        other = f"x * {k} + {d}" if ask_small else f"({s} - x) * {k} + {d}"
        steps.append(("check", f"assert {'x + ' if ask_small else ''}{other} == {s if ask_small else 'x'}"))
    (p, q), (item, other_item) = people(r, 2), things(r, 2)
    found = next(n for n in range(1, s) if n + n * k + d == s)
    return Draft(
        fields={
            "p": p, "q": q, "item": item, "other": other_item, "animal": r.choice(ANIMALS), "s": s,
            "d": d if form == 0 else None, "k": k if form == 1 else None, "e": d if form == 2 else None,
            "k2": k if form == 2 else None, "small": ask_small or None, "z": r.randint(3, 90) if level == 5 else None,
        },
        steps=steps,
        answer=found if ask_small else s - found,
        numbers=(s, k, d, ask_small),
    )  # fmt: skip


@family("algebra")
def two_equations(r: Random, level: int) -> Draft:
    """Two unknowns from two equations."""
    x, y = r.randint(2, 8 + 4 * level), r.randint(2, 8 + 4 * level)
    a, b, d, e = (r.randint(2, 5 + level) for _ in range(4))
    if level <= 2:
        e, d = b, a + r.randint(1, 5)
    g, h = (r.randint(2, 9), r.randint(2, 9)) if level == 5 else (None, None)
    k = a * e - d * b
    if k == 0 or (level > 2 and (a == d or b == e)):
        raise RejectedError
    c, f = a * x + b * y, d * x + e * y
    asked = ("one", "two", r.choice(("one", "two")), r.choice(("one", "two")), "")[level - 1]
    if level <= 2:
        steps = [(f"{d} and not {a} of the first", f"x = ({f} - {c}) // ({d} - {a})")]
    else:
        steps = [
            (f"{c} times {e} less {f} times {b}", f"m = {c} * {e} - {f} * {b}"),
            (f"{a} times {e} less {d} times {b}", f"k = {a} * {e} - {d} * {b}"),
            ("the first", "x = m // k"),
        ]
    if asked != "one":
        steps.append((f"the second, from {c}", f"y = ({c} - {a} * x) // {b}"))
    y_code = f"(({c} - {a} * x) // {b})" if asked == "one" else "y"
    steps.append(("check", f"assert {d} * x + {e} * {y_code} == {f}"))
    if g and h:
        steps.append((f"{g} of the first and {h} of the second", f"x = {g} * x + {h} * y"))
    pairs = [(u, v) for u in range(1, 40) for v in range(1, 40) if a * u + b * v == c and d * u + e * v == f]
    (p, q), (i1, i2) = people(r, 2), things(r, 2)
    return Draft(
        fields={
            "p": p, "q": q, "i1": i1, "i2": i2, "a": a, "b": b, "c": c, "d": d, "e": e, "f": f, "g": g, "h": h,
            "one": True if asked == "one" else None, "two": True if asked == "two" else None,
            "z": r.randint(10, 90) if level >= 4 else None,
        },
        steps=steps,
        show="y" if asked == "two" else "x",
        answer={"one": pairs[0][0], "two": pairs[0][1], "": (g or 0) * pairs[0][0] + (h or 0) * pairs[0][1]}[asked],
        numbers=(a, b, c, d, e, f, g, h),
    )  # fmt: skip


FAMILIES: tuple[Family, ...] = (linear, undo, two_parts, two_equations)
