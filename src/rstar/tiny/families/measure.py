"""Word problems about speed, rates of work, recipes, time, units, areas and averages: `FAMILIES`.

Templates and drafts: see `rstar.tiny.templates`.
"""

from __future__ import annotations

from fractions import Fraction
from random import Random

from rstar.tiny.family import Family, RejectedError
from rstar.tiny.templates import Draft, family
from rstar.tiny.words import BAKED, CREW, GOODS, TOWNS, people, things


@family(
    "word",
    trained="""
    - {p} <drives|rides|travels> at {v} km per hour for {t} hours[ and then at {u} km per hour for {s} hours]. [The
      whole trip is {d} km long.] [{p:He} is {z} years old.] [After a rest of {b} hours, {p:he} drives the rest at {w}
      km per hour. How many hours does the whole trip take|The rest is done at {w} km per hour. How many hours does
      the rest take|{?d}How many km are left|How many km does {p:he} travel]?
    - [{town} and {town2} are {d} km apart.] A <train|bus|truck> goes {v} km per hour. It runs for {t} hours[, then
      for {s} hours at {u} km per hour].[ It has {z} seats.] [It stops for {b} hours and goes on at {w} km per hour.
      How many hours does it take from {town} to {town2} with the stop|It goes on at {w} km per hour. How many more
      hours does it need to {town2}|{?d}How many km is it still to {town2}|How many km does it go]?
    - [A road is {d} km long.] For {t} hours {p} cycles at a speed of {v} km per hour[; for the next {s} hours {p:his}
      speed is {u} km per hour].[ {p:His} bike cost ${z}.] [{p:He} eats for {b} hours. At {w} km per hour, {p:he} then
      finishes the road. Find the hours from start to end|At {w} km per hour, how many hours does the remaining road
      take|{?d}What distance remains, in km|What distance is that, in km][{?b}.|?]
    - A ship sails [from {town} to {town2}, {d} km away]. It makes {v} km an hour for {t} hours[ and {u} km an hour
      for {s} hours more]. [{z} people are on it.] [Then it waits for {b} hours, and after that makes {w} km an hour.
      How many hours pass before it arrives|Then it makes {w} km an hour. After how many further hours does it
      arrive|{?d}How many km remain|How many km has it made]?
    - How many [{?b}hours does a trip of {d} km take|{?w}more hours does a trip of {d} km take|{?d}km of a {d} km trip
      are left|km does {p} cover] [{?d}if {p} drives|driving] {t} hours at {v} km per hour[, then {s} hours at {u} km
      per hour] [, stops for {b} hours][ and covers the rest at {w} km per hour]?[ The car is {z} years old.]
    - {p} flies a small plane[ on a route of {d} km]. The speed is {v} km per hour in the first {t} hours[ and {u} km
      per hour in the other {s} hours].[ {q} waits with {z} others.] [{p:He} lands for {b} hours and does the
      remaining part at {w} km per hour. How many hours is that altogether|{p:He} flies the remaining part at {w} km
      per hour. How many hours is the remaining part|{?d}How long is the part that remains, in km|How many km is the
      flight]?
    """,
    held="""
    - [{d} km lie between two towns.] For {t} hours a car moves at {v} km per hour[, and for {s} hours at {u} km per
      hour]. [A pause of {b} hours follows. The last part is driven at {w} km per hour. What is the total time in
      hours|The last part is driven at {w} km per hour. What time in hours does the last part need|{?d}What is the
      length of the last part in km|What is the length of the way in km]?[ The driver has worked for {z} weeks.]
    - [{p} hopes to do {d} km.|{p} is on the road.] {p:His} motorbike does {v} km each hour. {p:He} keeps this up for
      {t} hours[ before {s} hours at {u} km each hour].[ {q} phones {z} times.] [With a break of {b} hours and {w} km
      each hour from then on, how many hours after the start is {p:he} done|With {w} km each hour from then on, in how
      many hours is {p:he} done|{?d}How many km must {p:he} still do|How many km are done]?
    """,
)
def travel(r: Random, level: int) -> Draft:
    """Distance, rate and time over several legs."""
    v, t = r.randint(8, 80 + 20 * level), r.randint(2, 9)
    u, s = (r.randint(8, 40 + 20 * level), r.randint(2, 9)) if level == 2 else (None, None)
    w, rest = r.randint(8, 90), r.randint(2, 9)
    left = r.randint(10, 200) if level == 3 else w * rest
    d = v * t + left if level >= 3 else None
    b = r.randint(2, 5) if level == 5 else None
    steps = [(f"{t} hours at {v}", f"x = {v} * {t}")]
    if u and s:
        steps += [(f"{s} hours at {u}", f"y = {u} * {s}"), ("all together", "x = x + y")]
    if d:
        steps.append((f"left of {d}", f"x = {d} - x"))
    if level >= 4:
        steps.append((f"hours at {w}", f"assert x % {w} == 0\nx = x // {w}"))
    if b:
        steps.append((f"{t} hours, {b} hours and x hours", f"x = {t} + {b} + x"))
    hours = next((h for h in range(1, 99) if v * t + w * h == d), 0)
    p, q = people(r, 2)
    town, town2 = r.sample(TOWNS, 2)
    return Draft(
        fields={
            "p": p, "q": q, "town": town, "town2": town2, "v": v, "t": t, "u": u, "s": s, "d": d, "b": b,
            "w": w if level >= 4 else None, "z": r.randint(10, 70) if level >= 4 else None,
        },
        steps=steps,
        answer=(v * t + (u or 0) * (s or 0), v * t + (u or 0) * (s or 0), left, hours, t + (b or 0) + hours)[level - 1],
        numbers=(v, t, u, s, d, w if level >= 4 else None, b),
    )  # fmt: skip


