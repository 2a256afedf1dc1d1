"""Plain calculations, in symbols and in words: `FAMILIES`. Templates and drafts: see `rstar.tiny.templates`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from random import Random
from typing import Literal

from rstar.tiny.family import Family, RejectedError
from rstar.tiny.templates import Draft, family
from rstar.tiny.words import joined, people

Operation = Literal["plus", "minus", "times", "over", "square"]
LARGEST = 10**7
LOAD = "from fractions import Fraction\n"
SAID: dict[Operation, tuple[str, str, str]] = {
    "plus": ("add {}", "adds {}", "adding {}"),
    "minus": ("subtract {}", "subtracts {}", "subtracting {}"),
    "times": ("multiply by {}", "multiplies by {}", "multiplying by {}"),
    "over": ("divide by {}", "divides by {}", "dividing by {}"),
    "square": ("square the result", "squares the result", "squaring the result"),
}
CODE: dict[Operation, str] = {
    "plus": "x = x + {0}", "minus": "x = x - {0}", "times": "x = x * {0}", "over": "assert x % {0} == 0\nx = x // {0}",
    "square": "x = x ** 2",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Moves:
    """Operations on a number, one after the other, put into words: ``{moves:do}``, ``does`` or ``doing``."""

    moves: Sequence[tuple[Operation, int]]

    def __format__(self, spec: str) -> str:
        form = ("do", "does", "doing").index(spec)
        return joined([SAID[name][form].format(n) for name, n in self.moves])


def _apply(value: Fraction, name: Operation, n: int) -> Fraction:
    match name:
        case "plus":
            return value + n
        case "minus":
            return value - n
        case "times":
            return value * n
        case "over":
            return value / n
        case "square":
            return value * value


def _pair(r: Random) -> Draft:
    """Level 1: one operation."""
    name: Operation = r.choice(("plus", "minus", "times", "times", "over", "over", "square"))
    part = r.choice(("half", "double", None, None, None, None))
    a, b = r.randint(2, r.choice((20, 99, 999, 9999))), r.randint(2, r.choice((12, 99, 999)))
    if part:
        name, b = ("over", 2) if part == "half" else ("times", 2)
    if name == "over" and r.random() < 0.6:
        a *= b
    answer = _apply(Fraction(a), name, b)
    if answer == 0 or abs(answer) > LARGEST:
        raise RejectedError
    comment, code, symbol = {
        "plus": (f"{a} plus {b}", f"x = {a} + {b}", "+"),
        "minus": (f"{a} minus {b}", f"x = {a} - {b}", "-"),
        "times": (f"{a} times {b}", f"x = {a} * {b}", r.choice("**×·")),
        "over": (f"{a} over {b}", f"{LOAD}x = Fraction({a}, {b})", r.choice("//÷")),
        "square": (f"{a} squared", f"x = {a} ** 2", ""),
    }[name]
    space = r.choice((" ", " ", ""))
    return Draft(
        fields={
            "p": people(r, 1)[0], "a": a, "b": b, part or name: True,
            "expression": f"{a}{space}{symbol}{space}{b}" if symbol else r.choice((f"{a}²", f"{a}^2")),
        },
        steps=[(comment, code)],
        answer=answer,
        numbers=(name, a, b),
    )  # fmt: skip


def _expression(r: Random, level: int) -> Draft:
    """Levels 2 and 3: an expression in symbols; in level 3, with a bracket or a power."""
    values = [r.randint(2, r.choice((12, 50, 99, 300))) for _ in range(r.choice((3, 3, 4)))]
    signs = [r.choice("+-*") for _ in values[1:]]
    texts, at = [str(value) for value in values], r.randrange(len(signs))
    if level == 3 and r.random() < 0.3:
        power = r.choice((2, 2, 2, 3, 4))
        texts[at] += f" ** {power}"
        values[at] **= power
    elif level == 3:
        texts[at], texts[at + 1] = f"({texts[at]}", f"{texts[at + 1]})"
        values[at : at + 2] = [_value(values[at : at + 2], signs[at : at + 1])]
    code = " ".join(part for pair in zip(texts, [*signs, ""], strict=True) for part in pair).strip()
    answer = _value(values, signs[:at] + signs[at + 1 :] if len(values) < len(texts) else signs)
    if answer == 0 or abs(answer) > LARGEST or (level == 3 and "*" not in signs):
        raise RejectedError
    shown = code.replace(" ** ", "^").replace(" ", r.choice((" ", " ", ""))).replace("*", r.choice("**×·"))
    steps = [("the expression", f"x = {code}")]
    return Draft({"p": people(r, 1)[0], "expression": shown}, steps, answer, ("expression", code))


def _value(values: Sequence[int], signs: Sequence[str]) -> int:
    """Value of ``values[0] signs[0] values[1] …``: products first, then sums and differences."""
    terms = [values[0]]
    for sign, value in zip(signs, values[1:], strict=True):
        if sign == "*":
            terms[-1] *= value
        else:
            terms.append(-value if sign == "-" else value)
    return sum(terms)


def _chain(r: Random, level: int) -> Draft:
    """Levels 4 and 5: operations in words, one after the other."""
    start = r.randint(2, 60)
    value, moves = Fraction(start), list[tuple[Operation, int]]()
    for _ in range(r.choice((2, 3)) if level == 4 else r.choice((4, 5))):
        last = moves[-1][0] if moves else "over"
        name: Operation = r.choice([name for name in SAID if name != last and (moves or name != "square")])
        n = r.randint(2, 12 if name == "times" else 90)
        if name == "over":
            n = r.choice([n for n in range(2, 20) if value % n == 0] or [0])
        if n == 0 or (name == "square" and abs(value) > 30):
            raise RejectedError
        value = _apply(value, name, n)
        moves.append((name, n))
    if value <= 0 or value > LARGEST:
        raise RejectedError
    steps = [(f"start with {start}", f"x = {start}")]
    steps += [(SAID[name][0].format(n), CODE[name].format(n)) for name, n in moves]
    return Draft({"p": people(r, 1)[0], "a": start, "moves": Moves(moves)}, steps, value, (start, *moves))


@family("number")
def calculate(r: Random, level: int) -> Draft:
    """Plain calculations: sums, products, quotients and powers, in symbols and in words."""
    return _pair(r) if level == 1 else _expression(r, level) if level <= 3 else _chain(r, level)


FAMILIES: tuple[Family, ...] = (calculate,)
