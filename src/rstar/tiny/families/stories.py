"""Word problems told as a chain of events or of comparisons between people: `FAMILIES`.

The sentences come from the tables of a setting (`rstar.tiny.templates.Story`); a held-out setting is a held-out
template.
"""

from __future__ import annotations

from itertools import pairwise
from random import Random

from rstar.tiny.family import Family, RejectedError
from rstar.tiny.templates import Draft, Story, family
from rstar.tiny.words import ANIMALS, TOWNS, people, things

_EVENTS = {
    "shop": {
        "start": "A <shop|store|market stall> <starts the day with|has> {n} {item:s}.",
        "+": "<A delivery of {n} arrives.|Then {n} more are delivered.|{n} are put back on the shelf.>",
        "-": "<{n} are sold.|Customers buy {n}.|{n} of them are stolen.>",
        "*": "<Then the stock grows to {n} times as many.|New orders make the number {n} times as large.>",
        "/": "<Then only one {part} of them remain.>",
        "end": "<How many {item:s} does the shop have now?|How many {item:s} are in stock at the end?>",
    },
    "own": {
        "start": "{p} <has|owns|starts with> {n} {item:s}.",
        "+": "<{p:He} buys {n} more.|{q} gives {p:him} {n}.|{p:He} finds {n} {item:s}.|Then {p:he} wins {n}.>",
        "-": "<{p:He} gives {n} to {q}.|{p:He} loses {n}.|{p:He} sells {n} of them.|Then {n} {item:s} break.>",
        "*": "<After a year {p:he} has {n} times as many.|Then {p:his} collection grows to {n} times its size.>",
        "/": "<{p:He} keeps only one {part} of them.|After that {p:he} has just one {part} of what {p:he} had.>",
        "end": "How many {item:s} does {p} have <now|in the end>?",
    },
    "bus": {
        "start": "A <bus|train|boat> leaves {town} with {n} <passengers|people> on board.",
        "+": "<At the next stop {n} people get on.|Then {n} more come on board.>",
        "-": "<At the next stop {n} people get off.|Then {n} leave.>",
        "*": "<At the main station the number becomes {n} times as large.|Soon there are {n} times as many people.>",
        "/": "<At a big stop only one {part} of them do not get off.|Then only one {part} of them stay on.>",
        "end": "<How many people are on board now?|How many people are left on it?>",
    },
    "game": {
        "start": "In a <card|board|computer> game {p} has {n} points.",
        "+": "<{p:He} <gets|wins|scores> {n} points.|A bonus brings {n} more.>",
        "-": "<{p:He} loses {n} points.|A mistake costs {p:him} {n}.>",
        "*": "<A lucky card gives {p:him} {n} times as many points.|Now {p:his} score is multiplied by {n}.>",
        "/": "<{p:He} falls to one {part} of {p:his} points.|Bad luck leaves {p:him} one {part} of the points.>",
        "end": "What is {p:his} score <now|at the end>?",
    },
    "farm": {
        "start": "There are {n} {animal:s} on {p}'s farm.",
        "+": "<{n} more are born.|{p} buys another {n}.|{n} come from {q}'s farm.>",
        "-": "<{n} run away.|{p} sells {n}.|{n} move to {q}'s farm.>",
        "*": "<Some years later there are {n} times as many.|Over time they become {n} times as many.>",
        "/": "<After a sale one {part} of them are left.|Only one {part} of them stay with {p}.>",
        "end": "How many {animal:s} are there <now|on the farm in the end>?",
    },
    "library": {
        "start": "A <library|school> has {n} books in one room.",
        "+": "<{n} books are returned.|Then {n} new ones come.>",
        "-": "<{n} books are taken out.|Then {n} are lent to readers.>",
        "*": "<After a gift there are {n} times as many.|A new wing makes the number {n} times as large.>",
        "/": "<Only one {part} of them are kept there.>",
        "end": "How many books are in the room <now|after that>?",
    },
    "tank": {
        "start": "A <tank|barrel> <holds|contains> {n} litres of water.",
        "+": "<Rain adds {n} litres.|{p} pours in {n} litres.>",
        "-": "<{n} litres leak out.|{p} takes {n} litres for the garden.>",
        "*": "<A storm makes it {n} times as much.|Pumping gives {n} times as much water.>",
        "/": "<In summer it falls to one {part}.>",
        "end": "How many litres are in it <now|at last>?",
    },
    "account": {
        "start": "{p}'s account shows a balance of ${n}.",
        "+": "<A deposit of ${n} is made.|${n} comes in.>",
        "-": "<A bill of ${n} is paid.|${n} goes out.>",
        "*": "<A prize makes the balance {n} times as large.|Then it grows to {n} times that.>",
        "/": "<After a bad month one {part} of it remains.>",
        "end": "What is the balance <now|after all this>, in dollars?",
    },
}
_PARTS = {2: "half", 3: "third", 4: "quarter", 5: "fifth"}


