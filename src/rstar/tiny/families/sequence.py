"""Sequences, consecutive numbers and functions: `FAMILIES`. Templates and drafts: see `rstar.tiny.templates`."""

from __future__ import annotations

from itertools import count
from random import Random

from rstar.tiny.family import Family, RejectedError
from rstar.tiny.templates import Draft, family
from rstar.tiny.words import SMALL, people, signed, things


@family("algebra")
def arithmetic(r: Random, level: int) -> Draft:
    """Terms and sums of an arithmetic sequence."""
    a, d, n = r.randint(2, 20 + 10 * level), r.randint(2, 6 + 3 * level), r.randint(5, 15 + 10 * level)
    asked = ("term", "sum", r.choice(("sum", "below")), "range", r.choice(("range", "below")))[level - 1]
    u, m = r.randint(2, n - 2), a + d * n - r.randint(0, d - 1)
    match asked:
        case "term":
            steps = [(f"{n} - 1 steps of {d}", f"x = {a} + ({n} - 1) * {d}")]
            answer = next(term for at, term in enumerate(count(a, d), 1) if at == n)
        case "sum":
            steps = [("the last term", f"t = {a} + ({n} - 1) * {d}"), ("sum", f"x = ({a} + t) * {n} // 2")]
            answer = sum(a + d * k for k in range(n))
        case "below":
            steps = [(f"steps of {d} below {m}", f"k = ({m} - 1 - {a}) // {d}"), ("and the first", "x = k + 1")]
            if level == 5:
                steps.append((f"the next is not below {m}", f"assert {a} + x * {d} >= {m} > {a} + k * {d}"))
            answer = sum(1 for term in range(a, m, d))
        case _:
            steps = [
                (f"term {u}", f"s = {a} + ({u} - 1) * {d}"),
                (f"term {n}", f"t = {a} + ({n} - 1) * {d}"),
                (f"terms {u} to {n}", f"k = {n} - {u} + 1"),
                ("sum", "x = (s + t) * k // 2"),
            ]
            answer = sum([a + d * k for k in range(n)][u - 1 :])
    (p,), (item,) = people(r, 1), things(r, 1, SMALL)
    return Draft(
        fields={
            "p": p, "item": item, "a": a, "d": d, "n": None if asked == "below" else n,
            "m": m if asked == "below" else None, "u": u if asked == "range" else None,
            "sum": True if asked == "sum" else None, "list": ", ".join(str(a + d * k) for k in range(3)),
        },
        steps=steps,
        answer=answer,
        numbers=(a, d, *((m,) if asked == "below" else (n,)), u if asked == "range" else asked),
    )  # fmt: skip


@family("algebra")
def recursive(r: Random, level: int) -> Draft:
    """A sequence in which each term is computed from the one before."""
    a, k = r.randint(2, 30 if level == 1 else 15 + 5 * level), r.randint(2, 6)
    c = r.choice((1, -1)) * r.randint(2, 20) if level >= 2 else 0
    asked = ("term", "term", "term", "sum", "above")[level - 1]
    n = r.randint(3, (5, 4, 6, 5, 6)[level - 1])
    terms = [a]
    while len(terms) < 12:
        terms.append(terms[-1] * k + c)
    if terms[1] <= a + 1 or terms[n - 1] > 99999:
        raise RejectedError
    above, m = r.randint(terms[n - 2] + 1, terms[n - 1] - 1), r.randint(3, 30)
    change = f"x * {k}" + (f" {signed(c)}" if c else "")
    match asked:
        case "term":
            steps = [(f"start with {a}", f"x = {a}"), (f"{n} - 1 times", f"for i in range({n} - 1):\n    x = {change}")]
            answer = terms[n - 1]
        case "sum":
            steps = [
                (f"start with {a}", f"x = {a}\nt = x"),
                (f"{n} - 1 times", f"for i in range({n} - 1):\n    x = {change}\n    t = t + x"),
            ]
            answer = sum(terms[:n])
        case _:
            steps = [(f"start with {a}", f"x = {a}")]
            steps.append((f"until above {above}", f"while x <= {above}:\n    x = {change}"))
            steps.append((f"the one before is not above {above}", f"assert x > {above} >= (x {signed(-c)}) // {k}"))
            steps.append((f"remainder by {m}", f"x = x % {m}"))
            answer = next(term for term in terms if term > above) % m
    (p,), (item,) = people(r, 1), things(r, 1, SMALL)
    return Draft(
        fields={
            "p": p, "item": item, "a": a, "k": k, "c": c if c > 0 else None, "minus": -c if c < 0 else None,
            "n": None if asked == "above" else n, "above": above if asked == "above" else None, "m": m,
            "sum": True if asked == "sum" else None,
        },
        steps=steps,
        show="t" if asked == "sum" else "x",
        answer=answer,
        numbers=(a, k, c, asked, (above, m) if asked == "above" else n),
    )  # fmt: skip


