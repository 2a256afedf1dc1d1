"""Word problems about buying, earning and selling: `FAMILIES`. Templates and drafts: see `rstar.tiny.templates`."""

from __future__ import annotations

from random import Random

from rstar.tiny.family import Family, RejectedError
from rstar.tiny.templates import Draft, family
from rstar.tiny.words import CREW, Purchase, people, things


@family(
    "word",
    trained="""
    - {p} <buys|picks up|gets> {buy:at}.[ {p:He} has a coupon for ${off} off.][ {p:He} already has {d} {x:s} at home.]
      [{p:He} pays with ${paid}. How much change does {p:he} get, in dollars?|How many dollars does {p:he} pay?]
    - At the <shop|market|store>, {buy:price}. {p} <buys|takes> {buy:count}.[ {p:He} gets ${off} off the price.] [How
      much is left of {p:his} ${paid}?|How much does {p:he} spend?]
    - {p} <goes shopping|goes to the market>[ with ${paid}] and buys {buy:for}.[ {q} bought {d} {x:s} there last
      week.] [A coupon takes ${off} off.] [{?paid}How many dollars does {p} have left?|What is the total cost in
      dollars?]
    - [{p} has ${paid}.] A <store|shop> asks {buy:one}. {p} <needs|wants> {buy:count}[ and can use a coupon worth
      ${off}]. [{?paid}How much money will be left?|How much will it cost?]
    - What [{?paid}change|amount] does {p} [{?paid}get|pay] for {buy:at}[ when the shop takes ${off} off] [ and {p:he}
      pays with ${paid}]?[ The shop has {d} {x:s} in stock.]
    - {p} <orders|chooses> {buy:count}. {buy:Price}.[ {p:He} has been a customer for {d} years.] [ As a regular
      customer {p:he} pays ${off} less.] [{p:He} hands over ${paid}. How many dollars come back?|How many dollars is
      the bill?]
    - For {q}, {p} bought {buy:for}.[ There was ${off} off at the till.] [How much of {p:his} ${paid} was left
      afterwards?|How much money did {p:he} spend?]
    """,
    held="""
    - A customer called {p} puts {buy:count} on the counter.[ The customer after {p:him} has {d} {x:s}.] The price
      list says: {buy:one}.[ {p} shows a voucher for ${off}.] [What change is due if {p:he} gives ${paid}?|What must
      {p:he} pay altogether?]
    - [Starting with ${paid}, how much money does {p} keep|How much money does {p} need] [{?paid}after buying|to buy]
      {buy:at}[, if {p:he} saves ${off} with a coupon]?[ {p:He} has {d} {x:s} already.]
    """,
)
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


@family(
    "word",
    trained="""
    - {p} <saves|puts aside> ${a} <every|each> week[ and spends ${b} of it on snacks].[ {p:He} already has ${s}.] [How
      many weeks will it take {p:him} to have at least ${goal}?|How much money will {p:he} have after {w} weeks?]
    - [A bike costs ${goal}.] [{p} has ${s} in a money box.] {p} <earns|gets> ${a} a week[ but spends ${b} a week].[
      {q} is {d} years old.] [{?goal}After how many weeks can {p} buy the bike?|How many dollars does {p} have after
      {w} weeks?]
    - [{p} starts with ${s}.] Every week {p} is given ${a}[ and pays ${b} for the bus].[ {p:He} has {d} friends.]
      [{?goal}In how many weeks will {p:he} have ${goal} or more?|What will {p:he} have at the end of {w} weeks?]
    - {p}'s pocket money is ${a} per week.[ {p:He} uses ${b} of it each week.][ {p:He} has saved ${s} so far.] [How
      many weeks until {p:he} has at least ${goal}?|How much does {p:he} have after saving for {w} weeks?]
    - [{p} wants a camera for ${goal}.] Each week {p} <receives|makes> ${a} for <walking dogs|washing cars> [, of
      which ${b} is spent].[ The shop is {d} km away.][ ${s} is already saved.] [{?goal}How many weeks must {p:he}
      wait for the camera?|How much money is there after {w} weeks?]
    - How [{?goal}many weeks|much money] does {p} [{?goal}need to get at least ${goal}|have after {w} weeks] if {p:he}
      saves ${a} a week[, spends ${b} a week][ and begins with ${s}]?
    """,
    held="""
    - [To reach ${goal}, {p} opens an account.|{p} opens an account.] [The first deposit is ${s}.] After that ${a} is
      added <every|each> week[ and ${b} is taken out each week].[ {q} is {d} years older than {p}.] [{?goal}How many
      weeks does it take?|How much is in the account after {w} weeks?]
    - {p} <mows lawns|delivers papers> for ${a} weekly[; {p:he} pays ${b} weekly for lunch].[ {p:He} owns ${s} today.]
      [Find the number of weeks before {p:he} has ${goal}.|Find {p:his} money {w} weeks later.]
    """,
)
def savings(r: Random, level: int) -> Draft:
    """Weekly saving, spending, and the weeks that a goal takes."""
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