@family(
    "word",
    trained="""
    - {story:shop}
    - {story:own}
    - [{d} <people|friends> play together.] {story:game}
    - [It is {d} km to the next town.] {story:bus}
    - [{p}'s farm also has {d} trees.] {story:farm}
    - [The building is {d} years old.] {story:library}
    """,
    held="""
    - [It is {d} degrees outside.] {story:tank}
    - [The bank is {d} km away.] {story:account}
    """,
    stories=_EVENTS,
)
def inventory(r: Random, level: int) -> Draft:
    """A number that changes in several events."""
    first = n = r.randint(10, 30 + 20 * level)
    p, q = people(r, 2)
    words = {"p": p, "q": q, "item": things(r, 1)[0], "animal": r.choice(ANIMALS), "town": r.choice(TOWNS)}
    moves: list[tuple[str, int]] = []
    for _ in range((1, 2, 3, 4, 5)[level - 1]):
        op = r.choice("+-" if level <= 2 or (moves and moves[-1][0] in "*/") else "++--*/")
        by = r.randint(2, 5) if op == "*" else r.randint(2, 15 + 10 * level)
        if op == "/":
            by = next((k for k in r.sample(sorted(_PARTS), 4) if n % k == 0), n)
        n = {"+": n + by, "-": n - by, "*": n * by, "/": n // by}[op]
        if not 2 <= n <= 2000:
            raise RejectedError
        moves.append((op, by))
    told = [("start", first), *moves, ("end", None)]
    steps = []
    for at, (op, by) in enumerate(moves):
        comment = {"+": f"{by} more", "-": f"{by} less", "*": f"{by} times", "/": f"one {_PARTS.get(by)}"}
        steps.append((comment[op], f"n = {'n' if at else first} {'//' if op == '/' else op} {by}"))
    return Draft(
        fields={
            "p": p,
            "d": r.randint(2, 40) if level >= 4 else None,
            "story": Story(_EVENTS, [(op, words | {"n": k, "part": _PARTS.get(k or 0)}) for op, k in told], r),
        },
        steps=steps,
        show="n",
        answer=n,
        numbers=(first, *moves),
    )


_RELATIONS = {
    "have": {
        "start": "{p} has {n} {item:s}.",
        "+": "{q} has {n} more {item:s} than {p}.",
        "-": "{q} has {n} fewer {item:s} than {p}.",
        "*": "{q} has {n} times as many {item:s} as {p}.",
        "r+": "{p} has {n} more {item:s} than {q}.",
        "r*": "{p} has {n} times as many {item:s} as {q}.",
        "last": "How many {item:s} does {q} have?",
        "total": "How many {item:s} do <they|all of them> have together?",
    },
    "score": {
        "start": "In a <game|quiz> {p} <gets|scores> {n} points.",
        "+": "{q} scores {n} points more than {p}.",
        "-": "{q} scores {n} points less than {p}.",
        "*": "{q} scores {n} times as many points as {p}.",
        "r+": "{p}'s score is {n} points higher than {q}'s.",
        "r*": "{p}'s score is {n} times {q}'s score.",
        "last": "What is {q}'s score?",
        "total": "What is their total score?",
    },
    "read": {
        "start": "{p} <reads|read> {n} pages <this week|on Sunday>.",
        "+": "{q} reads {n} pages more than {p}.",
        "-": "{q} reads {n} pages fewer than {p}.",
        "*": "{q} reads {n} times as many pages as {p}.",
        "r+": "{p} reads {n} pages more than {q}.",
        "r*": "{p} reads {n} times as much as {q}.",
        "last": "How many pages does {q} read?",
        "total": "How many pages is that <in all|altogether>?",
    },
    "pick": {
        "start": "{p} <picks|collects> {n} {item:s}.",
        "+": "{q} adds {n} to {p}'s number for {q:his} own.",
        "-": "{q} collects {n} fewer than {p}.",
        "*": "{q}'s number is {n} times as large as {p}'s.",
        "r+": "{p}'s number is {n} more than {q}'s.",
        "r*": "{p} collects {n} times as many as {q}.",
        "last": "How many {item:s} does {q} collect?",
        "total": "How many {item:s} are collected in total?",
    },
    "walk": {
        "start": "{p} <walks|runs> {n} km in a month.",
        "+": "{q} does {n} km more than {p}.",
        "-": "{q} does {n} km less than {p}.",
        "*": "{q}'s distance is {n} times {p}'s.",
        "r+": "That is {n} km more than {q} does.",
        "r*": "That is {n} times what {q} does.",
        "last": "How far does {q} go, in km?",
        "total": "What is the sum of their distances in km?",
    },
    "save": {
        "start": "{p} has saved ${n}.",
        "+": "{q} has saved ${n} more than {p}.",
        "-": "{q} has saved ${n} less than {p}.",
        "*": "{q} has saved {n} times as much as {p}.",
        "r+": "{p} has ${n} more than {q}.",
        "r*": "{p} has {n} times as much money as {q}.",
        "last": "How many dollars does {q} have?",
        "total": "How many dollars do they have altogether?",
    },
    "weigh": {
        "start": "{p}'s bag weighs {n} kg.",
        "+": "The bag of {q} is {n} kg heavier than that of {p}.",
        "-": "The bag of {q} is {n} kg lighter than that of {p}.",
        "*": "The bag of {q} is {n} times as heavy as that of {p}.",
        "r+": "It is {n} kg heavier than the bag of {q}.",
        "r*": "It is {n} times as heavy as the bag of {q}.",
        "last": "Find the weight of {q}'s bag in kg.",
        "total": "Find the weight of all these bags in kg.",
    },
    "sell": {
        "start": "{n} {item:s} were sold by {p}.",
        "+": "{q} sold as many as {p} and {n} more.",
        "-": "If {q} had sold {n} more, it would be as many as {p} sold.",
        "*": "For each one that {p} sold, {q} sold {n}.",
        "r+": "{q} needs {n} more to catch up with {p}.",
        "r*": "For each one that {q} sold, {p} sold {n}.",
        "last": "How many did {q} sell?",
        "total": "How many were sold by all?",
    },
}


@family(
    "word",
    trained="""
    - [{x} is {d} years old.] {story:have}
    - {story:score}
    - [The book has {d} chapters.] {story:read}
    - [There are {d} trees.] {story:pick}
    - [{x} has walked for {d} years.] {story:walk}
    - {story:save}
    """,
    held="""
    - [They travel for {d} days.] {story:weigh}
    - [On a day with {d} customers this happened.] {story:sell}
    """,
    stories=_RELATIONS,
)
def compare(r: Random, level: int) -> Draft:
    """Several people, each with more, fewer or some times as many as the one before."""
    who = people(r, (2, 2, 3, 3, 4)[level - 1])
    amounts, told, steps = [r.randint(10, 30 + 30 * level)], list[tuple[str, dict[str, object]]](), []
    for p, q in pairwise(who):
        op, now = r.choice(("+", "-", "*", "r+", "r*") if level >= 3 else ("+", "-", "*")), amounts[-1]
        by = r.randint(2, 5) if "*" in op else r.randint(2, 20 + 5 * level)
        if op == "r*":
            by = next((k for k in r.sample(range(2, 7), 5) if now % k == 0), now)
        amounts.append({"+": now + by, "-": now - by, "r+": now - by, "*": now * by, "r*": now // by}[op])
        told.append((op, {"p": p, "q": q, "n": by}))
        v, w = "abc"[len(told) - 1], "bcd"[len(told) - 1]
        sign = {"+": "+", "-": "-", "*": "*", "r+": "-", "r*": "//"}[op]
        comment = {"+": f"{by} more", "-": f"{by} less", "*": f"{by} times", "//": f"divided by {by}"}[sign]
        steps.append((comment, f"{w} = {v if len(told) > 1 else amounts[0]} {sign} {by}"))
    if not all(2 <= n <= 999 for n in amounts):
        raise RejectedError
    asked = "total" if level in (2, 5) or (level > 2 and r.random() < 0.5) else "last"
    if asked == "total":
        steps.append(("all together", f"t = {amounts[0]} + {' + '.join('bcd'[: len(told)])}"))
    first: dict[str, object] = {"p": who[0], "n": amounts[0]}
    end: dict[str, object] = {"q": who[-1]}
    (item,) = things(r, 1)
    moves = [(op, {**words, "item": item}) for op, words in [("start", first), *told, (asked, end)]]
    return Draft(
        fields={"x": who[-1], "d": r.randint(5, 40) if level >= 4 else None, "story": Story(_RELATIONS, moves, r)},
        steps=steps,
        show="t" if asked == "total" else "bcd"[len(told) - 1],
        answer=sum(amounts) if asked == "total" else amounts[-1],
        numbers=(amounts[0], *((op, words["n"]) for op, words in told), asked),
    )


FAMILIES: tuple[Family, ...] = (inventory, compare)
