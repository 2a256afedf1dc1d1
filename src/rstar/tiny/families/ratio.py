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


@family(
    "ratio",
    trained="""
    - {p}[, {q}] and {x} share [{n}|some] {item:s} in the ratio {ratio}.[ {z} {other:s} are not shared.][ {x} gets
      {last} of them.][ {x} gets {more} more than {p}.] How many {item:s} [{?all}are shared|{?diff}more does {x} get
      than {p}|{?mid}does {q} get|does {p} get]?
    - Some money is split between {p}[, {q}] and {x} as {ratio}.[ In all it is ${n}.][ {x} receives ${last}.][ {x}
      receives ${more} more than {p}.][ They have been friends for {z} years.] How many dollars [{?all}are
      split|{?diff}more than {p} does {x} receive|{?mid}does {q} receive|does {p} receive]?
    - The ratio of red[{?mid3}, blue] and green {item:s} in a box[ of {n}] is {ratio}.[ There are {last} green ones.][
      There are {more} more green than red ones.][ The box is {z} cm wide.] [{?all}What is the number of all {item:s}
      in it|{?diff}By how many are the green ones more than the red ones|{?mid}How many are blue|How many are red]?
    - To make a <paint|drink>, {p} mixes [{?mid3}three|two] parts X[, Y{?mid3}] and Z in the ratio {ratio}.[ {p:He}
      makes {n} litres.][ {p:He} uses {last} litres of Z.][ {p:He} needs {more} litres more of Z than of X.][ It is
      kept for {z} days.] How many litres [{?all}does {p:he} make|{?diff}more of Z than of X does {p:he} use|{?mid}of
      Y are in it|of X are in it]?
    - In a <school|club> [with {n} children ]the numbers of <small|young>[{?mid3}, middle] and <tall|old> children are
      as {ratio}.[ The last group has {last} children.][ The last group has {more} more than the first.][ There are
      {z} rooms.] [{?all}Find the number of all these children|{?diff}Find how many more the last group has than the
      first|{?mid}Find the size of the middle group|Find the size of the first group].
    - How many [{?all}{item:s} are shared|{?diff}{item:s} more than {p} does {x} get|{?mid}{item:s} does {q}
      get|{item:s} does {p} get] if {p}[, {q}] and {x} share [{n} of ]them as {ratio}[, {x} getting {last}][, {x}
      getting {more} more than {p}]?[ {x} is {z} years old.]
    """,
    held="""
    - A rope[ of {n} m] is cut in the ratio {ratio}.[ The last piece is {last} m long.][ The last piece is longer than
      the first by {more} m.][ It was bought for ${z}.] [{?all}How long was the rope in m|{?diff}How much longer than
      the first is the last piece in m|{?mid}How long is the middle piece in m|How long is the first piece in m]?
    - [Out of {n} votes, those|Votes] for {p}[, for {q}] and for {x} are in proportion {ratio}.[ {x} has {last}
      votes.][ {p} has {more} votes fewer than {x}.][ {z} people did not vote.] [{?all}What is the number of
      votes|{?diff}With how many votes more does {x} beat {p}|{?mid}What does {q} have|What does {p} have]?
    """,
)
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


@family(
    "ratio",
    trained="""
    - {p} <mixes|takes> {a} litres of {u}% <juice|acid>[ with {b} litres of {v}% strength][ and {w} litres of water].[
      It is {z} degrees warm.] [{?percent}What percent is the mixture|How many litres <are pure|of it are pure>]?
    - A <tank|pot|can> holds {a} litres with {u}% <salt|sugar|juice>.[ {b} litres with {v}% are poured in.][ {w}
      litres of water are added.] [{p} waits {z} minutes.] [{?percent}Find the percentage now.|Find the amount of pure
      stuff in litres.]
    - What [{?percent}percentage has a mixture|amount is pure in a mixture] of {a} kg with {u}% <gold|silver|tin>[ and
      {b} kg with {v}%] [ and {w} kg with none of it]?[ One kg costs ${z}.]
    - {a} kg of a <cheese|cream|paste> with {u}% fat [and {b} kg of another with {v}% fat ]are <mixed|used>[ together
      with {w} kg of flour without fat].[ {p} adds {z} grams of pepper later.] [{?percent}What percentage of fat
      results|How many kg of fat is that]?
    - In a <factory|kitchen>, {a} litres of {u}% <oil|vinegar> [are put together with {b} litres of {v}% |are
      measured] [and {w} litres of water].[ A litre costs ${z}.] [{?percent}How many percent does the mix have|How
      many litres in it are pure]?
    - {p} has {a} litres of paint with {u}% white[, adds {b} litres with {v}% white][ and then {w} litres without
      white].[ {p:He} paints {z} doors.] [{?percent}How many percent of the paint are white|How many litres of white
      are in it]?
    """,
    held="""
    - Of {a} tons of ore, {u} percent are iron[; of another {b} tons, {v} percent are][; and in {w} tons of stone
      there is none].[ A train has {z} cars.] [{?percent}If all are put in one heap, iron makes up what percent of
      it|How many tons of iron are there]?
    - A farmer's milk, {a} litres, has {u}% cream.[ A neighbour's milk, {b} litres, has {v}%.][ {w} litres of water
      get in by accident.][ They own {z} cows.] [{?percent}State the percentage of cream in all this together|State
      the litres of cream].
    """,
)
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