@family(
    "word",
    trained="""
    - A ticket for the <play|film|concert> costs ${a} for an adult and ${c} for a child. [{m} adults and {k} children
      come. |{n} people come, {k} of them children.|{n} people paid ${sum} in all.] [The hall has {d} seats.] [{?m}How
      many dollars is that?|{?k}How much do they pay together?|How many of them were adults?]
    - The <museum|zoo|pool> charges ${c} per child and ${a} per adult. Today [there were {k} children and {m}
      adults|{k} of the {n} visitors were children|{n} visitors paid ${sum}].[ Yesterday {d} people came.] [{?k}How
      much money was taken?|How many adults came?]
    - {p} sells [{n}] tickets: adults pay ${a} and children pay ${c}. [{p:He} sells {m} to adults and {k} to
      children.|{k} are for children and the rest for adults.|{p:He} takes in ${sum}.] [{p:His} shift is {d} hours
      long.] [{?k}How many dollars does {p:he} take in?|How many adult tickets does {p:he} sell?]
    - A <bus|boat|train> carries [{m} adults and {k} children|{n} passengers, {k} of whom are children|{n} passengers,
      adults and children]. Adults pay ${a} each, children ${c} each[, and it all comes to ${sum}].[ The trip takes
      {d} minutes.] [{?k}What do they pay altogether?|How many adults are on board?]
    - [{m} grown-ups and {k} children|{n} people, among them {k} children,|{n} people] <went to|visited> the
      <circus|fair>. [{q} counted {d} animals there.] The price was ${a} for a grown-up and ${c} for a child. [The
      tickets cost ${sum} together.] [{?k}How much did the tickets cost?|How many grown-ups were there?]
    - At a match, seats are ${a} for adults and ${c} for children. [A group of {m} adults and {k} children|Of {n}
      people, {k} are children and all the others adults. The group|A group of {n} people] [{?k}buys seats|pays
      ${sum}]. [The match lasts {d} minutes.] [{?k}How much must the group pay?|Find the number of adults.]
    """,
    held="""
    - {p} guides [{m} adults plus {k} children|{n} tourists including {k} children|a party of {n} tourists] through a
      cave. [It is {d} m deep.] Each child's entry is ${c}, each adult's is ${a}. [Entry costs the party ${sum} in
      total. Work out how many adults there are.|Work out the cost of entry.]
    - [{?k}How many dollars does a theatre earn from|How many adults are there among] [{m} adults and {k} children|{n}
      guests with {k} children among them|{n} guests who pay ${sum} together], with adult seats at ${a} and child
      seats at ${c}?[ It has {d} rows.]
    """,
)
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


@family(
    "word",
    trained="""
    - {p} <earns|makes> ${a} an hour. {p:He} works {h} hours[ a day for {w} days][ and {e} hours of overtime at ${b}
      an hour]. [{p:He} pays ${x} for <tools|the bus|clothes>.][ {p:His} boss is {d} years old.] [{?x}How much is
      left?|How much does {p:he} earn?]
    - For each hour of work, {p} is paid ${a}. [On each of {w} days {p:he} works {h} hours|One day {p:he} works {h}
      hours]. [{p:He} also does {e} extra hours for ${b} each.][ {d} people work there.] [{p:He} spends ${x} of the
      money. What remains?|What is {p:his} pay?]
    - {p} works {h} hours [every day for {w} days|today] at ${a} per hour.[ There are {e} more hours on Sunday, paid
      at ${b} per hour.] [{q} works {d} hours.][ Then ${x} is taken off for lunch.] How many dollars does {p} get?
    - A <{job}|young {job}> gets ${a} an hour and works {h} hours [each day. A job takes {w} days|in a day]. [{e}
      hours at night bring ${b} an hour.][ Paint costs the {job} ${x}.][ The house is {d} years old.] How much money
      does the {job} [{?x}keep|receive]?
    - How much does {p} [{?x}have left|earn] if {p:he} works {h} hours [per day on {w} days] for ${a} an hour[, then
      {e} hours for ${b} an hour][ and pays ${x} in tax]?[ {p:His} way to work is {d} km.]
    - [During {w} days|Today], {p} <helps|works> in a <shop|bakery|garden> for {h} hours[{?w} a day].[ {p:He} stays
      {e} hours longer on the last day.] The pay is ${a} an hour[ and ${b} for each of the longer hours].[ {q} gives
      {p:him} {d} apples.] [After {p:he} pays back ${x} to {q}, how many dollars does {p:he} have?|How many dollars
      does {p:he} make?]
    """,
    held="""
    - The hourly wage of {p} is ${a}[, or ${b} in overtime]. {p:His} time sheet shows [{w} days of {h} hours|{h}
      hours] [and {e} overtime hours].[ {p:He} is number {d} on the list.] [A fee of ${x} is deducted.] Find the
      amount paid out.
    - [Overtime pays ${b}, normal|Normal] hours pay ${a}. {p} [has {e} hours of overtime and] puts in {h} normal hours
      [on each of {w} days].[ The firm has {d} cars.] What does {p:he} take home[ once ${x} for insurance is gone]?
    """,
)
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
