"""Answers in plain words: "twenty-one", "five twelfths", "no solution", "all real numbers"."""

from __future__ import annotations

from fractions import Fraction

from rstar.grading.read.nodes import Group, Node, Number, Quantity, Symbol, Text
from rstar.grading.read.units import is_known, unit_of
from rstar.grading.read.vocabulary import CARDINALS, DENOMINATORS

_LARGE = {"thousand": 10**3, "million": 10**6, "billion": 10**9}
_EMPTY_SET = (
    "no solution",
    "no solutions",
    "no real solution",
    "no real solutions",
    "empty set",
    "there is no solution",
)
_ALL_REALS = ("all real numbers", "all reals", "any real number", "every real number", "set of all real numbers")
_PHRASES: dict[str, Node] = {
    **dict.fromkeys(_EMPTY_SET, Group("set", ())),
    **dict.fromkeys(_ALL_REALS, Symbol("ℝ")),
    **dict.fromkeys(("infinitely many solutions", "infinite number of solutions"), Text("infinitely many")),
    "dne": Text("does not exist"),
    "undefined": Text("does not exist"),
}


def value_of_words(words: str) -> Node | None:
    """The mathematical meaning of lower-case words without punctuation and articles; None if they have none."""
    if words in _PHRASES:
        return _PHRASES[words]
    parts = words.split()
    value = number_in_words(parts)
    if value is not None:
        return Number(value)
    if parts[-2:-1] == ["of"] and is_known(parts[-1]):  # three quarters of an hour
        parts = [*parts[:-2], parts[-1]]
    unit, counted = (unit_of(parts[-1]), number_in_words(parts[:-1])) if len(parts) > 1 else (None, None)
    return None if unit is None or counted is None else Quantity(Number(counted), unit)


def number_in_words(words: list[str]) -> Fraction | None:
    """The value of a number in words, up to the billions, or of a simple fraction."""
    if words[:1] in (["minus"], ["negative"]):
        value = number_in_words(words[1:])
        return None if value is None else -value
    if "and" in words:  # three and a half; one hundred and five
        place = len(words) - 1 - words[::-1].index("and")
        before, part = _whole(words[:place]), number_in_words(words[place + 1 :])
        if before is None or part is None or part >= 100:
            return None
        return before + part if part < 1 or before % 100 == 0 else None
    denominator = DENOMINATORS.get(words[-1].removesuffix("s") if words else "")
    if denominator is not None:
        top = 1 if len(words) == 1 else _whole(words[:-1])
        return None if top is None else Fraction(top, denominator)
    whole = _whole(words)
    return None if whole is None else Fraction(whole)


def _whole(words: list[str]) -> int | None:
    """The value of an integer in words; None if their order is invalid."""
    if not words:
        return None
    total, group, limit = 0, 0, 10**12  # `limit`: the next scale must be smaller
    for word in words:
        if word in CARDINALS:
            value = CARDINALS[word]
            if not _fits(group, value):
                return None
            group += value
        elif word == "hundred" and group < 100:
            group = 100 * (group or 1)
        elif word in _LARGE and group and _LARGE[word] < limit:
            limit = _LARGE[word]
            total, group = total + group * limit, 0
        else:
            return None
    return total + group


def _fits(group: int, value: int) -> bool:
    """Whether a number may come next in a group: nothing after units, units after tens, anything after hundreds."""
    rest = group % 100
    if rest == 0:
        return value > 0 or group == 0
    return rest >= 20 and rest % 10 == 0 and 0 < value < 10
