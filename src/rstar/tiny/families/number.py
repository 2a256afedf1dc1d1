"""Divisors, remainders, digits and primes: `FAMILIES`. Templates and drafts: see `rstar.tiny.templates`."""

from __future__ import annotations

from itertools import count
from math import isqrt, prod
from random import Random

from rstar.tiny.family import Family, RejectedError
from rstar.tiny.templates import Draft, family
from rstar.tiny.words import SMALL, joined, people, things


def _divisors(n: int) -> list[int]:
    """Divisors in order, from the pairs d, n / d."""
    low = [d for d in range(1, isqrt(n) + 1) if n % d == 0]
    return sorted({*low, *(n // d for d in low)})


def _is_prime(n: int) -> bool:
    return n > 1 and len(_divisors(n)) == 2


@family(
    "number",
    trained="""
    - [{?lcm}What is the least common multiple of {list}?|What is the greatest common divisor of {list}?][ How many
      times does {m} go into it?][ What is it times {k}?]
    - Find the [{?lcm}smallest positive number that {list} all divide|largest number that divides {list}][, then
      divide it by {m} and leave out the remainder|{?k}, then multiply it by {k}].
    - [{?lcm}Lights flash every {list} seconds. They flash together now. After how many seconds do they flash together
      again?|{p} has ribbons of {list} cm and cuts them into equal pieces, as long as possible, with nothing left. How
      long is a piece in cm?][ How many full parts of {m} seconds is that?| How long are {k} pieces in cm?]
    - [{?lcm}Buses leave every {list} minutes, and now all leave at once. In how many minutes does this happen
      next?|There are {list} {item:s} of different colours. All are packed into bags with equal contents. What is the
      largest number of bags?][ Divide it by {m} and round down.| Multiply it by {k}.]
    - Compute the [{?lcm}lcm|gcd] of {list}[ and take the whole part of it over {m}|{?k} and multiply by {k}].
    - For the numbers {list}, {p} <computes|finds> the [{?lcm}least common multiple|greatest common divisor]. What
      [does {p:he} get after dividing it by {m} without the remainder|{?k}does {p:he} get after multiplying it by
      {k}|is it]?
    """,
    held="""
    - [{?lcm}Wheels with {list} teeth stand at a mark. After how many teeth are all of them back at it for the first
      time|Square tiles, as large as possible, fit exactly along walls of {list} cm. What is the side of a tile in
      cm][, divided by {m} and rounded down|{?k}, times {k}]?
    - [{?lcm}Which positive number is the first in the tables of {list}|Which is the highest number by which one can
      divide {list}][? Say how often {m} fits into it.|{?k}? Say what {k} of it make.|?]
    """,
)
def gcd_lcm(r: Random, level: int) -> Draft:
    """Greatest common divisor or least common multiple of two or three numbers."""
    lcm = r.random() < 0.5
    size, base = (2, 2, 3, 3, 3)[level - 1], r.randint(2, 5 + 5 * level)
    if lcm:
        values = [r.randint(4, 12 + 6 * level) for _ in range(size)]
        answer = next(n for n in count(max(values), max(values)) if all(n % v == 0 for v in values))
    else:
        values = [base * r.randint(2, 12 + 4 * level) for _ in range(size)]
        answer = max(d for d in _divisors(values[0]) if all(v % d == 0 for v in values))
    if len(set(values)) < size or answer > 9999 or answer in values or answer == 1:
        raise RejectedError
    name, last = "lcm" if lcm else "gcd", str(values[0])
    steps = []
    for at, value in enumerate(values[1:]):
        code = f"x = {name}({last}, {value})"
        steps.append((f"{name} of {last} and {value}", code if at else f"from math import {name}\n{code}"))
        last = "x"
    m = r.randint(2, 15) if level >= 4 and lcm else None
    k = r.randint(2, 15) if level >= 4 and not lcm else None
    if level == 5:
        rule = "x % n == 0" if lcm else "n % x == 0"
        steps.append(("check", f"assert all({rule} for n in [{', '.join(map(str, values))}])"))
    steps += [(f"whole part over {m}", f"x = x // {m}")] if m else []
    steps += [(f"times {k}", f"x = x * {k}")] if k else []
    (p,), (item,) = people(r, 1), things(r, 1, SMALL)
    return Draft(
        fields={
            "p": p, "item": item, "list": joined(values), "lcm": True if lcm else None, "m": m,
            "k": k,
        },
        steps=steps,
        answer=answer // m if m else answer * (k or 1),
        numbers=(*sorted(values), lcm, m, k),
    )  # fmt: skip


@family(
    "number",
    trained="""
    - [{?sum}What is the sum of|How many are] the [{?kind}{kind} ]positive divisors of {n}[ that divide {m} as well][
      and are more than {k}]?
    - <Find|Compute> the [{?sum}sum|number] of the [{?kind}{kind} ]divisors of {n}[ greater than {k}][ that are
      divisors of {m} too].
    - {p} writes down all [{?kind}{kind} ]divisors of {n}[ that also divide {m}].[ {p:He} leaves out those up to {k}.]
      [{?sum}What is the sum of the numbers that {p:he} keeps|How many numbers does {p:he} keep]?
    - [{?sum}Find the sum of all|Count the] [{?kind}{kind} ]whole numbers [{?k}above {k} ]that divide {n}[ and also
      {m}].
    - {n} {item:s} [and {m} cups ]are to be put on tables, the same on each[; the number of tables is above
      {k}][{?kind}; the number of tables is {kind}]. [{?sum}What is the sum of all possible numbers of tables|How many
      numbers of tables are possible]?
    - Consider the [{?kind}{kind} ]numbers[ over {k}] which divide {n}[ and {m}] without remainder. [{?sum}Add them
      up.|Count them.]
    """,
    held="""
    - [{?sum}Work out the total of|Work out how many are] the [{?kind}{kind} ]positive whole numbers [{?k}exceeding
      {k} ]by which {n}[ and likewise {m}] can be divided evenly.
    - Among 1, 2, 3 and so on up to {n}, take each [{?kind}{kind} ]number[ larger than {k}] of which [{n} and {m} are
      multiples|{n} is a multiple]. State [{?sum}the sum of them|how many these are].
    """,
)
def divisors(r: Random, level: int) -> Draft:
    """How many divisors numbers have, and the sum of them."""
    n = r.choice((1, 2, 4, 6)) * r.randint(6, 60 + 30 * level)
    total = (level >= 2 and r.random() < 0.5) or level == 2
    kind = r.choice(("even", "odd")) if level == 3 or (level == 5 and r.random() < 0.5) else None
    m = r.choice((6, 10, 12, 15, 30)) * r.randint(2, 30) if level >= 4 else None
    k = r.randint(1, 9) if level == 5 or (level == 4 and r.random() < 0.5) else None
    d = [v for v in _divisors(n) if (m or 0) % v == 0 and v > (k or 0) and kind in (None, "odd" if v % 2 else "even")]
    if len(d) < 2 or m == n:
        raise RejectedError
    steps = [(f"divisors of {n}", f"d = [k for k in range(1, {n} + 1) if {n} % k == 0]")]
    steps += [(f"that divide {m}", f"d = [k for k in d if {m} % k == 0]")] if m else []
    steps += [(f"above {k}", f"d = [k for k in d if k > {k}]")] if k else []
    steps += [(kind, f"d = [k for k in d if k % 2 == {0 if kind == 'even' else 1}]")] if kind else []
    steps.append(("sum" if total else "how many", f"x = {'sum' if total else 'len'}(d)"))
    (p,), (item,) = people(r, 1), things(r, 1, SMALL)
    return Draft(
        fields={"p": p, "item": item, "n": n, "m": m, "k": k, "kind": kind, "sum": True if total else None},
        steps=steps,
        answer=sum(d) if total else len(d),
        numbers=(n, m, k, kind, total),
    )


@family(
    "number",
    trained="""
    - What is the remainder when {sum} is divided by {m}?
    - Find the remainder of {sum} on division by {m}.
    - {p} divides {sum} by {m}. What remainder does {p:he} get?
    - Compute {sum} modulo {m}.
    - {sum} {item:s} are packed in boxes of {m} until less than {m} are left. How many are left?
    - When {sum} is split into groups of {m}, how many are left over?
    """,
    held="""
    - What is left of {sum} after taking {m} away as often as possible?
    - {p} walks {sum} steps around a ring of {m} fields. On which field, counted from 0, does {p:he} stop?
    """,
)
def power_mod(r: Random, level: int) -> Draft:
    """Remainder of powers, their products and sums."""
    m = r.randint(5, 15 + 15 * level)
    powers = [(r.randint(2, 12 + 2 * level), r.randint(5, 20 + 20 * level)) for _ in range((1, 1, 2, 2, 3)[level - 1])]
    plus = r.randint(2, 99) if level in (2, 4) else None
    joint = " * " if level in (3, 4) else " + "
    text = joint.join(f"{a}^{n}" for a, n in powers) + (f" + {plus}" if plus else "")
    rests = []  # by iterating over the powers
    for a, n in powers:
        rest = 1
        for _ in range(n):
            rest = rest * a % m
        rests.append(rest)
    answer = ((prod(rests) if joint == " * " else sum(rests)) + (plus or 0)) % m
    steps = [(f"{a}^{n} by {m}", f"{v} = pow({a}, {n}, {m})") for v, (a, n) in zip("abc", powers, strict=False)]
    if len(powers) > 1 or plus:
        code = joint.join("abc"[: len(powers)]) + (f" + {plus}" if plus else "")
        steps.append(("all together", f"a = {code}"))
        steps.append((f"remainder by {m}", f"a = a % {m}"))
    return Draft(
        fields={"p": people(r, 1)[0], "item": things(r, 1, SMALL)[0], "sum": text, "m": m},
        steps=steps,
        show="a",
        answer=answer,
        numbers=(*powers, plus, m),
    )


@family(
    "number",
    trained="""
    - [How many numbers from {u} to {v} have digits with a sum of {s}|What is the sum of the digits of {text}]?
    - <Find|Compute> the [number of whole numbers from {u} to {v} whose digit sum is {s}|digit sum of {text}].
    - {p} [looks at the numbers from {u} to {v}. How many of them have the digit sum {s}|works out {text} and adds up
      the digits of the result. What does {p:he} get]?
    - Add the digits of [each number from {u} to {v}. How often is the result {s}|{text}. What is the result]?
    - [Of the numbers {u} to {v}, how many have digits that add up to {s}|What do the digits of {text} add up to]?
    - What is the [count of the numbers between {u} and {v}, both included, with digit sum {s}|digit sum of {text}]?
    """,
    held="""
    - [Houses have the numbers {u} to {v}. On how many of them do the digits make {s} in total|{p} types {text}, gets
      one number and sums its digits. What is the result]?
    - [Counting from {u} up to {v}, how many times does {p} say a number with digits totalling {s}|Total up every
      digit that {text} has when written out. What is this total]?
    """,
)
def digits(r: Random, level: int) -> Draft:
    """Digit sums of numbers, products and powers, and numbers with a given digit sum."""
    a, b, n = r.randint(12, 999), r.randint(12, 999), r.randint(3, 20)
    u = r.randint(10, 400)
    v, s = u + r.randint(50, 600), r.randint(3, 18)
    add = "x = sum(int(c) for c in str({}))"
    steps = []
    text: str | None = None
    match level:
        case 1:
            value = r.randint(10**3, 10**8)
            text = str(value)
            steps = [(f"digits of {text}", add.format(text))]
        case 2 | 3:
            value = a * b if level == 2 else a * b + n**2
            text = f"{a} * {b}" if level == 2 else f"{a} * {b} + {n}^2"
            steps = [(f"{a} times {b}", f"n = {a} * {b}")]
            steps += [(f"and {n} squared", f"n = n + {n} ** 2")] if level == 3 else []
            steps.append(("digits of it", add.format("n")))
        case 4:
            a = r.randint(2, 30)
            value = a**n * b
            text = f"{a}^{n} * {b}"
            steps = [(f"{a} to the power {n}", f"n = {a} ** {n}"), (f"times {b}", f"n = n * {b}")]
            steps.append(("digits of it", add.format("n")))
        case _:
            value = 0
            steps = [
                (f"numbers from {u} to {v}", f"d = range({u}, {v} + 1)"),
                ("their digit sums", "d = [sum(int(c) for c in str(n)) for n in d]"),
                (f"how many are {s}", f"x = d.count({s})"),
            ]
    answer = 0
    while value:
        value, digit = divmod(value, 10)
        answer += digit
    if level == 5:
        answer = sum(1 for k in range(u, v + 1) if k // 100 + k // 10 % 10 + k % 10 == s)
    return Draft(
        fields={"p": people(r, 1)[0], "text": text, **({"u": u, "v": v, "s": s} if level == 5 else {})},
        steps=steps,
        answer=answer,
        numbers=(text,) if text else (u, v, s),
    )


@family(
    "number",
    trained="""
    - [{?after}What is the smallest prime number above {u}|{?gap}How many primes n from {u} to {v} are there such that
      n + {gap} is prime too|{?sum}What is the sum of the prime numbers from {u} to {v}[ that end in {end}]|How many
      prime numbers are there from {u} to {v}[ that end in {end}]]?
    - <Find|Compute> the [{?after}first prime after {u}|{?gap}number of primes n from {u} to {v} for which n + {gap}
      is also prime|{?sum}sum of all primes from {u} to {v}[ with last digit {end}]|number of primes from {u} to {v}[
      with last digit {end}]].
    - {p} [{?after}looks for a prime larger than {u}, as small as possible. Which one is it|{?gap}looks at primes n
      from {u} to {v}. For how many is n + {gap} a prime|{?sum}adds all primes[ ending in {end}] from {u} to {v}. What
      is the sum|counts the primes[ ending in {end}] from {u} to {v}. How many are there]?
    - From {u} [{?after}on, what is the next prime|to {v}, {?gap}how many primes n have a partner n + {gap} that is
      prime|to {v}, {?sum}what do all the primes[ whose last digit is {end}] add up to|to {v}, how many primes are
      there[ whose last digit is {end}]]?
    - Which number is [{?after}the next prime bigger than {u}|{?gap}the count of primes n in the range {u} to {v} with
      n + {gap} prime|{?sum}the sum of primes[ that have {end} as last digit] in the range {u} to {v}|the count of
      primes[ that have {end} as last digit] in the range {u} to {v}]?
    - Lamps are numbered without a gap, and the first has the number {u}. [{?after}Which is the first prime on the lamps
      after it|The last one has {v}. {?gap}How many lamps have a prime n such that n + {gap} is prime|The last one has
      {v}. {?sum}What is the sum of the prime numbers[ ending in {end}] on them|The last one has {v}. How many have a
      prime[ ending in {end}]]?
    """,
    held="""
    - {p} <walks|goes> from house {u} [{?after}to higher numbers and stops at a prime. Where is that?|to house {v}.
      {?gap}At how many is the number n prime and n + {gap} as well?|to house {v}. {?sum}Give the total of the prime
      house numbers[ with {end} at the end].|to house {v}. Give the count of prime house numbers[ with {end} at the
      end].]
    - [{?after}State the least prime exceeding {u}|{?gap}Of the primes n between {u} and {v}, both included, state how
      many give a prime n + {gap}|{?sum}Of the primes between {u} and {v}, both included, state the sum[ of those with
      final digit {end}]|Of the primes between {u} and {v}, both included, state how many there are[ with final digit
      {end}]].
    """,
)
def primes(r: Random, level: int) -> Draft:
    """Primes in a range: how many, their sum, the next one, and pairs of them."""
    asked = "after" if level == 1 else "gap" if level == 5 else r.choice(("count", "sum"))
    u = r.randint(2, 900)
    v = u + r.randint(10, 20 + 20 * level)
    end = r.choice((1, 3, 7, 9)) if level == 4 else None
    gap = r.choice((2, 4, 6, 8, 10)) if asked == "gap" else None
    prime = "all({0} % d for d in range(2, {0}))".format
    known = [n for n in range(max(u, 2), v + 1) if _is_prime(n) and (not end or n % 10 == end)]
    match asked:
        case "after":
            v = u
            steps = [(f"above {u}", f"x = {u} + 1"), ("up to a prime", f"while not {prime('x')}:\n    x = x + 1")]
            answer = next(n for n in count(u + 1) if _is_prime(n))
        case "gap":
            steps = [
                (f"primes from {u} to {v}", f"p = [n for n in range({u}, {v} + 1) if {prime('n')}]"),
                (f"add {gap}", f"p = [n + {gap} for n in p]"),
                ("those that are prime", f"p = [n for n in p if {prime('n')}]"),
                ("how many", "x = len(p)"),
            ]
            answer = sum(1 for n in known if _is_prime(n + (gap or 0)))
        case _:
            steps = [(f"primes from {u} to {v}", f"p = [n for n in range({u}, {v} + 1) if {prime('n')}]")]
            steps += [(f"ending in {end}", f"p = [n for n in p if n % 10 == {end}]")] if end else []
            name, comment = ("sum", "sum") if asked == "sum" else ("len", "how many")
            steps.append((comment, f"x = {name}(p)"))
            answer = sum(known) if asked == "sum" else len(known)
    if answer == 0:
        raise RejectedError
    return Draft(
        fields={
            "p": people(r, 1)[0], "u": u, "v": None if asked == "after" else v, "end": end, "gap": gap,
            "sum": True if asked == "sum" else None, "after": True if asked == "after" else None,
        },
        steps=steps,
        answer=answer,
        numbers=(asked, u, v, end, gap),
    )  # fmt: skip


@family(
    "number",
    trained="""
    - What is the smallest number [above {low} ]that leaves {rests}?
    - <Find|Compute> the smallest whole number [greater than {low} ]which leaves {rests}.
    - A number [larger than {low} ]leaves {rests}. What is the smallest it can be?
    - {p} thinks of a number [above {low} ]that leaves {rests}. Which is the smallest such number?
    - {p} has [more than {low} ]{item:s}: {rows}. What is the smallest number of {item:s} {p:he} can have?
    - Some <children|soldiers>[, more than {low},] stand in a field: {rows}. What is the smallest possible number of
      them?
    """,
    held="""
    - Which is the first whole number[ after {low}], such that it leaves {rests}?
    - A basket has eggs[, at least {low} and one more]: {rows}. Name the least count of eggs that is possible.
    """,
)
def remainders(r: Random, level: int) -> Draft:
    """The smallest number with given remainders."""
    size = (1, 2, 2, 3, 3)[level - 1]
    by = r.sample(range(3, 8 + 4 * level), size)
    rests = [r.randint(1, b - 1) for b in by]
    low = r.randint(10, 300) if level in (1, 3, 5) else None
    limit = (low or 0) + prod(by)
    first = (low or 0) + 1 + (rests[0] - (low or 0) - 1) % by[0]
    found = [n for n in range(first, limit + 1, by[0]) if [n % b for b in by] == rests]
    if not found or found[0] <= max(rests) or limit > 9999:
        raise RejectedError
    steps = [("numbers to try", f"d = range({f'{low} + 1' if low else 1}, 10000)")]
    for b, rest in zip(by, rests, strict=True):
        steps.append((f"remainder {rest} by {b}", f"d = [n for n in d if n % {b} == {rest}]"))
    steps.append(("the smallest", "x = d[0]"))
    return Draft(
        fields={
            "p": people(r, 1)[0], "item": things(r, 1, SMALL)[0], "low": low,
            "rests": joined([f"remainder {rest} when divided by {b}" for b, rest in zip(by, rests, strict=True)]),
            "rows": joined([f"in rows of {b}, {rest} {'is' if rest == 1 else 'are'} left over"
                            for b, rest in zip(by, rests, strict=True)]),
        },
        steps=steps,
        answer=found[0],
        numbers=(*zip(by, rests, strict=True), low),
    )  # fmt: skip


FAMILIES: tuple[Family, ...] = (gcd_lcm, divisors, power_mod, digits, primes, remainders)
