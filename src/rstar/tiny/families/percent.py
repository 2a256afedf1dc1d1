"""Percentages, discounts, growth and tips: `FAMILIES`. Templates and drafts: see `rstar.tiny.templates`."""

from __future__ import annotations

from fractions import Fraction
from random import Random

from rstar.tiny.family import Family, RejectedError
from rstar.tiny.templates import Draft, family
from rstar.tiny.words import DEAR, people, things


@family("ratio")
def percent_of(r: Random, level: int) -> Draft:
    """Percentages of numbers, one of another, added and subtracted."""
    a, b, c = (r.choice((5, 10, 15, 20, 25, 30, 35, 40, 45, 50, 60, 65, 70, 75, 80, 90)) for _ in range(3))
    if level >= 2 and r.random() < 0.5:
        a = r.randint(2, 98)
    two, extra = level in (3, 5), level in (2, 4, 5)
    n, m = r.randint(4, 60 + 40 * level) * 10, r.randint(4, 60 + 40 * level) * 10
    first = Fraction(n * a * (b if two else 100), 10000)
    second = Fraction(m * c, 100) if extra else Fraction(0)
    d = r.randint(2, 30) if level >= 4 else None
    total = first + second - (d or 0)
    if total <= 0 or first.denominator > 1 or second.denominator > 1 or (two and n * b % 100):
        raise RejectedError
    steps = [(f"{b}% of {n}", f"x = {n} * {b} // 100"), (f"{a}% of x", f"x = x * {a} // 100")]
    if not two:
        steps = [(f"{a}% of {n}", f"x = {n} * {a} // 100")]
    steps += [(f"{c}% of {m}", f"y = {m} * {c} // 100"), ("together", "x = x + y")] if extra else []
    steps += [(f"{d} less", f"x = x - {d}")] if d else []
    p, q = people(r, 2)
    return Draft(
        fields={
            "p": p, "q": q, "item": things(r, 1)[0], "a": a, "b": b if two else None, "c": c if extra else None, "n": n,
            "m": m if extra else None, "d": d,
        },
        steps=steps,
        answer=total,
        numbers=(a, b if two else 0, n, *((c, m) if extra else ()), d),
    )  # fmt: skip


@family("ratio")
def discount(r: Random, level: int) -> Draft:
    """A price after discounts, a coupon and tax."""
    a, b = r.choice((5, 10, 15, 20, 25, 30, 35, 40, 60, 70)), r.choice((10, 20, 25, 30, 40, 50))
    n = r.randint(4, 60) * 5 if level == 1 else r.randint(2, 60) * 20
    two, c = level >= 3, r.randint(2, 15) if level >= 4 else None
    t = r.choice((5, 10, 20)) if level == 5 else None
    k = r.randint(2, 9) if level == 2 else None
    steps = [(f"{a}% off {n}", f"x = {n} * (100 - {a}) // 100")]
    steps += [(f"{b}% off x", f"x = x * (100 - {b}) // 100")] if two else []
    steps += [(f"{c} off", f"x = x - {c}")] if c else []
    steps += [(f"{t}% more", f"x = x * (100 + {t}) // 100")] if t else []
    steps += [(f"{k} of them", f"x = x * {k}")] if k else []
    parts = [Fraction(n)]
    parts.append(parts[-1] - parts[-1] * Fraction(a, 100))
    parts.append(parts[-1] * (1 - Fraction(b, 100)) if two else parts[-1])
    parts.append(parts[-1] - (c or 0))
    parts.append(parts[-1] + parts[-1] * Fraction(t or 0, 100))
    if parts[3] <= 0 or any(part.denominator > 1 for part in parts):
        raise RejectedError
    p, q = people(r, 2)
    return Draft(
        fields={
            "p": p, "q": q, "item": r.choice(DEAR), "n": n, "a": a, "b": b if two else None, "c": c, "t": t, "k": k,
            "z": r.randint(11, 90) if level >= 4 else None,
        },
        steps=steps,
        answer=parts[-1] * (k or 1),
        numbers=(n, a, b if two else 0, c, t, k),
    )  # fmt: skip