@family(
    "word",
    trained="""
    - {k} machines make {n} {item:s} in {h} hours.[ The factory is {z} years old.] [How many {item:s} do {m} machines
      make in {g} hours|How many hours do {m} machines need for {y} {item:s}|How many machines make {y} {item:s} in
      {g} hours|How many {item:s} does one machine make in one hour]?
    - In {h} hours, {k} <workers|robots> at a factory produce {n} {item:s}. All work at the same speed.[ {z} {other:s}
      are made as well.] [In {g} hours, how many {item:s} will {m} of them produce|How many hours will it take {m} of
      them to produce {y} {item:s}|How many of them can produce {y} {item:s} in {g} hours|How many {item:s} does each
      produce in one hour]?
    - {k} bakers can <bake|make> {n} {cake:s} in {h} hours.[ Each baker gets ${z} an hour.] At this rate, [what number
      of {cake:s} can {m} bakers make in {g} hours|what number of hours do {m} bakers take for {y} {cake:s}|what
      number of bakers is needed to make {y} {cake:s} in {g} hours|what number of {cake:s} does a baker make in one
      hour]?
    - A shop has {k} printers that print {n} pages in {h} hours.[ It sells {z} {other:s} a day.] [Find the number of
      pages that {m} printers print in {g} hours|Find the number of hours in which {m} printers print {y} pages|Find
      the number of printers that print {y} pages in {g} hours|Find the number of pages that a printer prints in one
      hour].
    - How many [{item:s} do {m} machines make in {g} hours|hours do {m} machines run to make {y} {item:s}|machines
      make {y} {item:s} in {g} hours|{item:s} does one machine make per hour] if {n} {item:s} are made in {h} hours by
      {k} machines? [A machine costs ${z}.]
    - {p} has {k} pumps that move {n} litres in {h} hours.[ A pump weighs {z} kg.] [How many litres can {m} pumps move
      in {g} hours|How many hours must {m} pumps run to move {y} litres|How many pumps move {y} litres in {g}
      hours|How many litres does one pump move in one hour]?
    """,
    held="""
    - {n} {item:s} are what {k} lines of a factory turn out in {h} hours.[ There are {z} people in the office.] [With
      {m} lines and {g} hours, what is the output|With {m} lines, after what number of hours are there {y}
      {item:s}|With {g} hours, what number of lines gives {y} {item:s}|What does one line turn out per hour]?
    - It takes {k} children {h} hours to fold {n} paper birds.[ {z} of them are red.] [In {g} hours {m} equally fast
      children fold how many|To fold {y} birds, {m} equally fast children take how many hours|To fold {y} birds in {g}
      hours, how many equally fast children are needed|In one hour, a child folds how many]?
    """,
)
def machines(r: Random, level: int) -> Draft:
    """Output in proportion to workers and time."""
    each = r.randint(2, 20)
    k, h = r.randint(2, 9), r.randint(2, 9)
    m, g = r.randint(2, 6 + 2 * level), r.randint(2, 6 + 2 * level)
    ask = ("rate", "items", r.choice(("items", "hours")), r.choice(("hours", "count")), r.choice(("hours", "count")))
    n, y, asked = each * k * h, each * m * g, ask[level - 1]
    if (m, g) == (k, h):
        raise RejectedError
    steps = [(f"{n} by {k} in one hour", f"a = {n} // {h}"), (f"one of {k} in one hour", f"a = a // {k}")]
    if level >= 2:
        steps.append((f"check {n}", f"assert a * {k} * {h} == {n}"))
    if asked == "items":
        steps += [(f"{m} in one hour", f"b = a * {m}"), (f"{m} in {g} hours", f"x = b * {g}")]
    elif asked == "hours":
        steps += [
            (f"{m} in one hour", f"b = a * {m}"),
            (f"hours for {y}", f"x = {y} // b"),
            ("check", f"assert x * b == {y}"),
        ]
    elif asked == "count":
        steps += [
            (f"one in {g} hours", f"b = a * {g}"),
            (f"how many for {y}", f"x = {y} // b"),
            ("check", f"assert x * b == {y}"),
        ]
    rate = Fraction(n, k * h)
    answer = {"rate": rate, "items": rate * m * g, "hours": y / (rate * m), "count": y / (rate * g)}[asked]
    item, other = things(r, 2, GOODS)
    return Draft(
        fields={
            "p": people(r, 1)[0], "cake": r.choice(BAKED), "item": item, "other": other, "k": k, "n": n, "h": h,
            "m": m if asked in ("items", "hours") else None, "g": g if asked in ("items", "count") else None,
            "y": y if asked in ("hours", "count") else None, "z": r.randint(10, 90) if level >= 4 else None,
        },
        steps=steps,
        show="a" if asked == "rate" else "x",
        answer=answer,
        numbers=(k, h, n, asked, *((m, g) if asked != "rate" else ())),
    )  # fmt: skip


