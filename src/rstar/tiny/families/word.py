"""Word problems about amounts of things: sharing, packing, stocks over time, comparisons, ages: `FAMILIES`.

Templates and drafts: see `rstar.tiny.templates`.
"""

from __future__ import annotations

from random import Random

from rstar.tiny.family import Family, RejectedError
from rstar.tiny.templates import Draft, family
from rstar.tiny.words import BOXES, FOOD, PLACES, PUPILS, SMALL, TOWNS, people, things


@family(
    "word",
    trained="""
    - {p} has [{a} {box:s} of {b} {item:s} each|{n} {item:s}].[ {p:He} <gets|buys> {c} more.][ {p:He}
      <eats|loses|drops> {e}.] [{p:He} also has {d} {other:s}.] {p:He} shares the {item:s} equally among {k} {who:s}.
      How many {item:s} [{?rest}are left over|does each {who} get]?
    - {k} {who:s} share [the {item:s} of {a} {box:s} with {b} in each|{n} {item:s}][ and {c} loose ones]. [{e} of the
      {item:s} are bad and thrown away first.][ The {who:s} also have {d} {other:s}.] [{?rest}How many {item:s}
      remain?|How many {item:s} are there for each {who}?]
    - There are [{a} {box:s} and every {box} holds {b} {item:s}|{n} {item:s}].[ {q} brings {c} more {item:s}.][ {d}
      {other:s} lie on the table.][ {e} {item:s} are <given|put> away.] They are divided equally between {k} {who:s}.
      [{?rest}How many are left at the end?|How many does each {who} receive?]
    - [There are {d} {other:s} in the kitchen.] {p} <wants|has> to give the same number of {item:s} to each of {k}
      {who:s}. {p:He} has [{a} {box:s} with {b} {item:s} in each|{n} {item:s}][ and finds {c} more][, but keeps {e}
      for {q}]. [{?rest}How many cannot be shared?|How many does each one get?]
    - How many {item:s} [{?rest}remain|does each {who} get] when {k} {who:s} share [{a} {box:s} of {b}|{n} {item:s}]
      [, plus {c} single ones,] equally[ after {p} has taken {e} of them]?[ {q} has {d} {other:s}.]
    - A <school|camp|club> gets [{a} {box:s} of {item:s} with {b} in a {box}|{n} {item:s}] for its {k} {who:s}. [{d}
      {other:s} come too.] [A parent brings {c} {item:s} as well.][ {e} {item:s} are spoilt.] Each {who} gets as many
      as possible, all the same. [{?rest}Find the number left over.|How many is that?]
    """,
    held="""
    - [Each of {a} {box:s} contains {b} {item:s}.|{p} counts {n} {item:s}.] [Another {c} are found nearby.][ {p} takes
      {e} home.] [Nobody touches the {d} {other:s}.] Everything is dealt out evenly to {k} {who:s}. [{?rest}What is
      the remainder?|What is one {who}'s share?]
    - For {k} {who:s} at a party, {p} prepares [{n} {item:s}|{item:s} in {a} {box:s} of {b}][ and adds {c}]. [Before
      the party {e} are eaten.] [{q} prepares {d} {other:s}.] All guests get the same amount of {item:s}. [{?rest}How
      many {item:s} will nobody get?|How many will one guest get?]
    """,
)
def sharing(r: Random, level: int) -> Draft:
    """Equal shares and what is left over."""
    rest = r.random() < 0.5
    a, b = r.randint(2, 4 + 3 * level), r.randint(3, 6 + 4 * level)
    c = r.randint(4, 20 * level) if level >= 3 else None
    e = r.randint(2, 10 * level) if level >= 4 else None
    n = r.randint(12, 150) if level == 1 else a * b + (c or 0) - (e or 0)
    fitting = [k for k in range(3, 6 + 2 * level) if n >= 2 * k and (n % k != 0) is rest]
    if not fitting:
        raise RejectedError
    k = r.choice(fitting)
    steps = [(f"{a} times {b}", f"n = {a} * {b}")] if level >= 2 else []
    steps += [(f"{c} more", f"n = n + {c}")] if c else []
    steps += [(f"{e} less", f"n = n - {e}")] if e else []
    total = str(n) if level == 1 else "n"
    if rest:
        steps.append((f"left over from {total} for {k}", f"x = {total} % {k}"))
    else:
        steps.append((f"{total} shared by {k}", f"assert {total} % {k} == 0\nx = {total} // {k}"))
    item, other = things(r, 2, FOOD)
    p, q = people(r, 2)
    some = {"n": n} if level == 1 else {"a": a, "b": b}
    return Draft(
        fields={
            "p": p, "q": q, "k": k, "who": r.choice(PUPILS), "item": item, "other": other, "box": r.choice(BOXES),
            "c": c, "e": e, "d": r.randint(2, 40) if level >= 4 else None, "rest": rest or None, **some,
        },
        steps=steps,
        answer=n - k * max(i for i in range(n + 1) if i * k <= n) if rest else next(i for i in range(n) if i * k == n),
        numbers=(*some.values(), c, e, k, rest),
    )  # fmt: skip


