"""Percentages, discounts, growth and tips: `FAMILIES`. Templates and drafts: see `rstar.tiny.templates`."""

from __future__ import annotations

from fractions import Fraction
from random import Random

from rstar.tiny.family import Family, RejectedError
from rstar.tiny.templates import Draft, family
from rstar.tiny.words import DEAR, people, things


@family(
    "ratio",
    trained="""
    - What is {a}% of [{b}% of ]{n}[ plus {c}% of {m}][, minus {d}]?
    - <Find|Compute> {a} percent of [{b} percent of ]{n}[ and add {c} percent of {m}][, then subtract {d}].
    - {p} has {n} {item:s}. [{b}% of them are large, and {a}% of the large ones|{a}% of them] are
      <red|blue|old|broken>.[ Of the {m} {item:s} of {q}, {c}% are like that too.][ {d} of all these are lost.] How
      many such {item:s} [{?d}remain|are there]?
    - A <school|club|team> has {n} members. [{b}% of them can swim, and {a}% of the swimmers|{a}% of them] <play
      chess|sing>.[ So do {c}% of the {m} guests.][ But {d} of these people are ill.] How many people [{?d}are left to
      do it|do it]?
    - In a <box|bag> of {n} {item:s}, [{b}% are new and {a}% of the new ones are|{a}% are] sold.[ Of another {m}, {c}%
      are sold.][ {d} sold ones come back.] How many are [{?d}finally sold|sold]?
    - There are {n} {item:s} in a <shop|store>[ and {m} in its other room]. [Of the first, {b}% have a mark, and {a}%
      of those with a mark|{a}% of {?n}the first|{a}%] are cheap[, of the others {c}%].[ {p} buys {d} of the cheap
      ones.] How many cheap ones [{?d}stay|are there]?
    """,
    held="""
    - {n} {item:s} lie on a table. {p} paints {a} of every 100[ in the {b} percent that are clean][, and also {c} of
      every 100 of {m} more {item:s}][, but washes {d} of them again]. How many painted {item:s} are there?
    - Take {n}.[ Keep {b}% of it.] {a}% of this is what number[, if you also count {c}% of {m}][ and leave out {d}]?
    """,
)
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


@family(
    "ratio",
    trained="""
    - {item:A} costs ${n}. <In a sale it is|It is> {a}% off[, then another {b}% off the new price][, and a coupon
      takes ${c} off]. [Tax adds {t}% at the end.] [{p} buys {k} of them.][ {p:He} has ${z} with {p:him}.] What does
      [{?k}{p}|one] pay?
    - {p} <sees|finds> {item:a} for ${n}. The shop takes {a}% off[, and later {b}% off what is left].[ {p:He} uses a
      ${c} coupon.] [{t}% tax is added.][ {q} paid ${z} last year.] [How many dollars do {k} such {item:s} cost|How
      many dollars does it cost <now|then>]?
    - The price of {item:a} is ${n}[ at a shop with {z} workers]. It <falls|drops> by {a}%[ and again by {b}%][, then
      by ${c}] [, and then rises by {t}%]. What is the price [of {k} {item:s} |]<now|in the end>?
    - How much [are {k} {item:s}, each|is {item:a}] at ${n} less {a}%[, less {b}% of the rest][, less ${c}][, plus
      {t}% tax]?[ The {item:s} weigh {z} grams.]
    - {p} sells {item:s} for ${n} each. For a friend {p:he} makes it {a}% cheaper[, on a holiday {b}% cheaper again].[
      The friend has a card worth ${c} per {item}.][ {p} adds {t}% tax.][ {p:He} has sold {z} {item:s}.] What does the
      friend pay [for {k}|for one]?
    - [{z} people look at {item:a}.|{p} looks at {item:a}.] It was ${n} and is now {a}% less[, and {b}% less than that
      for members][, with ${c} off for {p}][ and {t}% more for the tax]. [What is the price of {k} of them|What is it
      in dollars]?
    """,
    held="""
    - With a discount of {a} percent[ followed by one of {b} percent][, a gift card of ${c}][ and tax of {t} percent],
      what does [{p} give for {k} {item:s}|{p} give for {item:a}] whose list price is ${n}[{?k} each]?[ The shop is
      number {z}.]
    - Before a sale {item:a} was ${n}. {p} gets {a}% of this back[, and {b}% of the remaining price too][; ${c} more
      is given back][; {t}% is charged for sending].[ It took {z} days.] What [do {k} cost|does it cost] {p:him}
      really?
    """,
)
def discount(r: Random, level: int) -> Draft:
    """A price after discounts, a coupon and tax."""
    a, b = r.choice((5, 10, 15, 20, 25, 30, 35, 40, 60, 70)), r.choice((10, 20, 25, 30, 40, 50))
    n = r.randint(4, 60) * 5 if level == 1 else r.randint(2, 60) * 20
    two, c = level >= 3, r.randint(2, 15) if level >= 4 else None
    t = r.choice((5, 10, 20)) if level == 5 else None
    k = r.randint(2, 9) if level in (2, 4) else None
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


