"""Choosing, arranging and pairing: `FAMILIES`. Templates and drafts: see `rstar.tiny.templates`."""

from __future__ import annotations

from itertools import combinations, pairwise
from math import prod
from random import Random

from rstar.tiny.family import Family, RejectedError
from rstar.tiny.templates import Draft, family
from rstar.tiny.words import PUPILS, SMALL, TOWNS, people, things


def _pascal(n: int, k: int) -> int:
    """Number of subsets of size k of n items, by Pascal's triangle."""
    row = [1]
    for _ in range(n):
        row = [1, *(a + b for a, b in pairwise(row)), 1]
    return row[k] if k <= n else 0


@family(
    "counting",
    trained="""
    - In how many ways can {p} choose {k} of {n} {i1:s}[ and {j} of {m} {i2:s}][ and {g} of {f} {i3:s}][, if {c}
      certain {i1:s} must be taken][, if {o} of the {i1:s} are not allowed]?[ {i1:A} costs ${z}.]
    - A <club|class> has {n} {who:s}[ and {m} guests][ and {f} helpers]. How many groups of {k} {who:s}[ and {j}
      guests][ and {g} helpers] are there[ that contain the {c} oldest {who:s}][ when {o} of the {who:s} are ill]?[
      The room has {z} seats.]
    - How many different sets of {k} {i1:s}[ and {j} {i2:s}][ and {g} {i3:s}] can be made out of {n} {i1:s}[ and {m}
      {i2:s}][ and {f} {i3:s}][ with the {c} largest {i1:s} in every set][ without the {o} smallest {i1:s}]?[ A bag
      holds {z} of them.]
    - From {n} {i1:s}[ and {m} {i2:s}][ and {f} {i3:s}] {p} takes {k} {i1:s}[ and {j} {i2:s}][ and {g} {i3:s}].[ {c}
      of the {i1:s} must be among those taken.][ {o} of the {i1:s} are broken and not taken.][ {p:He} has {z}
      minutes.] How many choices are there?
    - A test has {n} questions, of which {p} answers any {k}[; a second part has {m}, of which {p:he} answers any
      {j}][; a third part has {f}, of which {p:he} answers any {g}].[ {c} questions of the first part must be
      answered.][ {o} questions of the first part may not be answered.][ It lasts {z} minutes.] In how many ways can
      {p:he} choose?
    - {p} picks {k} out of {n} books[ and {j} out of {m} films][ and {g} out of {f} games].[ {c} books have to be
      picked.][ {o} of the books are lent out.][ {p:He} is {z} years old.] Count the possible choices.
    """,
    held="""
    - {p} has a club. How many teams result when {k} of {n} women[ and {j} of {m} men][ and {g} of {f} children]
      play[, {c} of the women in every team] [, {o} of the women in no team]?[ They play for {z} minutes.]
    - The pizza of {p} gets {k} toppings; {n} toppings are there.[ A drink gets {j} of {m} fruits.][ A cake gets {g}
      of {f} colours.][ {c} toppings are on each pizza.][ {o} toppings have run out.][ It costs ${z}.] How many
      different orders exist?
    """,
)
def choose(r: Random, level: int) -> Draft:
    """Choosing without order from one to three groups, with some that must or must not be taken."""
    n, k = r.randint(6, 30), r.randint(2, 5)
    m, j = (r.randint(4, 9), r.randint(2, 3)) if level in (2, 4, 5) else (None, None)
    f, g = (r.randint(4, 8), r.randint(2, 3)) if level == 5 else (None, None)
    if n <= k + 2:
        raise RejectedError
    form = r.choice(("must", "no")) if level >= 3 and k > 2 else "no" if level >= 3 else ""
    must = r.randint(2, k - 1) if form == "must" else 0
    no = r.randint(2, (n - k) // 2 + 1) if form == "no" else 0
    load = "from math import comb\n"
    steps = []
    if must:
        steps = [(f"{must} are taken, {k} - {must} to choose", f"n = {n} - {must}\nk = {k} - {must}")]
        steps.append(("choose k of n", f"{load}x = comb(n, k)"))
    elif no:
        steps = [(f"{n} without {no}", f"n = {n} - {no}"), (f"choose {k} of n", f"{load}x = comb(n, {k})")]
    else:
        steps = [(f"choose {k} of {n}", f"{load}x = comb({n}, {k})")]
    steps += [(f"choose {j} of {m}", f"y = comb({m}, {j})")] if m else []
    steps += [(f"choose {g} of {f}", f"z = comb({f}, {g})")] if f else []
    steps += [("all together", f"x = x * y{' * z' if f else ''}")] if m else []
    answer = _pascal(n - must - no, k - must) * _pascal(m or 0, j or 0) * _pascal(f or 0, g or 0)
    i1, i2, i3 = things(r, 3, SMALL)
    return Draft(
        fields={
            "p": people(r, 1)[0], "who": r.choice(PUPILS), "i1": i1, "i2": i2, "i3": i3, "n": n, "k": k, "m": m, "j": j,
            "f": f, "g": g, "c": must or None, "o": no or None, "z": r.randint(20, 90) if level >= 4 else None,
        },
        steps=steps,
        answer=answer,
        numbers=(n, k, m, j, f, g, must, no),
    )  # fmt: skip


@family(
    "counting",
    trained="""
    - In how many orders can {p} put {n} different {item:s} in a row[, if {c} certain ones must stand side by side][,
      if they fill only {k} places][ and then {m} different {other:s} in a second row]?[ A row is {z} cm long.]
    - In {town}, {n} {who:s} [stand in a line. {?all}How many|want to sit on {k} chairs in a line. How many] orders
      are possible[ when {c} friends stay next to each other][, counting also the orders of {m} guests behind them]?[
      It takes {z} minutes.]
    - How many ways are there to [{?all}arrange {n} different {item:s} in a line|fill {k} places in a line from {n}
      different {item:s}][ with {c} certain ones always together][ and {m} different {other:s} in another line]?[ {p}
      has {z} minutes.]
    - {p} hangs [{?all}all of {n} different|{k} of {n} different] {item:s} on a rope, one after another.[ {c} certain
      ones have to be neighbours.][ On a second rope {p:he} hangs {m} different {other:s}.][ The rope is {z} m long.]
      Count the ways.
    - {p} has {n} different {item:s}. [{?all}All of them|{k} of them] are put on a shelf, in some order.[ {c} of them
      belong together and stay side by side.][ {m} old books are put on another shelf in some order.][ A book costs
      ${z}.] How many ways are there?
    - In {town}, {n} runners are in a race.[ It is {z} km long.] How many results are possible for [{?all}all
      places|the first {k} places][ when {c} friends come in directly one after another][, together with the results
      of a race of {m} others]?
    """,
    held="""
    - {p} makes a list of [{?all}all {n}|{k} of {n}] towns to visit, and the order matters.[ {c} certain towns must
      follow each other directly.][ {q} makes a list of all {m} lakes.][ A trip takes {z} days.] What is the number of
      possible [{?m}pairs of ]lists?
    - {p} knows {n} songs. {p:His} program [{?all}plays each one once|plays {k} different ones][, {c} certain ones
      without another song in between][, and later all of {m} dances].[ It lasts {z} minutes.] How many programs can
      be made?
    """,
)
def arrange(r: Random, level: int) -> Draft:
    """Arranging in order, all or some, with some that stay together."""
    some = level in (1, 4)
    n, k = (r.randint(5, 40), r.randint(2, 4)) if some else (r.randint(4, 9), None)
    c = r.randint(2, n - 1) if level in (3, 5) else None
    m = r.randint(3, 8) if level in (2, 4, 5) else None
    steps = [(f"{k} of {n} in order", f"from math import perm\nx = perm({n}, {k})")]
    if c:
        steps = [
            (f"{c} together are one thing", f"k = {n} - {c} + 1"),
            (f"orders of k, and of the {c}", f"from math import factorial\nx = factorial(k) * factorial({c})"),
        ]
    elif not k:
        steps = [(f"orders of {n}", f"from math import factorial\nx = factorial({n})")]
    load = "from math import factorial\n" if k else ""
    steps += [(f"orders of {m}", f"{load}y = factorial({m})"), ("both", "x = x * y")] if m else []
    whole = prod(range(1, n - (c or 1) + 2)) * prod(range(1, (c or 1) + 1))
    answer = (prod(n - i for i in range(k)) if k else whole) * prod(range(1, (m or 1) + 1))
    if answer > 10**8:
        raise RejectedError
    (p, q), (item, other) = people(r, 2), things(r, 2, SMALL)
    return Draft(
        fields={
            "p": p, "q": q, "item": item, "other": other, "who": r.choice(PUPILS),
            "town": r.choice(TOWNS), "n": n, "k": k, "c": c, "m": m,
            "all": None if k else True, "z": r.randint(20, 90) if level >= 4 else None,
        },
        steps=steps,
        answer=answer,
        numbers=(n, k, c, m),
    )  # fmt: skip


@family(
    "counting",
    trained="""
    - [{g} groups of {n} people|{c} couples and {n} single people|{?total}Some people|{n} people] are at a
      <party|meeting>. Everybody shakes hands [{k} times ]with everybody else[{?g} who is not of the same group|{?c}
      but the own partner|].[ There are {total} handshakes.] [{z} of them wear hats.] How many
      [{?total}people|handshakes] are there?
    - In a <chess|tennis|card> club in {town} there are [{g} teams of {n}|{c} couples and {n} single
      players|{?total}some players|{n} players]. Each plays [{k} times ]against each other player[{?g} of the other
      teams|{?c} except the own partner|].[ That makes {total} games.] [A game takes {z} minutes.] How many
      [{?total}players|games] are there?
    - In {town}, between [the houses of {g} streets with {n} houses each|{c} pairs of neighbours and {n} other
      houses|{?total}some houses|{n} houses] there are paths: [{k}|one] between every two houses[{?g} of different
      streets|{?c} that are not such neighbours|].[ One counts {total} paths.] [{z} trees stand there.] How many
      [{?total}houses|paths] are there?
    - {p} sees [{g} boxes with {n} points each|{c} pairs of twins and {n} others|{?total}a number of points|{n}
      points] on paper and draws [{k} lines|a line] between every two[{?g} from different boxes|{?c} that are not
      twins|].[ {p:He} draws {total} lines.][ The paper is {z} cm wide.] How many [{?total}points|lines] are there?
    - A league of {town} has [{g} towns with {n} teams each|{c} old and {n} new clubs, each old one with a second
      team|{?total}some teams|{n} teams]. Every team meets every other one[{?g} from another town|{?c}, but not the
      second team of the same club|][{?k}, {k} times|, once].[ This gives {total} matches.][ A ticket is ${z}.] How
      many [{?total}teams|matches] are there?
    - How many [{?total}phones are there|calls are made] if [from {g} offices with {n} phones each|{c} pairs of
      friends and {n} others all have a phone and|{?total}some people have a phone each and|{n} people have a phone
      each and] [{k} calls are|one call is] made between every two[{?g} of different offices|{?c} who are not a
      pair|][, {total} calls in all]?[ A call takes {z} seconds.]
    """,
    held="""
    - On a trip to {town} with [{g} families of {n}|{c} pairs of brothers and {n} more children|{?total}children|{n}
      children] a photo is taken [{k} times ]of each two[{?g} from different families|{?c} that are not brothers|][,
      giving {total} photos].[ {z} are in colour.] Work out the number of [{?total}children|photos].
    - {p} has a hall. If [{g} rows of {n} lamps|{c} double lamps and {n} single lamps|{?total}lamps|{n} lamps] are all
      joined by [{k} wires|a wire], two and two[{?g}, but never in the same row|{?c}, only not inside of a double
      lamp|][, with {total} wires], count the [{?total}lamps|wires].[ A wire costs ${z}.]
    """,
)
def pairs(r: Random, level: int) -> Draft:
    """Handshakes and games: everyone with everyone, and how many were there."""
    n = r.randint(4, 60) if level > 1 else r.randint(4, 300)
    k = r.randint(2, 12) if level == 2 else None
    g = r.randint(2, 8) if level == 3 else None
    c = r.randint(3, 12) if level == 5 else None
    count = n * (n - 1) // 2
    match level:
        case 3:
            answer = sum(n * n for _ in combinations(range(g or 0), 2))
            steps = [
                ("each with the other groups", f"k = {n} * ({g} - 1)"),
                (f"{g} times {n} people", f"n = {g} * {n}"),
                ("each pair once", "x = n * k // 2"),
            ]
        case 4:
            n = r.randint(4, 300)
            count = sum(range(n))
            answer = n
            steps = [("try from 2", "n = 2"), (f"until {count}", f"while n * (n - 1) // 2 < {count}:\n    n = n + 1")]
            steps.append(("check", f"assert n * (n - 1) // 2 == {count}"))
        case 5:
            everyone = 2 * (c or 0) + n
            answer = sum(range(everyone)) - (c or 0)
            steps = [
                (f"{c} pairs and {n}", f"n = 2 * {c} + {n}"),
                ("all with all", "x = n * (n - 1) // 2"),
                (f"without {c} pairs", f"x = x - {c}"),
            ]
        case _:
            answer = sum(range(n)) * (k or 1)
            steps = [("each pair once", f"x = {n} * ({n} - 1) // 2")]
            steps += [(f"{k} times", f"x = x * {k}")] if k else []
    return Draft(
        fields={
            "p": people(r, 1)[0], "town": r.choice(TOWNS), "n": None if level == 4 else n, "k": k, "g": g, "c": c,
            "total": count if level == 4 else None, "z": r.randint(20, 90) if level >= 4 else None,
        },
        steps=steps,
        show="n" if level == 4 else "x",
        answer=answer,
        numbers=(n, k, g, c, level == 4),
    )  # fmt: skip


FAMILIES: tuple[Family, ...] = (choose, arrange, pairs)
