"""Equations in one and two unknowns: `FAMILIES`. Templates and drafts: see `rstar.tiny.templates`."""

from __future__ import annotations

from random import Random

from rstar.tiny.family import Family, RejectedError
from rstar.tiny.templates import Draft, Story, family
from rstar.tiny.words import ANIMALS, FOOD, people, signed, things


def _line(a: int, b: int, x: str) -> str:
    return f"{a if a > 1 else ''}{x} {signed(b)}" if b else f"{a if a > 1 else ''}{x}"


@family(
    "algebra",
    trained="""
    - Solve for {x}: {left} = {right}.
    - <Find|What is> the value of {x} <if|when> {left} = {right}.
    - <Given that|If> {left} = {right}, what is {x}?
    - The equation {left} = {right} has one solution. <Find it|What is it>?
    - {p} writes {left} = {right} on the board. What number is {x}?
    - For which {x} are {left} and {right} equal?
    - {p} thinks of a number {x}. Then {left} is the same as {right}. What is the number?
    - On page {page} there is the exercise {left} = {right}. What is the right answer for {x}?
    """,
    held="""
    - Determine {x} so that {left} becomes {right}.
    - A scale is in balance with {left} kg on one side and {right} kg on the other. Work out {x}.
    """,
)
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


_DEEDS = {
    "think": {
        "start": "{p} <thinks of|chooses> a number.",
        "+": "{p:He} adds {n}.",
        "-": "{p:He} subtracts {n}.",
        "*": "{p:He} multiplies by {n}.",
        "/": "{p:He} divides by {n}.",
        "end": "{p:He} gets {n}. What was the number?",
    },
    "machine": {
        "start": "A <machine|computer> takes a number.",
        "+": "It <adds {n} to it|makes it {n} larger>.",
        "-": "It <subtracts {n} from it|makes it {n} smaller>.",
        "*": "It multiplies it by {n}.",
        "/": "It divides it by {n}.",
        "end": "It prints {n}. Which number did it take?",
    },
    "money": {
        "start": "{p} has some money in a box.",
        "+": "{p:He} <puts in|adds> ${n}.",
        "-": "{p:He} <takes out|spends> ${n}.",
        "*": "A prize makes it {n} times as much.",
        "/": "{p:He} keeps 1/{n} of it.",
        "end": "Then there are ${n}. How many dollars were there at first?",
    },
    "item": {
        "start": "There are some {item:s} on a table.",
        "+": "{p} <adds|brings> {n} {item:s}.",
        "-": "{p} <takes|eats> {n} {item:s}.",
        "*": "Then {p} makes it {n} times as many.",
        "/": "Only 1/{n} of them stay.",
        "end": "Now {n} {item:s} are there. How many were there in the beginning?",
    },
    "steps": {
        "start": "Start with an unknown number.",
        "+": "Add {n}.",
        "-": "Subtract {n}.",
        "*": "Multiply by {n}.",
        "/": "Divide by {n}.",
        "end": "The result is {n}. Find the number.",
    },
    "it": {
        "start": "A secret number is changed.",
        "+": "Then {n} is added.",
        "-": "Then {n} is taken away.",
        "*": "It is multiplied by {n}.",
        "/": "It is divided by {n}.",
        "end": "This gives {n}. What is the secret number?",
    },
    "lift": {
        "start": "A counter shows some number.",
        "+": "It goes up by {n}.",
        "-": "It goes down by {n}.",
        "*": "It jumps to {n} times its value.",
        "/": "It falls to 1/{n} of its value.",
        "end": "It stops at {n}. Where did it begin?",
    },
    "flock": {
        "start": "Some birds sit on a roof.",
        "+": "{n} more come.",
        "-": "{n} fly away.",
        "*": "The flock becomes {n} times as large.",
        "/": "All go, but for 1/{n} of them.",
        "end": "In the evening {n} are there. How many sat there first?",
    },
}


