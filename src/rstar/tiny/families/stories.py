"""Word problems told as a chain of events or of comparisons between people: `FAMILIES`.

The sentences come from the settings of a `rstar.tiny.templates.Story`; a held-out setting is a held-out template.
"""

from __future__ import annotations

from itertools import pairwise
from random import Random

from rstar.tiny.family import Family, RejectedError
from rstar.tiny.templates import Draft, Story, family, read_settings
from rstar.tiny.words import ANIMALS, TOWNS, people, things

_EVENTS = read_settings("inventory")
_PARTS = {2: "half", 3: "third", 4: "quarter", 5: "fifth"}


@family("word")
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


_RELATIONS = read_settings("compare")


@family("word")
def compare(r: Random, level: int) -> Draft:
    """Several people, each with more, fewer or several times as many as the one before."""
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