@family(
    "word",
    trained="""
    - {p} packs [{n} {item:s}|{a} bags of {b} {item:s}][ and {c} single {item:s}] into {box:s}.[ {e} of the {item:s}
      are broken and left out.] [There are {d} {other:s} too.] Each {box} holds <up to|at most> {k} {item:s}[ and
      costs ${m}]. [{?m}How many dollars do the {box:s} cost?|How many {box:s} are needed?]
    - A {box} holds {k} {item:s}[ and costs ${m}]. A <farm|shop|factory> has [{n} {item:s}|{a} rows of {b} {item:s}] [
      and {c} others].[ {e} {item:s} are sold before packing.][ It also has {d} {other:s}.] [{?m}What do {box:s} for
      all the {item:s} cost?|How many {box:s} does it need for all of them?]
    - How [{?m}many dollars does it cost|many {box:s} does it take] to pack [{n} {item:s}|{a} piles of {b} {item:s}][
      and {c} more] when {k} fit in a {box}[ and a {box} costs ${m}]?[ Note that {e} of the {item:s} are not packed.][
      There are {d} {other:s}.]
    - [{n} {item:s}|{a} crates with {b} {item:s} each] arrive at the {place}.[ {c} {item:s} are already there.] [{q}
      brings {d} {other:s}.][ {e} {item:s} are taken out.] They go into {box:s} of {k}, the last of which may not be
      full. [If a {box} costs ${m}, how much is spent on {box:s}?|How many {box:s} are used?]
    - {p} has [{n} {item:s}|{a} groups of {b} {item:s}][ plus {c} extra ones]. {p:He} [gives away {e} and] puts the
      [{?e}rest|{item:s}] into {box:s}, {k} to a {box}.[ {q} has {d} {other:s}.] [One {box} is ${m}. What is the price
      of all the {box:s}?|What is the smallest number of {box:s} that is enough?]
    - To store [{n} {item:s}|{a} sets of {b} {item:s}][ and {c} loose {item:s}], {p} buys {box:s} <that hold|with room
      for> {k} each [at ${m} a piece].[ {p:He} does not store {e} of them.][ {p:He} already stored {d} {other:s}.]
      [{?m}How much does {p:he} pay?|How many {box:s} does {p:he} have to buy?]
    """,
    held="""
    - With {k} {item:s} in every {box}, how many {box:s} are needed for [{n} {item:s}|{a} shelves of {b} {item:s}][
      and a pile of {c}][ once {e} {item:s} have been removed]?[ Leave out the {d} {other:s}.] [Give the total price
      of the {box:s} at ${m} for one.]
    - The {place} <sends|ships> [{n} {item:s}|{a} times {b} {item:s}][ and then {c} more][, less {e} that got lost].
      Nothing but {box:s} for {k} {item:s} can be used[, at ${m} per {box}].[ {d} {other:s} stay behind.] [{?m}What
      will the {box:s} cost?|Find how many are used.]
    """,
)
def packing(r: Random, level: int) -> Draft:
    """Boxes needed for things, and their price."""
    a, b = r.randint(3, 5 + 3 * level), r.randint(5, 8 + 5 * level)
    n = r.randint(20, 200) if level == 1 else None
    c = r.randint(5, 20 * level) if level >= 3 else None
    e = r.randint(2, 12) if level >= 4 else None
    m = r.randint(2, 9) if level == 5 else None
    k = r.randint(4, 8 + 2 * level)
    size = (n or a * b) + (c or 0) - (e or 0)
    boxes = sum(1 for _ in range(0, size, k))
    if boxes < 2:
        raise RejectedError
    steps = [(f"{a} times {b}", f"n = {a} * {b}")] if not n else []
    steps += [(f"{c} more", f"n = n + {c}")] if c else []
    steps += [(f"{e} less", f"n = n - {e}")] if e else []
    steps.append((f"{n or 'n'} in groups of {k}, rounded up", f"x = -(-{n or 'n'} // {k})"))
    steps += [(f"x at {m} each", f"t = x * {m}")] if m else []
    item, other = things(r, 2, SMALL)
    p, q = people(r, 2)
    return Draft(
        fields={
            "p": p, "q": q, "item": item, "other": other, "box": r.choice(BOXES), "place": r.choice(PLACES), "k": k,
            "n": n, "c": c, "e": e, "m": m, "d": r.randint(3, 60) if level >= 4 else None,
            **({} if n else {"a": a, "b": b}),
        },
        steps=steps,
        show="t" if m else "x",
        answer=boxes * (m or 1),
        numbers=(n or (a, b), c, e, k, m),
    )  # fmt: skip