@family(
    "word",
    trained="""
    - A job takes {k} {who:s} {n} days.[ Each gets ${z} a day.] [After {e} days, {f} more {who:s} join them. How many
      more days does the job take|After {e} days, {g} of the {who:s} leave. How many more days does the job take|How
      many days does it take {m} {who:s}|How many {who:s} do it in {m2} days|How many days does one {who} take]?
    - {k} {who:s} need {n} days for a <wall|roof|garden>.[ The town is {z} km away.] [They work for {e} days; then {f}
      more come. In how many further days do they finish|They work for {e} days; then {g} leave. In how many further
      days do the others finish|In how many days would {m} {who:s} finish|How many {who:s} would finish in {m2}
      days|In how many days would one {who} finish it alone]?
    - [{z} {who:s} answer an advert.] If {k} {who:s} can finish a <house|job|fence> in {n} days, [and {f} others come
      to help after {e} days, how many days are still needed|and {g} fall ill after {e} days, how many days do the
      rest still need|how many days do {m} {who:s} need|how many {who:s} finish it in {m2} days|how many days does a
      single {who} need]?
    - A camp has food for {k} people for {n} days.[ It lies {z} km from {town}.] [{e} days later, {f} more people
      arrive. For how many more days is there food|{e} days later, {g} people go home. For how many more days is there
      food for the others|For how many days would it last {m} people|How many people could eat for {m2} days|For how
      many days would it last one person]?
    - How [{?m2}many {who:s}|many days] [{?f}more |{?g}more ][{?m2}are needed for|are needed by {m} {who:s} for|are
      needed for] a job that {k} {who:s} do in {n} days, [{?m2}to do it in {m2} days|if {f} more join after {e}
      days|if {g} of them stop after {e} days|{?m}working just as fast|{?n}if only one {who} works]?[ They use {z}
      buckets.]
    - A farmer has hay for {n} days for {k} <cows|horses|goats>.[ The barn is {z} years old.] [When {e} days are over,
      {f} more are bought. How many days will the rest of the hay last|When {e} days are over, {g} are sold. How many
      days will the rest of the hay last|How many days would the hay last {m} of them|How many of them could be fed
      for {m2} days|How many days would the hay last just one of them]?
    """,
    held="""
    - In {n} days, {k} {who:s} would <complete|do> a task.[ They carry {z} bricks.] [{e} days pass, {f} {who:s} are
      added, and the task is completed in what number of days from then|{e} days pass, {g} {who:s} drop out, and the
      task is completed in what number of days from then|{m} {who:s} would complete it in what number of days|What
      number of {who:s} would complete it in {m2} days|A {who} without help would complete it in what number of days]?
    - Water for {n} days is on a ship of {k} people, all drinking the same.[ The sea is {z} m deep.] [On the way, {e}
      days out, {f} people are rescued. What remains is enough for how many days|On the way, {e} days out, {g} people
      leave the ship. What remains is enough for how many days|The same water is enough for {m} people for how many
      days|For {m2} days, the same water is enough for how many people|The same water is enough for one person for how
      many days]?
    """,
)
def crew(r: Random, level: int) -> Draft:
    """Time in inverse proportion to workers, some of whom join or leave."""
    k, n = r.randint(2, 30), r.randint(3, 30)
    e = r.randint(2, n - 1) if level >= 4 else 0
    left = k * (n - e)
    sizes = [m for m in range(2, 40) if left % m == 0 and abs(m - k) > 1 and (m > k or level != 4)]
    if level > 1 and not sizes:
        raise RejectedError
    m = r.choice(sizes) if level > 1 else 1
    asks_people = level in (2, 3) and m != n and r.random() < 0.5
    steps = [(f"{k} for {n} days", f"a = {k} * {n}")]
    if level in (2, 3):
        steps.append((f"shared by {m}", f"x = a // {m}"))
        steps.append(("the work is the same", f"assert x * {m} == {k} * {n}"))
    if level >= 4:
        steps = [(f"days left of {n} after {e}", f"b = {n} - {e}"), (f"work left for {k}", f"a = {k} * b")]
        steps.append((f"{m - k} more", f"m = {k} + {m - k}") if m > k else (f"{k - m} fewer", f"m = {k} - {k - m}"))
        steps.append(("shared by m", "x = a // m"))
        steps.append(("no work is left", "assert x * m == a"))
    return Draft(
        fields={
            "who": r.choice(CREW), "town": r.choice(TOWNS), "k": k, "n": n, "e": e or None,
            "m": m if m > 1 and level <= 3 and not asks_people else None, "m2": m if asks_people else None,
            "f": m - k if e and m > k else None, "g": k - m if e and m < k else None,
            "z": r.randint(10, 90) if level >= 3 else None,
        },
        steps=steps,
        show="a" if level == 1 else "x",
        answer=Fraction(k * n - k * e, m),
        numbers=(k, n, e, m, asks_people),
    )  # fmt: skip


FAMILIES: tuple[Family, ...] = (travel, machines, crew)
