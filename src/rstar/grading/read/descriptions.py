r"""Sets of numbers in words: "all real x except 2", "every odd positive integer", "n is even", "n is a multiple of 7".

Real numbers become a set by a condition, and integers a family. Other numbers ("all odd primes") remain words, with
their adjectives in one order. "All x > 0" are real numbers, but "all n > 0" may be integers: not read.
"""

from __future__ import annotations

import re
from fractions import Fraction

from rstar.grading.compare.exact import value_of
from rstar.grading.read.lexer import UnreadableError
from rstar.grading.read.nodes import Apply, Group, Node, Number, Relation, Symbol, Text, names_of
from rstar.grading.read.parser import parse

MAX_LENGTH = 200
_UPRIGHT = re.compile(r"\\(?:text[a-z]*|mathrm|mbox) ?\{([^{}]*)\}")
KEY = re.compile(
    r"\b(?:[Aa]ll|[Ee]very|[Aa]ny|[Ee]ach|even|odd|multiple|divisible|remainder|congruent)\b|mathbb\{[ZN]\}[_^]"
)
"""A word without which nothing is described."""
_SIGN_OF = {"positive": ">", "negative": "<", "nonnegative": "≥", "nonpositive": "≤", "nonzero": "≠"}
_ADJECTIVES = (
    "real|positive|negative|non-?negative|non-?positive|non-?zero|odd|even|prime|composite|natural|whole|rational"
    "|irrational|possible"
)
DESCRIPTION = (
    rf"(?:the )?(?:set of )?(?:all|every|any|each)(?: of)?(?: the)? (?P<adjectives>(?:(?:{_ADJECTIVES}) )*)"
    r"(?P<noun>integers?|numbers?|reals?|primes?|composites?|values of|multiples? of \$?(?P<multiple>\d{1,6})\$?"
    r"|(?=\$?[a-z](?![A-Za-z])))"
)
"""The beginning of a description up to its noun, which may be only a letter."""
_DESCRIPTION = re.compile(rf"{DESCRIPTION} ?(?P<letter>[a-z](?![A-Za-z]))?(?P<rest>.*)")
_NUMBER = r"-?(?:\d+(?:\.\d+)?(?:/\d+)?|\\frac ?\{\d+\} ?\{\d+\})"
_BETWEEN = re.compile(rf"\bbetween ({_NUMBER}) and ({_NUMBER}),? \(?(inclusive|exclusive)\)?")
_COMPARISONS = {
    ">=": "greater than or equal to|at least|no less than",
    "<=": "less than or equal to|at most|no more than",
    ">": "greater than|more than|larger than|above",
    "<": "less than|smaller than|below",
}
_COMPARED = [(sign, re.compile(rf"\b(?:{words}) ({_NUMBER})(?![\w.])")) for sign, words in _COMPARISONS.items()]
_EXCEPT = re.compile(
    r",? ?(?:but )?\b(?:except|other than|excluding|not equal to|different from|but(?= -?\d))\b(?: for)? ?"
)
_SEPARATOR = re.compile(
    r"\b(?:and|but|such that|with|where|for which|(?:that )?satisf(?:y|ies|ying)|(?:that|which) (?:are|is))\b|,"
)
_RELATION_SIGN = re.compile(r" ?(?:[<>≤≥≠]|\\(?:[gl]eq?|[gl]t|neq?)(?![a-z]))")
_POSITIVE = re.compile(r"\\mathbb\{(?:Z\}[_^](?:\{ ?(?:\+|> ?0) ?\}|\+)|N\}[_^](?:\{ ?(?:\+|\*|> ?0) ?\}|[+*]))")
_WORD = re.compile(r"(?<![\\A-Za-z])[A-Za-z]{2,}")
_INTEGER_LETTERS = frozenset("ijklmnpq")
_IS = r"(?P<letter>[a-eh-z]) (?:(?:is|must be) )?"
_FAMILIES = [
    re.compile(pattern)
    for pattern in (
        rf"{_IS}(?:an )?(?P<parity>even|odd)(?: (?:integer|number))?",
        rf"{_IS}(?:an? )?(?:integer )?(?:multiple of|divisible by) (?P<period>\d{{1,6}})",
        r"(?:(?P<letter>[a-eh-z])|all integers that) (?:leaves?|ha(?:s|ve)|gives?) (?:an? )?remainder (?:of )?"
        r"(?P<rest>\d{1,6}) (?:(?:when|on|upon|after|if) )?(?:divided|division) by (?P<period>\d{1,6})",
        rf"(?:{_IS}|all (?:integers|numbers) (?:that are )?)congruent to (?P<rest>\d{{1,6}}) (?:mod|modulo)"
        r" (?P<period>\d{1,6})",
    )
]
_K = Symbol("k")


def described_set(form: str) -> Node | None:
    """The set of numbers that a normal form describes in words; None for any other form."""
    if not (" " in form or "mathbb" in form) or len(form) > MAX_LENGTH or KEY.search(form) is None:
        return None
    text = re.sub(r"\s+", " ", _UPRIGHT.sub(r" \1 ", form)).strip(" .,")
    if _POSITIVE.fullmatch(text) is not None:
        text = "all positive integers"
    for pattern in _FAMILIES:
        if (family := pattern.fullmatch(text)) is not None:
            return _family(family.groupdict())
    match = _DESCRIPTION.fullmatch(text[:1].lower() + text[1:])
    try:
        return None if match is None else _set_of(match)
    except (UnreadableError, RecursionError):
        return None