@family("algebra")
def consecutive(r: Random, level: int) -> Draft:
    """Consecutive whole, even or odd numbers, or multiples, from their sum."""
    n = r.randint(3, 4 + level)
    kind = "whole" if level == 1 else r.choice(("even", "odd", "multiples")[: 2 if level == 2 else 3])
    step = {"whole": 1, "even": 2, "odd": 2, "multiples": r.randint(3, 9)}[kind]
    first = step * r.randint(2, 90 + 10 * level) + (1 if kind == "odd" else 0)
    m = r.randint(2, 9) if level == 5 else None
    s, large = n * first + step * n * (n - 1) // 2, level >= 3 and r.random() < 0.7
    steps = [
        (f"steps of {step} above the first", f"d = {step} * {n} * ({n} - 1) // 2"),
        (f"the rest of {s} in {n} parts", f"x = ({s} - d) // {n}"),
    ]
    steps += [("the last", f"x = x + {step} * ({n} - 1)")] if large else []
    if level >= 2:
        low = f"x - {step} * ({n} - 1), x + 1" if large else f"x, x + {step} * {n}"
        steps.append((f"sum is {s}", f"assert sum(range({low}, {step})) == {s}"))
    steps += [(f"times {m}", f"x = x * {m}")] if m else []
    found = next(v for v in range(1, s) if sum(v + step * i for i in range(n)) == s)
    return Draft(
        fields={
            "p": people(r, 1)[0], "n": n, "s": s, "m": m, "end": "largest" if large else "smallest",
            "kind": f"multiples of {step}" if kind == "multiples" else f"{kind} numbers",
        },
        steps=steps,
        answer=(found + step * (n - 1) if large else found) * (m or 1),
        numbers=(n, kind, step, s, large, m),
    )  # fmt: skip


def _inside(rule: tuple[int, int, int], x: str) -> str:
    """Code for ax^2 + bx + c at x."""
    a, b, c = rule
    square = f"{a} * {x} * {x} + " if a > 1 else f"{x} * {x} + " if a else ""
    return f"{square}{b} * {x} {signed(c)}"


def _rule(rule: tuple[int, int, int]) -> str:
    a, b, c = rule
    square = f"{a if a > 1 else ''}x^2 + " if a else ""
    return f"{square}{b}x {signed(c)}"


@family("algebra")
def functions(r: Random, level: int) -> Draft:
    """Values of functions and of nested functions, and their sums."""
    f = (r.randint(0, 3) if level > 1 else 0, r.randint(2, 9), r.choice((-1, 1)) * r.randint(1, 15))
    g = (r.randint(0, 3) if level == 3 else 0, r.randint(2, 9), r.choice((-1, 1)) * r.randint(1, 15))
    n, m = r.randint(2, 9 if level > 1 else 60), r.randint(2, 9)
    at = {"f": lambda x: f[0] * x * x + f[1] * x + f[2], "g": lambda x: g[0] * x * x + g[1] * x + g[2]}
    code = {"f": f, "g": g}
    inner, outer = r.sample("fg", 2)
    match level:
        case 1 | 2:
            ask, value = f"f({n})", at["f"](n)
            steps = [(f"f at {n}", f"x = {_inside(f, str(n))}")]
        case 3:
            ask, value = f"f({n}) + g({m})", at["f"](n) + at["g"](m)
            steps = [(f"f at {n}", f"x = {_inside(f, str(n))}"), (f"g at {m}", f"y = {_inside(g, str(m))}")]
            steps.append(("both", "x = x + y"))
        case _:
            ask, value = f"{outer}({inner}({n}))", at[outer](at[inner](n))
            steps = [(f"{inner} at {n}", f"y = {_inside(code[inner], str(n))}")]
            steps.append((f"{outer} at y", f"x = {_inside(code[outer], 'y')}"))
            if level == 5:
                ask, value = f"{ask} - {inner}({m})", value - at[inner](m)
                steps += [(f"{inner} at {m}", f"z = {_inside(code[inner], str(m))}"), ("difference", "x = x - z")]
    if not 0 <= value < 20000:
        raise RejectedError
    return Draft(
        fields={"p": people(r, 1)[0], "f": _rule(f), "g": _rule(g) if level >= 3 else None, "ask": ask},
        steps=steps,
        answer=value,
        numbers=(*f, ask, *(g if level >= 3 else ())),
    )


FAMILIES: tuple[Family, ...] = (arithmetic, recursive, consecutive, functions)
