"""Word problems about buying, earning and selling: `FAMILIES`. Templates and drafts: see `rstar.tiny.templates`."""

from __future__ import annotations

from random import Random

from rstar.tiny.family import Family, RejectedError
from rstar.tiny.templates import Draft, family
from rstar.tiny.words import CREW, Purchase, people, things


@family("word")
def shopping(r: Random, level: int) -> Draft:
    """Cost of a basket, coupon and change."""
    kinds = (1, 2, 2, 2, 3)[level - 1]
    cents = level >= 3 and r.random() < 0.3
    lines = []
    for noun in things(r, kinds):
        price = r.randint(11, 59) * 5 if cents else r.randint(2, 8 + 3 * level) * 100
        lines.append((r.randint(2, 5 + 2 * level), noun, price))
    total = sum(n * price for n, _, price in lines)
    off = r.randint(2, 9) if level >= 4 else None
    if off:
        total -= off * 100
    paid = (total // 1000 + r.randint(1, 3)) * 10 if level >= 3 else None
    written = [f"{price / 100:.2f}" if cents else str(price // 100) for _, _, price in lines]
    steps = [(f"{n} at {w}", f"{v} = {n} * {w}") for v, (n, _, _), w in zip("abc", lines, written, strict=False)]
    if kinds > 1:
        steps.append(("all together", f"t = {' + '.join('abc'[:kinds])}"))
    if off:
        steps.append((f"{off} off", f"t = t - {off}"))
    if paid:
        steps.append((f"left of {paid}", f"t = {paid} - t"))
        total = paid * 100 - total
    show = "t" if kinds > 1 else "a"
    p, q = people(r, 2)
    return Draft(
        fields={
            "p": p, "q": q, "off": off, "paid": paid, "x": things(r, 1)[0], "d": r.randint(2, 30) if off else None,
            "buy": Purchase([(n, noun, w) for (n, noun, _), w in zip(lines, written, strict=True)]),
        },
        steps=steps,
        show=f'f"{{{show}:.2f}}"' if cents else show,
        answer=f"{total / 100:.2f}" if cents else total // 100,
        numbers=(*((n, price) for n, _, price in lines), off, paid),
    )  # fmt: skip


@family("word")
def savings(r: Random, level: int) -> Draft:
    """Weekly savings and spending, and the number of weeks to reach a goal."""
    a = r.randint(5, 15 + 10 * level)
    s = r.randint(10, 60 + 20 * level) if level >= 2 else None
    b = r.randint(2, a - 2) if level >= 3 else None
    goal = (s or 0) + r.randint(60, 400) if level >= 4 else None
    w = r.randint(3, 12 + 3 * level)
    p, q = people(r, 2)
    gain = a - (b or 0)
    steps = [(f"{a} in and {b} out a week", f"n = {a} - {b}")] if b else []
    n = "n" if b else str(a)
    if goal:
        steps += [(f"from {s} to {goal}", f"m = {goal} - {s}"), ("weeks, rounded up", "w = -(-m // n)")]
        if level == 5:
            steps.append(("enough after w weeks, not before", "assert n * (w - 1) < m <= n * w"))
        answer = next(k for k in range(1, goal + 1) if (s or 0) + k * gain >= goal)
    else:
        steps.append((f"{n} a week for {w} weeks", f"t = {n} * {w}"))
        steps += [(f"and {s} at the start", f"t = t + {s}")] if s else []
        answer = (s or 0) + sum(gain for _ in range(w))
    return Draft(
        fields={"p": p, "q": q, "a": a, "b": b, "s": s, "w": w, "goal": goal, "d": r.randint(2, 9) if goal else None},
        steps=steps,
        show="w" if goal else "t",
        answer=answer,
        numbers=(a, b, s, goal or ("after", w)),
    )


@family("word")
def tickets(r: Random, level: int) -> Draft:
    """Money from adult and child tickets, or how many of each were sold."""
    c = r.randint(2, 6 + 2 * level)
    a = c + r.randint(2, 4 + 2 * level)
    m, k = r.randint(2, 8 + 12 * level), r.randint(2, 8 + 12 * level)
    n, sum_ = m + k, a * m + c * k
    known = {"m": m, "k": k} if level <= 2 else {"n": n, "k": k} if level == 3 else {"n": n, "sum": sum_}
    rest = [(f"{k} children at {c}", f"y = {k} * {c}"), ("all together", "t = x + y")]
    if level <= 2:
        steps = [(f"{m} adults at {a}", f"x = {m} * {a}"), *rest]
    elif level == 3:
        steps = [(f"adults, {k} of {n} are children", f"m = {n} - {k}"), (f"m adults at {a}", f"x = m * {a}"), *rest]
    else:
        steps = [
            (f"if all {n} paid {c}", f"x = {n} * {c}"),
            (f"missing from {sum_}", f"y = {sum_} - x"),
            (f"each adult pays {a} and not {c}", f"m = y // ({a} - {c})"),
        ]
        if level == 5:
            steps.append((f"m adults and the others pay {sum_}", f"assert m * {a} + ({n} - m) * {c} == {sum_}"))
    found = next(i for i in range(n + 1) if a * i + c * (n - i) == sum_)
    p, q = people(r, 2)
    return Draft(
        fields={"p": p, "q": q, "a": a, "c": c, "d": r.randint(20, 90) if level >= 4 else None, **known},
        steps=steps,
        show="m" if level >= 4 else "t",
        answer=found if level >= 4 else sum_,
        numbers=(a, c, *known.values()),
    )


@family("word")
def wages(r: Random, level: int) -> Draft:
    """Pay by the hour, overtime, deductions and the time to earn a sum."""
    a, h = r.randint(6, 40), r.randint(3, 9)
    w = r.randint(2, 4 + 2 * level) if level >= 2 else None
    e, b = (r.randint(2, 9), a + r.randint(2, 9)) if level >= 3 else (None, None)
    x = r.randint(10, 99) if level >= 4 else None
    if level == 1:
        h = r.randint(2, 12)
    steps = [(f"{h} hours a day, {w} days", f"n = {h} * {w}")] if w else []
    steps.append((f"pay at {a} an hour", f"t = {'n' if w else h} * {a}"))
    pay = sum(a for _ in range(h * (w or 1)))
    if e and b:
        steps += [(f"{e} hours at {b}", f"c = {e} * {b}"), ("all together", "t = t + c")]
        pay += b * e
    if x:
        steps.append((f"{x} less", f"t = t - {x}"))
        pay -= x
    if pay <= 0:
        raise RejectedError
    p, q = people(r, 2)
    return Draft(
        fields={
            "p": p, "q": q, "job": r.choice(CREW), "a": a, "h": h, "w": w, "e": e, "b": b, "x": x,
            "d": r.randint(11, 60) if level == 5 else None,
        },
        steps=steps,
        show="t",
        answer=pay,
        numbers=(a, h, w, e, b, x),
    )  # fmt: skip


FAMILIES: tuple[Family, ...] = (shopping, savings, tickets, wages)