def _family(parts: dict[str, str | None]) -> Node | None:
    """The integers of "n is even" and of "n leaves a remainder of 2 when divided by 5"."""
    period = int(parts.get("period") or 2)
    rest = int(parts.get("rest") or (parts.get("parity") == "odd"))
    if not rest < period:
        return None
    values = _residues(period, rest)
    named = values if parts["letter"] is None else Relation((Symbol(parts["letter"]), values), ("=",))
    return Group("given", (named, Relation((_K, Symbol("ℤ")), ("∈",))))


def _residues(period: int, rest: int) -> Node:
    multiple = Apply("*", (Number(Fraction(period), 0), _K))
    return Apply("+", (multiple, Number(Fraction(rest), 0))) if rest else multiple


def _set_of(match: re.Match[str]) -> Node | None:
    adjectives = set(match["adjectives"].replace("non-", "non").split()) - {"possible"}
    noun = match["noun"].split(" ")[0].removesuffix("s")
    letter = Symbol(match["letter"] or ("n" if noun in ("integer", "multiple") else "x"))
    rest = _in_symbols(match["rest"], letter.name)
    if _RELATION_SIGN.match(rest):
        rest = letter.name + rest
    is_integer = noun in ("integer", "multiple")
    is_real = "real" in adjectives or noun == "real"
    is_real |= letter.name not in _INTEGER_LETTERS and adjectives <= set(_SIGN_OF)
    if not is_integer and not (is_real and noun in ("real", "value", "number", "")):
        return _in_words(adjectives, noun, letter, rest)
    signs = [_SIGN_OF[name] for name in sorted(adjectives & set(_SIGN_OF))]
    conditions = _conditions(rest, letter)
    if conditions is None:
        return None
    conditions = [Relation((letter, Number(Fraction(0), 0)), (sign,)) for sign in signs] + conditions
    others = adjectives - set(_SIGN_OF)
    if is_integer:
        if others <= {"even", "odd"} and len(others) + (noun == "multiple") <= 1:
            period = int(match["multiple"] or (2 if others else 1))
            return _integers(letter, period, int("odd" in others), conditions)
        return _in_words(adjectives, noun, letter, rest)
    if others - {"real"}:
        return None
    if not conditions:
        return Symbol("ℝ")
    return Group("described", (letter, conditions[0] if len(conditions) == 1 else Group("both", tuple(conditions))))


def _in_words(adjectives: set[str], noun: str, letter: Symbol, rest: str) -> Text | None:
    """Other numbers as words: "all odd prime numbers" are "all odd primes"; None if a condition is in words."""
    if noun in ("prime", "composite"):
        adjectives = adjectives | {noun}
    if not adjectives or _WORD.search(rest):
        return None
    kind = "" if adjectives & {"prime", "composite", "natural", "whole"} else noun
    condition = re.sub(rf"(?<![\\A-Za-z]){letter.name}(?![A-Za-z])", "#", rest).replace(" ", "").strip(",")
    return Text(f"all {' '.join(sorted(adjectives))} {kind} {condition}".strip())


def _integers(letter: Symbol, period: int, rest: int, conditions: list[Relation]) -> Node | None:
    """The integers with a remainder that fulfil conditions, as a family."""
    if period == 1 and not conditions:
        return Symbol("ℤ")
    if period == 1:
        return Group("given", (letter, Relation((letter, Symbol("ℤ")), ("∈",)), *conditions))
    found = []
    for condition in conditions:
        values = [None if side == letter else value_of(side) for side in condition.sides]
        if [value is None for value in values] != [side == letter for side in condition.sides]:
            return None
        sides = (_K if value is None else Number((value - rest) / period) for value in values)
        found.append(Relation(tuple(sides), condition.signs))
    return Group("given", (_residues(period, rest), Relation((_K, Symbol("ℤ")), ("∈",)), *found))


def _in_symbols(rest: str, name: str) -> str:
    """Write " greater than 5" and " between 1 and 4, inclusive" in symbols."""

    def between(match: re.Match[str]) -> str:
        sign = "<=" if match[3] == "inclusive" else "<"
        return f",{match[1]}{sign}{name}{sign}{match[2]},"

    rest = _BETWEEN.sub(between, rest)
    for sign, pattern in _COMPARED:
        rest = pattern.sub(rf",{name}{sign}\g<1>,", rest)
    return rest


def _conditions(rest: str, letter: Symbol) -> list[Relation] | None:
    """The conditions after the noun: " with x > 0, except 3", " greater than 5"; None if one cannot be read."""
    before, *points = _EXCEPT.split(rest)
    found = []
    for point in re.split(r"\band\b|\bor\b|,", points[0]) if points else ():
        value = parse(re.sub(rf"^ ?{letter.name} ?=", "", point).strip())
        if names_of(value) or not isinstance(value, Number | Apply):
            return None
        found.append(Relation((letter, value), ("≠",)))
    for part in filter(str.strip, _SEPARATOR.split(before)):
        relation = None if _WORD.search(part) else parse(part.strip())
        if not isinstance(relation, Relation) or names_of(relation) != {letter.name}:
            return None
        if not set(relation.signs) <= {"<", "≤", ">", "≥", "≠"}:
            return None
        found.append(relation)
    return found if len(points) <= 1 else None