@family(
    "ratio",
    trained="""
    - A <town|school|club> had [{n}|some] <members|people>.[ It was founded in {z}.][ Then it <grew|rose> by {a}%.][
      Then it lost {b}%.][ Then it <grew|rose> by {c}%.][ Now it has {m}.] [{?back}How many did it have at
      first?|{?change}By what percent did it [{?up}grow|shrink]?|How many does it have now?]
    - The price of {item:a} was [${n}|not written down].[ {p} saw {z} of them.][ It went up by {a}%.][ It went down by
      {b}%.][ It went up by {c}%.][ It is ${m} now.] [{?back}What was the first price?|{?change}How many percent did
      it [{?up}rise|fall]?|What is the price now?]
    - {p} [had ${n}|had some money].[ {q} is {z} years old.][ {p:He} earned {a}% more.][ {p:He} spent {b}% of what
      {p:he} had.][ {p:He} got {c}% more.][ {p:He} ends with ${m}.] [{?back}How much did {p:he} begin
      with?|{?change}What is the [{?up}gain|loss] in percent?|How much does {p:he} have at the end?]
    - In <May|June> a <shop|factory> sold [{n} {item:s}|a number of {item:s}].[ {item:A} weighs {z} kg.][ The next
      month it sold {a}% more.][ After that it sold {b}% fewer.][ After that it sold {c}% more.][ This gave {m}.]
      [{?back}Find the number sold in the first month.|{?change}Find the [{?up}increase|decrease] in percent.|Find the
      last number.]
    - Start with [{n}|a number].[ Increase it by {a}%.][ Decrease the result by {b}%.][ Increase the result by {c}%.][
      You get {m}.][ Page {z} has more.] [{?back}What was the number?|{?change}What percent is the
      [{?up}increase|decrease]?|What do you get?]
    - [{n}|A group of] birds lived at a lake[ {z} km away].[ In spring they became {a}% more.][ In summer there were
      {b}% fewer.][ In autumn they became {c}% more.][ At the end there were {m}.] [{?back}How many were there at the
      beginning?|{?change}How many percent [{?up}more|fewer] is that?|How many were there at the end?]
    """,
    held="""
    - The rent of a <room|flat|house> [was ${n}|changed].[ Its owner has {z} flats.][ First it increased by {a}
      percent.][ Next it decreased by {b} percent.][ Later it increased by {c} percent.][ This made it ${m}.]
      [{?back}What had the rent been?|{?change}The [{?up}increase|decrease] was what percent?|What is the rent after
      this?]
    - {p} weighs [{n}|all the] bags of <rice|sand> in a store.[ There are {z} shelves.][ {a}% are added to these.][
      {b}% of all are taken out.][ {c}% are added to the rest.][ {p} counts {m} bags.] [{?back}How many were there
      before?|{?change}By how many percent is that [{?up}up|down]?|How many bags are in the store after that?]
    """,
)
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


@family(
    "ratio",
    trained="""
    - {p} <eats|has lunch|has dinner> for ${n}[, and {k} friends eat for ${e} each].[ A tax of {t}% is added.] The tip
      is {a}% of the price[{?t} without tax].[ They stay for {z} minutes.] [{?split}All {g} pay the same. How much is
      that for each|{?whole}How much is paid in all|How many dollars is the tip]?
    - A bill <comes to|is> ${n}[ for one person and ${e} for each of {k} others].[ The table has number {z}.] {p}
      wants to give a tip of {a}% on it[; tax is {t}% on it too]. [{?split}If {g} people pay equal parts, what is one
      part|{?whole}What is the sum with [{?t}both|tip]|How much should the tip be], in dollars?
    - How much [{?split}does each of {g} people pay|{?whole}is paid|is the tip] [when they share a bill of ${n} and
      {k} times ${e}|on a bill of ${n}] with {a}% tip[ and {t}% tax, both on the bill]?[ The cook is {z} years old.]
    - A taxi ride costs ${n}[ and there are {k} other rides for ${e}].[ The driver has {z} more rides.] {p}
      <adds|gives> {a}% as a tip[ and there is {t}% tax on the price]. [{?split}What does each of {g} people pay when
      they pay equally|{?whole}What is the total|How many dollars does the driver get as a tip]?
    - At a cafe, {p} and {q} order for ${n}[ and then {k} cakes for ${e} each].[ There are {z} tables.] They leave
      {a}% of the price as a tip[ and pay {t}% of it as tax]. [{?split}They split all this among {g} friends. What is
      one share|{?whole}What do they pay altogether|How large is the tip in dollars]?
    - A haircut is ${n}[, and {k} more haircuts are ${e} each].[ The shop is open for {z} hours.] On top comes a tip
      of {a}%[ and a tax of {t}%, each taken from the price]. [{?split}What does one of {g} customers pay if all pay
      alike|{?whole}How many dollars is this together|How many dollars is the tip]?
    """,
    held="""
    - For good service {p} gives the waiter {a} dollars per 100 dollars on a meal of ${n}[ and {k} meals of ${e}].[
      The state takes {t} dollars per 100 dollars on them as well.][ The meal has {z} parts.] [{?split}What has each
      of the {g} guests to pay, if all pay the same|{?whole}What is the cost with all this|What does the waiter get]?
    - [{?split}Find one of {g} equal shares of|{?whole}Find the final amount of|Find the tip of {a}% on] a hotel bill
      of ${n}[ plus {k} nights at ${e}][{?whole} when a tip of {a}% of it|{?split} when a tip of {a}% of it][ and a
      tax of {t}% of it][{?whole} is added|{?split} is added].[ The hotel has {z} beds.]
    """,
)
def tips(r: Random, level: int) -> Draft:
    """A bill with tip and tax, shared by several."""
    a, price = r.choice((5, 10, 12, 15, 18, 20, 25)), r.randint(2, 40 + 10 * level) * 5
    k, e = (r.randint(2, 6), r.randint(3, 30)) if level >= 4 else (None, None)
    t = r.choice((4, 5, 6, 8, 10)) if level in (3, 5) else None
    g = r.randint(2, 8) if level == 5 else None
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
