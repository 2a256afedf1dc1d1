"""Word problems about recipes, times of day, units, areas and averages: `FAMILIES`.

Templates and drafts: see `rstar.tiny.templates`.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from fractions import Fraction
from random import Random

from rstar.tiny.family import Family, RejectedError
from rstar.tiny.templates import Draft, family
from rstar.tiny.words import BAKED, SMALL, joined, people, things


@family(
    "word",
    trained="""
    - A recipe for {s} {cake:s} needs {a} cups of {x}[ and {b} cups of {y}].[ The oven is at {z} degrees.] {p}
      <makes|bakes> {n} {cake:s}. [{p:He} has {h} cups already. How many more cups|How many cups] [{?b}of {x} and {y}
      together|of {x}] does {p:he} need?
    - To <make|bake> {n} {cake:s}, how many [{?h}more ]cups of [{?b}{x} and {y} in total|{x}] does {p} need if {a}
      cups of {x}[ and {b} cups of {y}] are enough for {s} {cake:s}[ and {p:he} has {h} cups]?[ They take {z} minutes
      in the oven.]
    - {p} uses {a} cups of {x}[ and {b} cups of {y}] for {s} {cake:s}. Now {p:he} wants {n} {cake:s}.[ {q} eats {z} of
      them.] [{h} cups are in the kitchen.] Find the number of [{?h}missing cups|cups][{?b}, {x} and {y} taken
      together| of {x}].
    - For {s} {cake:s} you need {a} cups of {x}[ plus {b} cups of {y}].[ {p} has {h} cups in the house.][ A cup weighs
      {z} grams.] How many cups [{?b}of both|of {x}] [{?h}must {p} still buy|are needed] for {n} {cake:s}?
    - A baker <mixes|takes> {a} cups of {x}[ with {b} cups of {y}] when {s} {cake:s} are ordered. Today {n} {cake:s}
      are ordered. [The baker is {z} years old.] [{h} cups are ready. How many other cups are needed|How many cups
      does the baker <mix|take>]?
    - {n} {cake:s} are planned for a party.[ {z} guests come.] With {a} cups of {x}[ and {b} cups of {y}] one gets {s}
      {cake:s}.[ {p} already has {h} cups.] How many cups [{?b}are those in all|of {x} is that][{?h}, without the ones
      {p} has|]?
    """,
    held="""
    - The cook book says: {s} {cake:s}, {a} cups of {x}[, {b} cups of {y}]. What amount in cups[{?b}, all together,]
      must {p} [{?h}add to the {h} cups in the cupboard|have] so that it is enough for {n} {cake:s}?[ The book has {z}
      pages.]
    - {p} knows that {a} cups of {x}[ and {b} of {y}] go into {s} {cake:s}, but the guests want {n}.[ {z} plates are
      needed.] [Having {h} cups, {p:he} is short of how many cups|{p:He} should use how many cups]?
    """,
)
def recipe(r: Random, level: int) -> Draft:
    """A recipe scaled to another number of servings, as a fraction where it must be."""
    s, n = r.randint(2, 12), r.randint(3, 30 + 6 * level)
    a = r.randint(2, 15)
    b = r.randint(2, 9) if level in (3, 5) else None
    need = Fraction((a + (b or 0)) * n, s)
    h = r.randint(1, max(1, int(need) - 1)) if level >= 4 else None
    if n == s or (level == 1 and n % s) or (h or 0) >= need or (level > 1 and need.denominator > 6) or h == 1:
        raise RejectedError
    if level == 1:
        steps = [(f"{n} is how many times {s}", f"k = {n} // {s}"), (f"{a} cups each time", f"x = {a} * k")]
    else:
        load = "from fractions import Fraction\n"
        steps = [(f"{a} and {b} cups", f"a = {a} + {b}")] if b else []
        steps.append((f"cups for one of {s}", f"{load}k = Fraction({'a' if b else a}, {s})"))
        steps.append((f"cups for {n}", f"x = k * {n}"))
        steps += [(f"{h} are there", f"x = x - {h}")] if h else []
    p, q = people(r, 2)
    x, y = r.sample(("flour", "sugar", "milk", "oats", "butter", "cocoa", "honey", "water"), 2)
    return Draft(
        fields={
            "p": p, "q": q, "cake": r.choice(BAKED), "x": x, "y": y, "s": s, "n": n, "a": a, "b": b, "h": h,
            "z": r.randint(13, 90) if level >= 4 else None,
        },
        steps=steps,
        answer=need - (h or 0),
        numbers=(s, n, a, b, h),
    )  # fmt: skip


@family(
    "word",
    trained="""
    - A <film|class|match> starts at {t1} and ends at {t2}.[ There is a break of {c} minutes.][ It is shown {d} days a
      week.][ {z} people watch.] How many minutes [{?k}do {k} weeks of it last|{?d}is that in a week|does it
      last][{?c} without the break]?
    - {p} works from {t1} to {t2}[ on {d} days a week][ with a break of {c} minutes].[ {q} gets up at {z}.] How many
      minutes does {p} work [in {k} weeks|{?d}in a week|{?c}without the break|in all]?
    - How many minutes does {p} <practise|study> [in {k} weeks |{?d}each week ]if {p:he} starts at {t1}[ on {d} days a
      week] and stops at {t2}[, and rests for {c} minutes in between]?[ {p:He} is {z} years old.]
    - The <shop|museum|pool> opens at {t1} and closes at {t2}[, {d} days a week].[ It is closed for {c} minutes in
      between.] [It has {z} rooms.] For how many minutes is it open [in {k} weeks|{?d}in one week|in a day]?
    - {p} leaves home at {t1} and is back at {t2}[; {c} minutes of this are spent in a cafe].[ {p:He} does so on {d}
      days every week.] [{p:He} has {z} dollars.] Find the minutes [{?c}not spent in the cafe|away][ in {k} weeks|{?d}
      per week|].
    - A machine is turned on at {t1} and off at {t2}[ on each of {d} days in a week].[ It costs ${z}.][ Each time it
      pauses for {c} minutes.] How many minutes does it run [{?k}during {k} weeks|{?d}in that week|]?
    """,
    held="""
    - It is {t1} when {p} begins to paint and {t2} when {p:he} <finishes|stops>.[ In between, {p:he} sleeps {c}
      minutes.][ The same happens on {d} days of the week.][ {z} walls are white.] What is the painting time in
      minutes[ for {k} weeks|{?d} for a week|]?
    - Between {t1} and {t2} [of {d} days a week ]a guard stands at the gate[, apart from {c} minutes].[ Gate {z} is
      the oldest.] What number of minutes is this[ over {k} weeks|{?d} over a week|]?
    """,
)
def clock(r: Random, level: int) -> Draft:
    """Minutes between two times of day, less breaks, over days and weeks."""
    h1, m1 = r.randint(6, 12), r.randint(10, 59)
    h2, m2 = r.randint(h1 + 1, min(h1 + 9, 19)), r.randint(10, 59)
    c = r.randint(5, 45) if level >= 2 else None
    d = r.randint(2, 6) if level >= 3 else None
    k = r.randint(2, 9) if level >= 4 else None
    day = (datetime(1, 1, 1, h2, m2) - datetime(1, 1, 1, h1, m1)) // timedelta(minutes=1) - (c or 0)
    if day < 15:
        raise RejectedError
    steps = [
        (f"minutes at {h1}:{m1}", f"a = {h1} * 60 + {m1}"),
        (f"minutes at {h2}:{m2}", f"b = {h2} * 60 + {m2}"),
        ("time between", "x = b - a"),
    ]
    if level >= 3:
        steps = [(f"from {h1}:{m1} to {h2}:{m2}", f"a = {h1} * 60 + {m1}\nx = {h2} * 60 + {m2} - a")]
    steps += [(f"{c} minutes less", f"x = x - {c}")] if c else []
    steps += [(f"{d} days", f"x = x * {d}")] if d else []
    steps += [(f"{k} weeks", f"x = x * {k}")] if k else []
    p, q = people(r, 2)
    return Draft(
        fields={
            "p": p, "q": q, "t1": f"{h1}:{m1}", "t2": f"{h2}:{m2}", "c": c, "d": d, "k": k,
            "z": r.randint(5, 12) if level == 5 else None,
        },
        steps=steps,
        answer=day * (d or 1) * (k or 1),
        numbers=(h1, m1, h2, m2, c, d, k),
    )  # fmt: skip


_UNITS = (
    ("km", "m", 1000, "rope"), ("m", "cm", 100, "ribbon"), ("feet", "inches", 12, "wood"),
    ("yards", "feet", 3, "cloth"), ("cm", "mm", 10, "wire"), ("kg", "grams", 1000, "rice"),
    ("litres", "ml", 1000, "juice"), ("hours", "minutes", 60, "music"),
    ("minutes", "seconds", 60, "film"), ("days", "hours", 24, "work"), ("weeks", "days", 7, "holiday"),
)  # fmt: skip


@family(
    "word",
    trained="""
    - {p} has {a} {big}[ and {b} {small}] of {stuff}.[ {p:He} uses {u} {small}.][ {p:He} also has {z} {item:s}.] [The
      rest is split into parts of {k} {small}. How many whole parts are there|{?u}How many {small} are left|How many
      {small} is that]?
    - How many [parts of {k} {small} can be made from|{?u}{small} are left of|{small} are in] {a} {big}[ and {b}
      {small}] of {stuff}[ after {u} {small} are used]?[ There are {z} {item:s} too.]
    - There are {a} {big}[ {b} {small}] of {stuff}.[ {q} counts {z} {item:s}.][ First {u} {small} are taken away.]
      Write [{?u}what is left|it] in {small}[, and find how many pieces of {k} {small} it gives].
    - A <school|club> gets {a} {big}[ and {b} {small}] of {stuff}[, of which {u} {small} are lost].[ It has {z}
      pupils.] [{p} wants pieces of {k} {small}. How many full pieces will there be|{?u}What remains, in {small}|What
      is this in {small}]?
    - [Each part has {k} {small}.] {p} starts with {a} {big}[ plus {b} {small}] of {stuff}[ and spends {u} {small} of
      it].[ {q} has {z} {item:s}.] [{?k}How many such parts fit into the rest|{?u}How much is not spent, in
      {small}|How much is it in {small}]?
    - Change {a} {big}[ and {b} {small}] of {stuff} to {small}.[ Subtract {u} {small}.][ Leave aside the {z}
      {item:s}.] [How many times do {k} {small} fit into the result?|{?u}What is the result?]
    """,
    held="""
    - The {stuff} comes to {a} {big}[ and another {b} {small}].[ {p} removes {u} {small}.][ A price of {z} cents was
      paid.] [How many complete portions of {k} {small} does the remainder hold?|{?u}State the remainder in
      {small}.|State this in {small}.]
    - In {small}, how much {stuff} does {p} have [{?u}left] when {p:he} got {a} {big}[ and {b} {small}][ but gave {q}
      {u} {small}]?[ {p:He} is number {z}.][ Into how many full shares of {k} {small} can it be cut?]
    """,
)
def units(r: Random, level: int) -> Draft:
    """Mixed units, what is left and how many parts of it."""
    big, small, factor, stuff = r.choice(_UNITS)
    a = r.randint(2, 12 + 4 * level) if factor > 60 else r.randint(2, 30 + 10 * level)
    b = r.randint(2, factor - 1) if level >= 2 else None
    size = sum(factor for _ in range(a)) + (b or 0)
    u = r.randint(2, size // 2) if level >= 3 else None
    left = size - (u or 0)
    k = r.randint(2, max(2, left // 3)) if level >= 4 else None
    steps = [(f"{factor} {small} each", f"x = {a} * {factor}")]
    steps += [(f"{b} more", f"x = x + {b}")] if b else []
    steps += [(f"{u} less", f"x = x - {u}")] if u else []
    steps += [(f"whole parts of {k}", f"x = x // {k}")] if k else []
    if k == left or (k and level == 4 and left % k):
        raise RejectedError
    p, q = people(r, 2)
    return Draft(
        fields={
            "p": p, "q": q, "item": things(r, 1, SMALL)[0], "a": a, "b": b, "u": u, "k": k, "big": big, "small": small,
            "stuff": stuff, "z": r.randint(3, 90) if level == 5 else None,
        },
        steps=steps,
        answer=len(range(0, left - k + 1, k)) if k else left,
        numbers=(a, big, b, u, k),
    )  # fmt: skip


@family(
    "word",
    trained="""
    - A <garden|field|yard> is {l} m long and {w} m wide.[ A pond of {a} m by {b} m lies in it.][ It has {z} trees.]
      [Grass [{?a}for all but the pond] costs ${c} per square m.][ A fence around the outside costs ${f} per m.]
      [{?round}How many m is it around?|{?size}How many square m [{?a}are not pond|is it]?|How many dollars is that?]
    - {p} buys a <rectangular field|rectangular farm> with sides of {l} m and {w} m.[ {p:He} pays ${f} for each m of a
      wall around it.][ A house takes {a} m by {b} m of it.][ {q} brings {z} hens.][ On each square m [{?a}without
      house] {p:he} spends ${c}.] [{?round}How long is a wall around it, in m?|{?size}Find the area [{?a}without
      house] in square m.|What does {p:he} spend?]
    - The length of a <room|park|hall> is {l} m, the width {w} m.[ A corner of {a} m by {b} m is closed.][ It was
      built {z} years ago.] [{?c}Paint for the [{?a}open] area is ${c} per square m.][ Lights along the four sides are
      ${f} per m.] [{?round}Find the perimeter.|{?size}Find the [{?a}open] area.|Find the price in dollars.]
    - How many [{?round}m is it around|{?size}square m are there in|dollars are to be paid for] a <rectangle|field> of
      {l} m by {w} m [when {a} m by {b} m inside do not count][, at ${c} per square m][{?both} and|{?f},][ ${f} per m
      of its outer border]? [{p} asks {z} people.]
    - A <lawn|yard> measures {w} m by {l} m[ and has a hole of {a} m by {b} m].[ {p} waters it for {z} minutes.][
      {p:He} pays ${c} per square m of grass, which is [{?a}everywhere but in the hole|everywhere].][ Stones along the
      four outer sides cost ${f} per m.] [{?round}How many m are the four sides together?|{?size}How many square m of
      grass are there?|How much must {p:he} pay?]
    - {p} draws a <poster|flag|map> that is {l} m high and {w} m wide.[ It is {z} days old.][ A window of {a} m by {b}
      m is cut out.][ <Colour|Paper> costs ${c} a square m[{?a}, and none is needed for the window].][ A frame around
      the outside costs ${f} a m.] [{?round}What is the length of a frame around it in m?|{?size}How large is it
      [{?a}now] in square m?|How many dollars does {p:he} need?]
    """,
    held="""
    - Four straight sides, two of {l} m and two of {w} m, with right angles enclose a <court|meadow>.[ A shed on it
      has a floor of {a} m by {b} m.][ Every m along the sides is fenced for ${f}.][ Every square m [{?a}outside the
      shed] is sown for ${c}.][ {z} birds live there.] [{?round}How far is one lap along the sides, in m?|{?size}How
      many square m [{?a}lie outside the shed|does it have]?|What is the bill in dollars?]
    - {p} <walks|looks> [{?round}once around|over] a rectangular <place|market>, {w} m times {l} m.[ Stalls fill {a} m
      times {b} m of it.][ {z} people talk.] [{?round}How many m is that?|{?size}What [{?a}free] area is that in
      square m?|][Cleaning the [{?a}free] area costs ${c} a square m.][ A rope along its edge costs ${f} a m.][{?c}
      How many dollars is this?|{?f} How many dollars is this?]
    """,
)
def area(r: Random, level: int) -> Draft:
    """Area or perimeter of a rectangle, with a part left out, and what these cost."""
    asked = r.choice((("size", "round"), ("cost", "fence"), ("size", "fence"), ("cost",), ("both",))[level - 1])
    n, w = r.randint(5, 20 + 10 * level), r.randint(4, 20 + 5 * level)
    hole = level >= 4 or (level == 3 and asked == "size")
    a, b = (r.randint(2, n - 2), r.randint(2, w - 1)) if hole else (None, None)
    c = r.randint(2, 9) if asked in ("cost", "both") else None
    f = r.randint(2, 9 if level < 3 else 30) if asked in ("fence", "both") else None
    steps = []
    if asked in ("size", "cost", "both"):
        steps.append((f"area of {n} by {w}", f"x = {n} * {w}"))
        steps += [(f"without {a} by {b}", f"x = x - {a} * {b}")] if hole else []
        steps += [(f"at {c} each", f"x = x * {c}")] if c else []
    if asked in ("round", "fence", "both"):
        steps.append((f"around {n} by {w}", f"y = 2 * ({n} + {w})"))
        steps += [(f"at {f} each", f"y = y * {f}")] if f else []
    steps += [("both", "x = x + y")] if asked == "both" else []
    free = sum(w - (b or 0) if row < (a or 0) else w for row in range(n))
    border = sum(1 for x in range(n + 2) for y in range(w + 2) if x in (0, n + 1) or y in (0, w + 1)) - 4
    p, q = people(r, 2)
    return Draft(
        fields={
            "p": p, "q": q, "l": n, "w": w, "a": a, "b": b, "c": c, "f": f, "both": "both" if asked == "both" else None,
            "z": r.randint(11, 60) if level >= 4 else None, "size": asked if asked == "size" else None,
            "round": asked if asked == "round" else None,
        },
        steps=steps,
        show="y" if asked in ("round", "fence") else "x",
        answer=(free * (c or 1) if asked in ("size", "cost", "both") else 0) + border * (f or (asked == "round")),
        numbers=(n, w, a, b, c, f, asked),
    )  # fmt: skip


@family(
    "word",
    trained="""
    - {p} <gets|scores> {list} points in {n} <games|rounds>.[ {p:He} is {z} years old.] [With one more game {p:his}
      average is {goal}. What is the score in that game|In the next {k} games {p:his} average is {m}. What is {p:his}
      average in all the games|What is {p:his} average]?
    - The <prices|weights|lengths> of {n} {item:s} are {list}.[ They lie in {z} boxes.] [{k} other {item:s} have an
      average of {m}. Find the average of them all|One more {item} makes the average {goal}. Find its value|Find the
      average].
    - What is the [{?k}average of all the numbers|{?goal}next number|average] if {n} numbers are {list}[ and the
      average of {k} more numbers is {m}|{?goal} and the average of these and the next one is {goal}]?[ They stand on
      page {z}.]
    - On {n} days {p} reads {list} pages.[ The book costs ${z}.] [{p:He} reads for {k} more days, {m} pages a day.
      What is the average per day for all the days|After one day more the average is {goal} pages per day. How many
      pages does {p:he} read on that day|What is the average per day]?
    - There are {list} <pupils|children> in {n} <classes|teams>.[ There are {z} rooms.] [In {k} other ones the mean is
      {m}. What is the mean of all of them|With one more, the mean is {goal}. How many are in that one|What is the
      mean]?
    - {p} measures {list} degrees on {n} days.[ {q} has measured for {z} weeks.] [On {k} later days the mean is {m}.
      What is the mean of all the days|The mean is {goal} when the next day is counted too. What is measured on the
      next day|What is the mean]?
    """,
    held="""
    - {list}: these are the <heights|ages> of {n} trees.[ The oldest stands {z} m from a wall.] [Taken together with
      {k} trees of mean {m}, what is the common mean|A further tree makes the mean {goal}. What is its value|What is
      the mean value]?
    - {n} <friends|players> bring {list} cards and[ {k} others bring {m} each, and] they share them all equally[ with
      a last one, so that each has {goal}].[ {q} brings {z} drinks.] How many cards [{?goal}does the last one
      bring|does each of them get]?
    """,
)
def average(r: Random, level: int) -> Draft:
    """Mean of a list, a missing value, two groups taken together."""
    n = (3, 4, 3, 4, 4)[level - 1]
    values = [r.randint(4, 30 + 15 * level) for _ in range(n)]
    goal = r.randint(10, 40 + 10 * level) if level in (3, 4) else None
    k, m = (r.randint(2, 6), r.randint(10, 90)) if level == 5 else (None, None)
    everyone = values + [m or 0] * (k or 0)
    size = len(everyone)
    excess = Fraction(sum(value - (goal or 0) for value in everyone))
    answer = goal - excess if goal else excess / size
    if answer.denominator > 1 or answer < 2:
        raise RejectedError
    steps = [(f"sum of {n} numbers", f"t = {' + '.join(map(str, values))}")]
    if goal:
        steps += [(f"sum for average {goal}", f"s = {goal} * ({n} + 1)"), ("the missing one", "x = s - t")]
        steps.append(("check the average", f"assert (t + x) // ({n} + 1) == {goal}"))
    elif k:
        steps += [
            (f"{k} numbers of {m}", f"s = {k} * {m}"),
            ("sum of all", "t = t + s"),
            (f"{n} and {k} numbers", f"n = {n} + {k}"),
            ("average", "assert t % n == 0\nx = t // n"),
        ]
    else:
        steps.append((f"shared by {n}", f"x = t // {size}"))
    p, q = people(r, 2)
    return Draft(
        fields={
            "p": p, "q": q, "item": things(r, 1, SMALL)[0], "list": joined(values), "n": n, "goal": goal, "k": k,
            "m": m, "z": r.randint(11, 90) if level >= 4 else None,
        },
        steps=steps,
        answer=answer,
        numbers=(*values, goal, k, m),
    )  # fmt: skip


FAMILIES: tuple[Family, ...] = (recipe, clock, units, area, average)