@family(
    "algebra",
    trained="""
    - {story:think}
    - {story:machine}
    - {story:money}
    - {story:item}
    - {story:steps}
    - {story:it}
    """,
    held="""
    - {story:lift}
    - {story:flock}
    """,
    stories=_DEEDS,
)
def undo(r: Random, level: int) -> Draft:
    """A number found by undoing what was done to it, last first."""
    first = n = r.randint(2, 20 + 20 * level)
    moves: list[tuple[str, int]] = []
    for _ in range(level):
        op = r.choice("+-*/" if not moves or moves[-1][0] in "+-" else "+-")
        by = r.randint(2, 9) if op in "*/" else r.randint(2, 20 + 10 * level)
        if op == "/" and n % by:
            raise RejectedError
        n = {"+": n + by, "-": n - by, "*": n * by, "/": n // by}[op]
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


@family(
    "algebra",
    trained="""
    - {p} and {q} have {s} {item:s} together.[ {p} has {d} more than {q}.| {p} has {k} times as many as {q}.| {p} has
      {e} more than {k2} times as many as {q}.][ {q} is {z} years old.] How many does [{?small}{q}|{p}] have?
    - The sum of two numbers is {s}. [Their difference is {d}.|The larger is {k} times the smaller.|The larger is {e}
      more than {k2} times the smaller.] [The exercise is on page {z}.] Find the [{?small}smaller|larger] one.
    - {s} <people|children> are in two rooms. [In the first there are {d} more than in the second.|In the first there
      are {k} times as many as in the second.|In the first there are {e} more than {k2} times the number in the
      second.][ A room has {z} chairs.] How many are in the [{?small}second|first] room?
    - A rope of {s} m is cut into two pieces. [One is {d} m longer than the other.|One is {k} times as long as the
      other.|One is {e} m longer than {k2} times the other.][ It weighs {z} kg.] How long is the
      [{?small}shorter|longer] piece in m?
    - {item:A} and {other:a} cost ${s}. The {item} costs [${d} more than the {other}|{k} times as much as the
      {other}|${e} more than {k2} times the {other}].[ {p} has ${z}.] What does the [{?small}{other}|{item}] cost in
      dollars?
    - Two farms have {s} {animal:s}. [The big one has {d} more than the small one.|The big one has {k} times as many
      as the small one.|The big one has {e} more than {k2} times as many as the small one.][ They are {z} km apart.]
      How many {animal:s} has the [{?small}small|big] one?
    """,
    held="""
    - {s} votes were given to {p} or {q}. [{p} won by {d} votes.|For each vote for {q} there were {k} for {p}.|With
      {e} votes fewer {p} would have had {k2} times the votes of {q}.][ {z} did not vote.] What number of votes went
      to [{?small}{q}|{p}]?
    - Split {s} into two parts such that one part is [{d} greater than the other|{k} times as great as the other|{e}
      greater than {k2} times the other].[ You have {z} minutes.] Give the [{?small}lesser|greater] part.
    """,
)
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


@family(
    "algebra",
    trained="""
    - {a} {i1:s} and {b} {i2:s} cost ${c}. {d} {i1:s} and {e} {i2:s} cost ${f}.[ {p} has ${z}.] What do[{?one}es
      {i1:a}|{?two}es {i2:a}| {g} {i1:s} and {h} {i2:s}] cost?
    - {p} <pays|gives> ${c} for {a} {i1:s} and {b} {i2:s}. {q} <pays|gives> ${f} for {d} {i1:s} and {e} {i2:s}.[ {z}
      people wait.] How much is [{?one}{i1:a}|{?two}{i2:a}|it for {g} {i1:s} and {h} {i2:s}]?
    - If {a}x + {b}y = {c} and {d}x + {e}y = {f}, what is [{?one}x|{?two}y|{g}x + {h}y]?[ It is question {z}.]
    - Solve {a}x + {b}y = {c}, {d}x + {e}y = {f}.[ You have {z} minutes.] Give [{?one}x|{?two}y|the value of {g}x +
      {h}y].
    - {a} <boxes|crates> of {i1:s} and {b} <boxes|crates> of {i2:s} weigh {c} kg; {d} of {i1:s} and {e} of {i2:s}
      weigh {f} kg.[ A truck carries {z} boxes.] What is the weight in kg of [{?one}one with {i1:s}|{?two}one with
      {i2:s}|{g} with {i1:s} and {h} with {i2:s}]?
    - On Monday a shop sold {a} {i1:s} and {b} {i2:s} for ${c}, on Tuesday {d} {i1:s} and {e} {i2:s} for ${f}.[ It has
      {z} workers.] Find the price of [{?one}{i1:a}|{?two}{i2:a}|{g} {i1:s} and {h} {i2:s}].
    """,
    held="""
    - Two orders were {a} {i1:s} with {b} {i2:s} and {d} {i1:s} with {e} {i2:s}; the bills were ${c} and ${f}.[ They
      took {z} minutes.] How many dollars would [{?one}a single {i1}|{?two}a single {i2}|{g} {i1:s} with {h} {i2:s}]
      be?
    - {a} blue and {b} red sticks laid end to end are {c} cm long, while {d} blue and {e} red ones are {f} cm long.[
      {p} has {z} green ones.] How long [{?one}is a blue one|{?two}is a red one|are {g} blue and {h} red ones], in cm?
    """,
)
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
