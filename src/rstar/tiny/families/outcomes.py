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


@family(
    "counting",
    trained="""
    - {p} rolls {dice}. [{?chance}What is the probability|In how many ways can it happen] that the sum is {what}?
    - {Dice} are rolled. [{?chance}Find the probability of|Count the outcomes with] a sum that is {what}.
    - How [{?chance}likely is it|many outcomes are there such] that {dice} show a sum which is {what}?[{?chance}
      Answer with a fraction.]
    - In a game {p} throws {dice} and adds the numbers. [{?chance}With what probability|For how many outcomes] is the
      result {what}?
    - {p} and {q} roll {dice} and win if the sum is {what}. [{?chance}What is their chance|How many of the outcomes
      win]?
    - The numbers on {dice} are added after a roll. [{?chance}As a fraction, how often|In how many cases] is the total
      {what}?
    """,
    held="""
    - [{?chance}State the chance|State the number of possible results] for a total of the eyes {what}, when {p} drops
      {dice}.
    - {Dice} fall on a table. [{?chance}Which fraction|How many] of all the cases [{?chance}has|have] eyes with a sum
      {what}?
    """,
)
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


@family(
    "counting",
    trained="""
    - How many whole numbers from {u} to {v} are divisible by {by}?
    - Count the numbers from {u} to {v} that are multiples of {what}.
    - {p} writes down all numbers from {u} to {v} and marks the multiples of {what}. How many are marked?
    - Houses have the numbers {u} to {v}. Those with a number divisible by {by} get a lamp. How many lamps is that?
    - Of the numbers {u}, {u2}, ..., {v}, how many can be divided by {by} without remainder?
    - Between {u} and {v}, both included, how many numbers are multiples of {what}?
    """,
    held="""
    - {p} counts aloud from {u} up to {v} and claps at each number in the table of {what}. How many claps are heard?
    - In a hall with seats {u} to {v}, a seat is free when its number is a multiple of {what}. State the number of
      free seats.
    """,
)
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


@family(
    "counting",
    trained="""
    - {p} <walks|goes|moves> on a grid, only right or up, from (0, 0) to ({w}, {h})[, through ({a}, {b})][, not
      through ({c}, {d})]. How many paths are there?
    - How many shortest <ways|routes|paths> lead {w} blocks east and {h} blocks north in a town[, if they pass the
      corner {a} blocks east and {b} blocks north of the start][, if the corner {c} blocks east and {d} blocks north
      of the start is closed]?
    - {p} has a robot that makes steps right and up on a board. It starts at (0, 0) and stops at ({w}, {h}).[ On its
      way it must visit ({a}, {b}).][ It may not touch ({c}, {d}).] How many ways does it have?
    - <Count|Find the number of> paths from (0, 0) to ({w}, {h}) with steps right or up[ that go through ({a},
      {b})][{?a}{?c} and|{?c} that][ avoid ({c}, {d})].
    - {p} drives {w} streets east and {h} streets north to {p:his} friend, never back.[ {p:He} stops at a shop {a}
      east and {b} north of the start.][ A crossing {c} east and {d} north of the start is blocked.] How many routes
      can {p:he} take?
    - In how many <orders|ways> can {p} go {w} times right and {h} times up[ so that {p:he} is at ({a}, {b}) in
      between][, without being at ({c}, {d})]?
    """,
    held="""
    - An ant of {p} at the corner (0, 0) wants to get to ({w}, {h}); each move adds 1 to one coordinate.[ Food lies at
      ({a}, {b}), where it has to pass.][ Water at ({c}, {d}) blocks it.] What is the number of its routes?
    - On graph paper, {p} draws lines to the right and upwards from (0, 0) to ({w}, {h})[, always by way of ({a},
      {b})][, never by way of ({c}, {d})]. Find how many such drawings are possible.
    """,
)
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


@family(
    "counting",
    trained="""
    - {p} makes a code of {n} letters from {k} letters[ and then {m} digits from {j} digits].[{?once} No letter may
      come twice.][ At least {some} letter is B.] How many codes are possible?
    - A <lock|door|safe> opens with {n} signs, each one of {k} signs[, followed by {m} colours, each one of {j}
      colours].[{?once} All the signs are different.][ The star is {some} of the {k} signs, and it must be there at
      least once.] How many settings are there?
    - How many words of {n} letters can be made with {k} letters[, each used at most {once}][, when the letter E has
      to appear at least {some} time][, with a number of {m} digits behind it, made with {j} digits]?
    - The number plates of a town have {n} letters[ and {m} digits][{?once}, with no letter more than once]. There are
      {k} letters[ and {j} digits] to choose from.[ A plate must have at least {some} letter B.] How many plates are
      there?
    - {p} paints {n} {item:s} in a row, each in one of {k} colours[, and {m} {other:s}, each in one of {j}
      colours].[{?once} No two {item:s} get the same colour.][ At least {some} of the {item:s} must be red.] In how
      many ways can {p:he} do it?
    - For {n} days {p} eats one of {k} <soups|fruits> a day[ and for {m} days one of {j} cakes].[{?once} {p:He} never
      eats the same of the {k} twice.][ At least {some} day must have the best of the {k}.] How many plans are there?
    """,
    held="""
    - A signal shows {n} lights, one after another, out of {k} kinds[, then {m} sounds out of {j} kinds].[{?once} No
      kind of light comes again.][ The green kind is seen {some} time or more.] Work out the number of signals.
    - A quiz has {n} questions with {k} possible answers each[ and {m} questions with {j} possible answers
      each].[{?once} {p} never gives the same of the {k} answers again.][ {p} gives the last of the {k} answers at
      least {some} time.] Find in how many ways {p} can fill it in.
    """,
)
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


@family(
    "counting",
    trained="""
    - A bag has {a} red[, {c} green] and {b} blue {item:s}.[ {z} more are on a table.] {p} takes {n} at random[ and
      puts none {back}]. What is the probability that {event}?
    - {p} has {a} red[, {c} green] and {b} blue {item:s} in a box and draws {n} without looking.[ {p:He} is {z} years
      old.] Find the probability that {event}.
    - From {a} red[ and {c} green] and {b} blue {item:s}, [{single} is|{n} are] chosen at random.[ They cost ${z}
      each.] How likely is it that {event}? Give a fraction.
    - There are {a} red {item:s}[, {c} green ones] and {b} blue ones.[ Of these {z} are old.] {p} picks {n} of them by
      chance. With what probability is it true that {event}?
    - A machine gives {n} of its {a} red[, {c} green] and {b} blue {item:s} by chance.[ It costs {z} cents.] What is
      the chance that {event}?
    - {p} and {q} put {a} red[, {c} green] and {b} blue {item:s} in a hat and take out {n} blindly.[ {q} is {z} years
      old.] As a fraction, what is the probability that {event}?
    """,
    held="""
    - In a drawer lie {b} blue[, {c} green] and {a} red {item:s}.[ The drawer is {z} cm wide.] At night {p} grabs {n}.
      State the chance that {event}.
    - Out of a basket with {b} blue[, {c} green] and {a} red {item:s}, [{single} falls|{n} fall] to the ground.[ {z}
      people look.] Which fraction of the possible cases is such that {event}?
    """,
)
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