@family(
    "word",
    trained="""
    - {p} is [{k} times as old as|{a} years older than] {q}. [{q} is {b} years old|Together they are {sum} years
      old|In {e} years {p} will be {m} times as old as {q}].[ {x} is {d}.] How old [will {p} be in {f} years|was {p}
      {g} years ago|is {p} now]?
    - [{q} is {b} years old|The ages of {p} and {q} add up to {sum}|{e} years from now {p}'s age will be {m} times
      {q}'s age]. [{x} is {d} years old.] {p}'s age is [{k} times {q}'s|{a} years more than {q}'s]. [Find {p}'s age
      {f} years from now|Find {p}'s age {g} years ago|Find {p}'s age today].
    - How old [will {p} be {f} years from now|was {p} {g} years ago|is {p}] if {p:he} is [{k} times as old as {q}|{a}
      years older than {q}] and [{q} is {b}|their ages add up to {sum}|in {e} years {p:he} will be {m} times as old as
      {q}]?[ {x} is {d}.]
    - {p} has a friend called {q}[, who is {b} years old].[ Their teacher is {d}.] {p:He} is [{k} times as old as|{a}
      years older than] {p:his} friend. [The sum of their ages is {sum}.|In {e} years {p:he} will be {m} times as
      old.] [In {f} years, what will {p}'s age be|{g} years ago, what was {p}'s age|What is {p}'s age]?
    - [{x} has {d} friends.] {q} is [{b} years old and] a younger cousin of {p}, who is [{k} times as old|{a} years
      older]. [When you add their ages, you get {sum}.|When {e} years have passed, {p} will be {m} times as old as
      {q}.] [What will be {p}'s age after {f} more years|What was {p}'s age {g} years before today|What is {p}'s age]?
    - A <house|tree|bridge> in {town} is [{k} times as old as|{a} years older than] the one in {town2}[, which is {b}
      years old]. [Together they are {sum} years old.|In {e} years it will be {m} times as old as the other.][ {town}
      is {d} km from {town2}.] How old [will the one in {town} be in {f} years|was the one in {town} {g} years ago|is
      the one in {town}]?
    """,
    held="""
    - When {q} was born, {p} [was {a}|was a child. {p} is now {k} times as old as {q}]. [Today {q} is {b}|Today their
      ages total {sum}|{e} years later than now, {p} is {m} times as old as {q}].[ {p} lives at number {d}.] Give
      {p}'s age [in {f} years|{g} years ago|today].
    - [{x} counts {d} candles.] The <elder|older> of two brothers has lived [{k} times as long as|{a} years longer
      than] the other. [The other is {b}|As a sum their ages make {sum}|After {e} more years it will be {m} times as
      long]. What [will the older one's age be {f} years on|was the older one's age {g} years back|is the age of the
      older one]?
    """,
)
def ages(r: Random, level: int) -> Draft:
    """Ages now, in some years and some years ago."""
    b, times = r.randint(3, 25 + 5 * level), r.random() < 0.5 and level != 5
    k = r.randint(2, 5) if times else None
    a = None if k else r.randint(2, 25 + 4 * level)
    e = m = None
    if level == 5:  # in e years the older one is m times as old
        m, e = r.randint(2, 4), r.randint(2, 15)
        a = (b + e) * (m - 1)
    old = b * k if k else b + (a or 0)
    later = r.choice("fg") if level in (2, 3, 5) else ""
    years = r.randint(2, min(12, old - 1))
    sum_ = old + b if level in (3, 4) else None
    if old > 99:
        raise RejectedError
    match level:
        case 1 | 2:
            steps = [(f"{k} times {b}", f"n = {b} * {k}") if k else (f"{a} years more than {b}", f"n = {b} + {a}")]
        case 3 | 4 if k:
            steps = [(f"{sum_} is 1 and {k} parts", f"b = {sum_} // (1 + {k})"), (f"{k} parts", f"n = b * {k}")]
        case 3 | 4:
            steps = [(f"twice the younger is {sum_} - {a}", f"b = ({sum_} - {a}) // 2"), (f"{a} more", f"n = b + {a}")]
        case _:
            steps = [
                (f"then {a} is {m} - 1 times the younger", f"b = {a} // ({m} - 1)"),
                (f"{e} years before", f"b = b - {e}"),
                (f"{a} years older", f"n = b + {a}"),
            ]
    if level in (3, 4):
        steps.append((f"ages make {sum_}", f"assert n + b == {sum_}"))
    if level == 5:
        steps.append((f"check in {e} years", f"assert n + {e} == {m} * (b + {e})"))
    if later == "f":
        steps.append((f"{years} years later", f"n = n + {years}"))
    if later == "g":
        steps.append((f"{years} years ago", f"n = n - {years}"))
    young = [n for n in range(1, 120) if (sum_ is None or n * (k or 1) + (a or 0) + n == sum_)
             and (not m or n + (a or 0) + (e or 0) == m * (n + (e or 0)))]  # fmt: skip
    found = young[0] if level >= 3 else b
    p, q, x = people(r, 3)
    town, town2 = r.sample(TOWNS, 2)
    return Draft(
        fields={
            "p": p, "q": q, "x": x, "town": town, "town2": town2, "a": a, "k": k, "e": e, "m": m,
            "b": b if level <= 2 else None, "sum": sum_, "f": years if later == "f" else None,
            "g": years if later == "g" else None,
            "d": r.randint(20, 90) if level >= 4 else None,
        },
        steps=steps,
        show="n",
        answer=found * (k or 1) + (a or 0) + (years if later == "f" else -years if later else 0),
        numbers=(a, k, b, e, m, later, years if later else 0, level >= 3),
    )  # fmt: skip


FAMILIES: tuple[Family, ...] = (sharing, packing, ages)