@family(
    "ratio",
    trained="""
    - {a} {i1:s} are worth {b} {i2:s}[, and {c} {i2:s} are worth {d} {i3:s}][, and {e} {i3:s} are worth {f} {i4:s}].[
      {p} has {z} {other:s}.] How many {get:s} are worth {n} {i1:s}[ and {more} {get:s} more]?
    - At a market, {p} <gets|is given> {b} {i2:s} for {a} {i1:s}[, {d} {i3:s} for {c} {i2:s}][, {f} {i4:s} for {e}
      {i3:s}].[ {z} {other:s} are on a table.] {p:He} brings {n} {i1:s}[ and has {more} {get:s} already]. How many
      {get:s} does {p:he} <have|own> in the end?
    - How many {get:s} does {p} have after changing {n} {i1:s}, if {a} {i1:s} can be changed into {b} {i2:s}[, {c}
      {i2:s} into {d} {i3:s}] [, {e} {i3:s} into {f} {i4:s}][, and {p:he} had {more} {get:s} before]?[ {q} has {z}
      {other:s}.]
    - {a} {i1:s} weigh as much as {b} {i2:s}.[ {c} {i2:s} weigh as much as {d} {i3:s}.][ {e} {i3:s} weigh as much as
      {f} {i4:s}.][ There are {z} {other:s} too.] On one side of a scale lie {n} {i1:s}[ and {more} {get:s}]. How many
      {get:s} on the other side weigh the same?
    - [{q} offers {f} {i4:s} for {e} {i3:s}.] [A shop gives {d} {i3:s} for {c} {i2:s}.] {p} can trade {a} {i1:s} for
      {b} {i2:s}.[ {p:He} keeps {z} {other:s}.] {p:He} has {n} {i1:s}[ and {more} {get:s}]. If all {i1:s} become
      {get:s}, how many {get:s} does {p:he} have?
    - {p} collects {i1:s}. For {a} of them one gets {b} {i2:s}.[ For {c} of these one gets {d} {i3:s}.][ For {e} of
      these one gets {f} {i4:s}.][ {q} collects {z} {other:s}.] {p} gives away {n} {i1:s}[ but owns {more} {get:s}
      from before]. What number of {get:s} will {p:he} have?
    """,
    held="""
    - Children <swap|exchange> things: {b} {i2:s} against {a} {i1:s}[; {d} {i3:s} against {c} {i2:s}][; {f} {i4:s}
      against {e} {i3:s}]. {p} starts with {n} {i1:s}[ plus {more} {get:s}].[ {z} {other:s} are never swapped.] At the
      end {p:he} has {get:s} only. How many?
    - It takes {a} {i1:s} to buy {b} {i2:s}[ and {c} {i2:s} to buy {d} {i3:s}][ and {e} {i3:s} to buy {f} {i4:s}].
      [{?more}What total of|What number of] {get:s} can {p} have with {n} {i1:s}[ if {more} {get:s} are a present from
      {q}]?[ The market has {z} {other:s}.]
    """,
)
def exchange(r: Random, level: int) -> Draft:
    """Things worth others: a chain of proportions."""
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


@family(
    "ratio",
    trained="""
    - {p} has {n} {item:s}. {p:He} gives {f1} of them to {q}[ and then {f2} of the rest to {x}][ and then {f3} of what
      is left to a friend].[ After that {p:he} loses {k}.][ {p:He} has {z} {other:s} too.] How many {item:s} does {p}
      have <now|at the end>?
    - A <school|shop|farm> <buys|has> {n} {item:s}. On Monday {f1} of them are used[, on Tuesday {f2} of those left][,
      on Wednesday {f3} of those still left][, and {k} more on Friday].[ There are {z} {other:s}.] How many {item:s}
      are left?
    - A book of {n} pages is read by {p}. {p:He} reads {f1} of it <at first|in a week>[, next {f2} of the rest][, next
      {f3} of the new rest][ and then {k} pages].[ It has {z} pictures.] How many pages remain?
    - How many of {n} {item:s} are left when {f1} are sold[, {f2} of the others are given away][, {f3} of the
      remaining ones are lost][ and {k} are kept by {p}]?[ {q} sells {z} {other:s}.]
    - {p} earns ${n}. {f1} of it goes to rent[, {f2} of the rest to food][, {f3} of what then remains to clothes][ and
      ${k} to a doctor].[ {p:He} works {z} hours.] How many dollars does {p:he} keep?
    - Take {f1} away from {n}[, then {f2} of the result][, then {f3} of that result][, then {k}].[ Do not use {z}.]
      What is left?
    """,
    held="""
    - Out of {n} <litres|cups> of water, {f1} <runs out|is drunk>[{?f2} first][; {f2} of the remainder follows][; {f3}
      of the next remainder follows][; finally {k} are poured away].[ The pot cost ${z}.] What amount is still there?
    - A walk is {n} km long. {p} does {f1} of it in the morning[, {f2} of the remaining way at noon][, {f3} of the way
      after that in the evening][, and {k} km at night].[ {q} walks for {z} hours.] How many km are still to go?
    """,
)
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