@family("ratio")
def percent_change(r: Random, level: int) -> Draft:
    """Growth and decline in percent, forwards and backwards."""
    back, change = level == 4 or (level == 5 and r.random() < 0.5), level == 2
    used = ("a", r.choice("ab"), "ab", r.choice(("ab", "bc")), "abc")[level - 1]
    rates = {key: r.choice((5, 10, 15, 20, 25, 30, 40, 50, 60, 75)) for key in used}
    n = r.randint(4, 60 + 20 * level) * (5 if level == 1 else 20)
    amounts = [Fraction(n)]
    for key, rate in rates.items():
        amounts.append(amounts[-1] + amounts[-1] * Fraction(-rate if key == "b" else rate, 100))
    if any(amount.denominator > 1 for amount in amounts):
        raise RejectedError
    m = amounts[-1]
    up = m > n
    factor = {key: f"(100 {'-' if key == 'b' else '+'} {rate})" for key, rate in rates.items()}
    words = {key: f"{rate}% {'less' if key == 'b' else 'more'}" for key, rate in rates.items()}
    if change:
        low, high = (n, m) if up else (m, n)
        steps = [(f"from {n} to {m}", f"d = {high} - {low}"), (f"percent of {n}", f"x = d * 100 // {n}")]
    elif back:
        steps, x = [], str(m)
        for key in reversed(used):
            steps.append((f"before {words[key]}", f"x = {x} * 100 // {factor[key]}"))
            x = "x"
        forward = " // 100".join(f" * {factor[key]}" for key in used) + " // 100"
        steps.append(("check", f"assert x{forward} == {m}"))
    else:
        steps, x = [], str(n)
        for key in used:
            steps.append((words[key], f"x = {x} * {factor[key]} // 100"))
            x = "x"
    p, q = people(r, 2)
    return Draft(
        fields={
            "p": p, "q": q, "item": r.choice(DEAR), "n": None if back else n, "m": m if back or change else None,
            "a": None if change else rates.get("a"), "b": None if change else rates.get("b"), "c": rates.get("c"),
            "back": back or None, "change": change or None, "up": up or None,
            "z": r.randint(11, 90) if level >= 4 else None,
        },
        steps=steps,
        answer=n if back else abs(m - n) * 100 / n if change else m,
        numbers=(n, *rates.items(), back),
    )  # fmt: skip


@family("ratio")
def tips(r: Random, level: int) -> Draft:
    """A bill with tip and tax, shared by several."""
    a, price = r.choice((5, 10, 12, 15, 18, 20, 25)), r.randint(2, 40 + 10 * level) * 5
    k, e = (r.randint(2, 6), r.randint(3, 30)) if level >= 4 else (None, None)
    t = r.choice((4, 5, 6, 8, 10)) if level in (3, 5) else None
    g = k + 1 if k and level == 5 else None
    n = price - (k or 0) * (e or 0)
    tip, tax = Fraction(price * a, 100), Fraction(price * (t or 0), 100)
    whole = tip if level == 1 else price + tip + tax
    share = whole / (g or 1)
    if n < 5 or tip.denominator > 1 or tax.denominator > 1 or share.denominator > 1:
        raise RejectedError
    steps = [(f"{n} and {k} times {e}", f"n = {n} + {k} * {e}")] if k else []
    v = "n" if k else str(n)
    steps.append((f"tip of {a}%", f"x = {v} * {a} // 100"))
    steps += [(f"tax of {t}%", f"y = {v} * {t} // 100")] if t else []
    steps += [("all together", f"x = {v} + x + y" if t else f"x = {v} + x")] if level > 1 else []
    steps += [(f"shared by {g}", f"assert x % {g} == 0\nx = x // {g}")] if g else []
    p, q = people(r, 2)
    return Draft(
        fields={
            "p": p, "q": q, "n": n, "a": a, "k": k, "e": e, "t": t, "g": g, "whole": True if 1 < level < 5 else None,
            "split": True if level == 5 else None, "z": r.randint(11, 90) if level >= 4 else None,
        },
        steps=steps,
        answer=share,
        numbers=(n, a, k, e, t, g),
    )  # fmt: skip


FAMILIES: tuple[Family, ...] = (percent_of, discount, percent_change, tips)
