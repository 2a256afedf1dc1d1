"""Divisors, remainders, digits and primes: `FAMILIES`. Templates and drafts: see `rstar.tiny.templates`."""

from __future__ import annotations

from itertools import count
from math import isqrt, prod
from random import Random

from rstar.tiny.family import Family, RejectedError
from rstar.tiny.templates import Draft, family
from rstar.tiny.words import SMALL, joined, people, things


def _divisors(n: int) -> list[int]:
    """Divisors in order, from the pairs d, n / d."""
    low = [d for d in range(1, isqrt(n) + 1) if n % d == 0]
    return sorted({*low, *(n // d for d in low)})


def _is_prime(n: int) -> bool:
    return n > 1 and len(_divisors(n)) == 2


@family("number")
def gcd_lcm(r: Random, level: int) -> Draft:
    """Greatest common divisor or least common multiple of two or three numbers."""
    lcm = r.random() < 0.5
    size, base = (2, 2, 3, 3, 3)[level - 1], r.randint(2, 5 + 5 * level)
    if lcm:
        values = [r.randint(4, 12 + 6 * level) for _ in range(size)]
        answer = next(n for n in count(max(values), max(values)) if all(n % v == 0 for v in values))
    else:
        values = [base * r.randint(2, 12 + 4 * level) for _ in range(size)]
        answer = max(d for d in _divisors(values[0]) if all(v % d == 0 for v in values))
    if len(set(values)) < size or answer > 9999 or answer in values or answer == 1:
        raise RejectedError
    name, last = "lcm" if lcm else "gcd", str(values[0])
    steps = []
    for at, value in enumerate(values[1:]):
        code = f"x = {name}({last}, {value})"
        steps.append((f"{name} of {last} and {value}", code if at else f"from math import {name}\n{code}"))
        last = "x"
    m = r.randint(2, 15) if level >= 4 and lcm else None
    k = r.randint(2, 15) if level >= 4 and not lcm else None
    if level == 5:
        rule = "x % n == 0" if lcm else "n % x == 0"
        steps.append(("check", f"assert all({rule} for n in [{', '.join(map(str, values))}])"))
    steps += [(f"whole part over {m}", f"x = x // {m}")] if m else []
    steps += [(f"times {k}", f"x = x * {k}")] if k else []
    (p,), (item,) = people(r, 1), things(r, 1, SMALL)
    return Draft(
        fields={
            "p": p, "item": item, "list": joined(values), "lcm": True if lcm else None, "m": m,
            "k": k,
        },
        steps=steps,
        answer=answer // m if m else answer * (k or 1),
        numbers=(*sorted(values), lcm, m, k),
    )  # fmt: skip


@family("number")
def divisors(r: Random, level: int) -> Draft:
    """The number of divisors, and their sum."""
    n = r.choice((1, 2, 4, 6)) * r.randint(6, 60 + 30 * level)
    total = (level >= 2 and r.random() < 0.5) or level == 2
    kind = r.choice(("even", "odd")) if level == 3 or (level == 5 and r.random() < 0.5) else None
    m = r.choice((6, 10, 12, 15, 30)) * r.randint(2, 30) if level >= 4 else None
    k = r.randint(1, 9) if level == 5 or (level == 4 and r.random() < 0.5) else None
    d = [v for v in _divisors(n) if (m or 0) % v == 0 and v > (k or 0) and kind in (None, "odd" if v % 2 else "even")]
    if len(d) < 2 or m == n:
        raise RejectedError
    steps = [(f"divisors of {n}", f"d = [k for k in range(1, {n} + 1) if {n} % k == 0]")]
    steps += [(f"that divide {m}", f"d = [k for k in d if {m} % k == 0]")] if m else []
    steps += [(f"above {k}", f"d = [k for k in d if k > {k}]")] if k else []
    steps += [(kind, f"d = [k for k in d if k % 2 == {0 if kind == 'even' else 1}]")] if kind else []
    steps.append(("sum" if total else "how many", f"x = {'sum' if total else 'len'}(d)"))
    (p,), (item,) = people(r, 1), things(r, 1, SMALL)
    return Draft(
        fields={"p": p, "item": item, "n": n, "m": m, "k": k, "kind": kind, "sum": True if total else None},
        steps=steps,
        answer=sum(d) if total else len(d),
        numbers=(n, m, k, kind, total),
    )


@family("number")
def power_mod(r: Random, level: int) -> Draft:
    """Remainders of powers, and of their products and sums."""
    m = r.randint(5, 15 + 15 * level)
    powers = [(r.randint(2, 12 + 2 * level), r.randint(5, 20 + 20 * level)) for _ in range((1, 1, 2, 2, 3)[level - 1])]
    plus = r.randint(2, 99) if level in (2, 4) else None
    joint = " * " if level in (3, 4) else " + "
    text = joint.join(f"{a}^{n}" for a, n in powers) + (f" + {plus}" if plus else "")
    rests = []  # by iterating over the powers
    for a, n in powers:
        rest = 1
        for _ in range(n):
            rest = rest * a % m
        rests.append(rest)
    answer = ((prod(rests) if joint == " * " else sum(rests)) + (plus or 0)) % m
    steps = [(f"{a}^{n} by {m}", f"{v} = pow({a}, {n}, {m})") for v, (a, n) in zip("abc", powers, strict=False)]
    if len(powers) > 1 or plus:
        code = joint.join("abc"[: len(powers)]) + (f" + {plus}" if plus else "")
        steps.append(("all together", f"a = {code}"))
        steps.append((f"remainder by {m}", f"a = a % {m}"))
    return Draft(
        fields={"p": people(r, 1)[0], "item": things(r, 1, SMALL)[0], "sum": text, "m": m},
        steps=steps,
        show="a",
        answer=answer,
        numbers=(*powers, plus, m),
    )


@family("number")
def digits(r: Random, level: int) -> Draft:
    """Digit sums of numbers, products and powers, and numbers with a given digit sum."""
    a, b, n = r.randint(12, 999), r.randint(12, 999), r.randint(3, 20)
    u = r.randint(10, 400)
    v, s = u + r.randint(50, 600), r.randint(3, 18)
    add = "x = sum(int(c) for c in str({}))"
    steps = []
    text: str | None = None
    match level:
        case 1:
            value = r.randint(10**3, 10**8)
            text = str(value)
            steps = [(f"digits of {text}", add.format(text))]
        case 2 | 3:
            value = a * b if level == 2 else a * b + n**2
            text = f"{a} * {b}" if level == 2 else f"{a} * {b} + {n}^2"
            steps = [(f"{a} times {b}", f"n = {a} * {b}")]
            steps += [(f"and {n} squared", f"n = n + {n} ** 2")] if level == 3 else []
            steps.append(("digits of it", add.format("n")))
        case 4:
            a = r.randint(2, 30)
            value = a**n * b
            text = f"{a}^{n} * {b}"
            steps = [(f"{a} to the power {n}", f"n = {a} ** {n}"), (f"times {b}", f"n = n * {b}")]
            steps.append(("digits of it", add.format("n")))
        case _:
            value = 0
            steps = [
                (f"numbers from {u} to {v}", f"d = range({u}, {v} + 1)"),
                ("their digit sums", "d = [sum(int(c) for c in str(n)) for n in d]"),
                (f"how many are {s}", f"x = d.count({s})"),
            ]
    answer = 0
    while value:
        value, digit = divmod(value, 10)
        answer += digit
    if level == 5:
        answer = sum(1 for k in range(u, v + 1) if k // 100 + k // 10 % 10 + k % 10 == s)
        if not answer:
            raise RejectedError
    return Draft(
        fields={"p": people(r, 1)[0], "text": text, **({"u": u, "v": v, "s": s} if level == 5 else {})},
        steps=steps,
        answer=answer,
        numbers=(text,) if text else (u, v, s),
    )


@family("number")
def primes(r: Random, level: int) -> Draft:
    """Primes in a range: how many, their sum, the next one, and pairs of them."""
    asked = "after" if level == 1 else "gap" if level == 5 else r.choice(("count", "sum"))
    u = r.randint(2, 900)
    v = u + r.randint(10, 20 + 20 * level)
    end = r.choice((1, 3, 7, 9)) if level == 4 else None
    gap = r.choice((2, 4, 6, 8, 10)) if asked == "gap" else None
    prime = "all({0} % d for d in range(2, {0}))".format
    known = [n for n in range(max(u, 2), v + 1) if _is_prime(n) and (not end or n % 10 == end)]
    match asked:
        case "after":
            v = u
            steps = [(f"above {u}", f"x = {u} + 1"), ("up to a prime", f"while not {prime('x')}:\n    x = x + 1")]
            answer = next(n for n in count(u + 1) if _is_prime(n))
        case "gap":
            steps = [
                (f"primes from {u} to {v}", f"p = [n for n in range({u}, {v} + 1) if {prime('n')}]"),
                (f"add {gap}", f"p = [n + {gap} for n in p]"),
                ("those that are prime", f"p = [n for n in p if {prime('n')}]"),
                ("how many", "x = len(p)"),
            ]
            answer = sum(1 for n in known if _is_prime(n + (gap or 0)))
        case _:
            steps = [(f"primes from {u} to {v}", f"p = [n for n in range({u}, {v} + 1) if {prime('n')}]")]
            steps += [(f"ending in {end}", f"p = [n for n in p if n % 10 == {end}]")] if end else []
            name, comment = ("sum", "sum") if asked == "sum" else ("len", "how many")
            steps.append((comment, f"x = {name}(p)"))
            answer = sum(known) if asked == "sum" else len(known)
    if answer == 0:
        raise RejectedError
    return Draft(
        fields={
            "p": people(r, 1)[0], "u": u, "v": None if asked == "after" else v, "end": end, "gap": gap,
            "sum": True if asked == "sum" else None, "after": True if asked == "after" else None,
        },
        steps=steps,
        answer=answer,
        numbers=(asked, u, v, end, gap),
    )  # fmt: skip


@family("number")
def remainders(r: Random, level: int) -> Draft:
    """The smallest number with given remainders."""
    size = (1, 2, 2, 3, 3)[level - 1]
    by = r.sample(range(3, 8 + 4 * level), size)
    rests = [r.randint(1, b - 1) for b in by]
    low = r.randint(10, 300) if level in (1, 3, 5) else None
    limit = (low or 0) + prod(by)
    first = (low or 0) + 1 + (rests[0] - (low or 0) - 1) % by[0]
    found = [n for n in range(first, limit + 1, by[0]) if [n % b for b in by] == rests]
    if not found or found[0] <= max(rests) or limit > 9999:
        raise RejectedError
    steps = [("numbers to try", f"d = range({f'{low} + 1' if low else 1}, 10000)")]
    for b, rest in zip(by, rests, strict=True):
        steps.append((f"remainder {rest} by {b}", f"d = [n for n in d if n % {b} == {rest}]"))
    steps.append(("the smallest", "x = d[0]"))
    return Draft(
        fields={
            "p": people(r, 1)[0], "item": things(r, 1, SMALL)[0], "low": low,
            "rests": joined([f"remainder {rest} when divided by {b}" for b, rest in zip(by, rests, strict=True)]),
            "rows": joined([f"in rows of {b}, {rest} {'is' if rest == 1 else 'are'} left over"
                            for b, rest in zip(by, rests, strict=True)]),
        },
        steps=steps,
        answer=found[0],
        numbers=(*zip(by, rests, strict=True), low),
    )  # fmt: skip


FAMILIES: tuple[Family, ...] = (gcd_lcm, divisors, power_mod, digits, primes, remainders)
