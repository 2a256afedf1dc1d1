"""Mental arithmetic: `FAMILIES`. Templates and drafts: see `rstar.tiny.worded`.

The comments of a solution hold every result, so these problems teach a small model the sums and products that the
solutions of the search families rest on, ten to a problem where those have one in every fifty tokens.
"""

from __future__ import annotations

from operator import add, floordiv, mul, sub
from random import Random

from rstar.tiny.family import Family
from rstar.tiny.worded import Draft, family
from rstar.tiny.words import joined, people

Fact = tuple[int, str, int]

OPERATORS = {"+": add, "-": sub, "*": mul, "/": floordiv}
LEVELS = ((2, 3, 10, 5), (2, 4, 30, 8), (3, 3, 60, 12), (3, 4, 99, 20), (3, 4, 200, 25))
"""Steps, results of a step, the largest number of a sum or difference, and the largest factor."""
LARGEST_PRODUCT = 400


def _fact(r: Random, most: int, factor: int) -> Fact:
    """Two numbers and a sign whose result is a positive whole number."""
    sign = r.choice("+++---*/")
    if sign in "+-":
        a, b = r.randint(2, most), r.randint(1, most)
        return (a, sign, b) if sign == "+" or a > b else (a + b, sign, b)
    a = r.randint(2, factor)
    b = r.randint(2, max(2, min(factor, LARGEST_PRODUCT // a)))
    return (a, sign, b) if sign == "*" else (a * b, sign, b)


@family(
    "number",
    trained="""
    - Work out {facts}.
    - <Find|Compute|Calculate> {list}. <List the results.|Give the results as a list.>
    - {p} has to calculate {list}. What are the results, in order?
    - <What are|How much are> {list}?
    - A test asks for {facts}. Write down the answers as a list.
    - On {p:his} cards {p} reads {list}. List what they come to.
    """,
    held="""
    - Evaluate each of {facts} and list the values.
    - {p} types {list} into a calculator, one after the other. Which numbers does it show?
    """,
)
def sums(r: Random, level: int) -> Draft:
    """Several sums, differences, products and quotients, worked out one after another."""
    groups, size, most, factor = LEVELS[level - 1]
    facts = [_fact(r, most, factor) for _ in range(groups * size)]
    texts = [f"{a} {sign} {b}" for a, sign, b in facts]
    results = [OPERATORS[sign](a, b) for a, sign, b in facts]
    steps, names = [], "xyz"[:groups]
    for name, start in zip(names, range(0, len(facts), size), strict=True):
        part = slice(start, start + size)
        worked = ", ".join(f"{text} = {result}" for text, result in zip(texts[part], results[part], strict=True))
        code = ", ".join(texts[part]).replace("/", "//")  # in the comment it is a mathematician's sign
        steps.append((worked, f"{name} = [{code}]\nassert {name} == {results[part]}"))
    (p,) = people(r, 1)
    return Draft(
        fields={"p": p, "facts": ", ".join(texts), "list": joined(texts)},
        steps=steps,
        show=" + ".join(names),
        answer=results,
        numbers=tuple(facts),
    )


FAMILIES: tuple[Family, ...] = (sums,)
