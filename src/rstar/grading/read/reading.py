"""The readings of an answer: as mathematics if possible, otherwise as words, times or names.

Some texts have several readings (``1,234`` is a number or a list, ``log`` is natural or decadic, ``(C) 12`` is an
option letter or its text). Two answers are equal when any two of their readings are.
"""

from __future__ import annotations

import re

from rstar.grading.compare import exact
from rstar.grading.read.descriptions import described_set
from rstar.grading.read.integrals import integral
from rstar.grading.read.lexer import TooLargeError, UnreadableError
from rstar.grading.read.named import (
    alternatives,
    is_label,
    is_word,
    named_values,
    numbered_parts,
    of_function,
    without_chains,
)
from rstar.grading.read.nodes import Apply, Group, Node, Relation, Symbol, Text, children
from rstar.grading.read.normal import words
from rstar.grading.read.number_words import value_of_words
from rstar.grading.read.parser import parse
from rstar.grading.read.times import clock_times, date, duration, time_of_day, weekday
from rstar.grading.read.vocabulary import FORMULA_WORDS
from rstar.grading.read.wordings import values_by_word

_TRIPLES = re.compile(r"(?<![\d,.])\d{3},\d{3}")
"""Either a number of many digits or a list of short ones; ``1,234`` is not a list."""
_INITIALS = re.compile(r"[A-Z]{2,}|(?![abc]{3}|[xyz]{3}|inf)[a-z]{3}|[A-Z][a-z]{2}")
"""Letters in a row that, as the whole answer, are a name, a numeral or a word rather than a product."""
_CHOICE = re.compile(
    r"(?:\(?([A-H])[).:]\)?\s+|\\text[a-z]*\{ ?([A-H])[.:)] ?\} ?|\(([A-H])\)(?![!(+\-*/^=])"
    r"|\\(?:text[a-z]*|mathbf|mathrm)\{ ?\(([A-H])\) ?\} ?)"
    r"(?!\s*(?:[,;&]|(?:\\text\{\s*)?(?:and|or)\b|\(?[A-H]\)?(?![A-Za-z])))(\S.*)",
    re.DOTALL,
)
_YES_OR_NO = re.compile(r"(?:\\text\{ ?)?(yes|no|true|false) ?[,.;:!]", re.IGNORECASE)
_ANSWERS = re.compile(r"\b(?:yes|no|true|false)\b")
_REPEATING = re.compile(r"(-?\d+\.\d*)\((\d+)\)")
_LOGARITHM = re.compile(r"log(?![_A-Za-z])")
_PLAIN_UNIT = re.compile(
    r"(?P<value>-?(?:\d[\d,]*(?:\.\d+)?(?:/\d+)?|\\frac ?\{\d+\} ?\{\d+\}))(?P<space> ?)"
    r"(?P<unit>[mgshLNJWVAK](?:/(?:s|h|min|m|kg|L))?)(?P<power>\^(?:\{-?\d\}|\d))?"
)
"""A number with a unit that is not marked up as one."""
_CALCULATED = re.compile(
    r"(?:[^=<>]+=)*(?:[-+*/^().,\d{} ]|\\(?:frac|cdot|times|div|sqrt)(?![a-z]))+= ?"
    rf"({_PLAIN_UNIT.pattern})"
)
"""A calculation in numbers whose result has a unit: ``d = vt = 3 * 4 = 12m``."""
_LETTER = re.compile(r"\(([a-h])\)")
_NUMERAL = re.compile(r"([0-9][0-9A-Za-z]*[A-Za-z][0-9A-Za-z]*)_\{?(\d{2})\}?")
_LABEL = re.compile(
    r"(?:\\text[a-z]* ?\{ ?([A-Za-z][^{}=:]{2,40}?) ?[=:]? ?\}|([A-Za-z][a-z]{2,}(?: [A-Za-z]+){0,2})) ?[:=] ?"
    r"((?:[^:=A-Za-z]|(?<=\d)[A-Za-z ]|\\[a-z]+|USD|EUR|GBP)+)"
)
_LABELLED = re.compile(
    r"([A-Z][a-z]{2,}(?: [a-z]{2,}){0,2}) ?: ?"
    r"((?:[^:A-Za-z]|(?<![A-Za-z])[A-Za-z](?![A-Za-z])|\\[A-Za-z]+|(?<![A-Za-z])(?:sin|cos|tan|ln|log|sqrt)(?![A-Za-z]))+)"
)
"""A formula with letters after a label: "Factored: (x-1)(x+1)", "Vertex: x=1, y=2"."""
_DESCRIBED = re.compile(
    r"an? ([a-z]+) (?:function|number|integer|sequence|series|matrix|triangle|angle|prime|relation|curve|permutation)"
)
_CONGRUENCE = re.compile(r"([a-z]) ?\\equiv ?(-?\d+) ?\\pmod\{(\d+)\}")
_UPRIGHT = re.compile(r"\\(?:text|mathrm) ?\{ ?(\w+) ?\}")
_PERMUTATIONS = re.compile(r"P\((\d{1,3}|[mn]), ?(\d{1,3}|[kr])\)")
_COMBINATIONS = re.compile(r"C\((\d{1,3}|[mn]), ?(\d{1,3}|[kr])\)")
_POINT = re.compile(r"[ADEKLMOPQRSTWXYZ] ?(\([^()=]*,[^()=]*\))")
_VECTOR = re.compile(
    r"\\(?:mathbf|boldsymbol|hat|vec) ?\{? ?(?:\\(?:hat|mathbf|vec) ?\{? ?)?\\?([ijk])(?:math)? ?\}{0,2}"
)
_PRODUCTS = re.compile(r"-?\d{0,4}(?:[a-z](?:\^\d)?){1,8}(?: ?[-+] ?\d{0,4}(?:[a-z](?:\^\d)?){1,8}){1,24}")
_POUNDS = re.compile(r"\bpounds?\b")
_MEANING = re.compile(r"[^\W_]")


def choice_of(form: str) -> tuple[str, str] | None:
    """Letter and text of an option that has both: ``(C) 12``."""
    match = _CHOICE.fullmatch(form)
    return None if match is None else (next(filter(None, match.groups())), match[5])


def is_name(form: str) -> bool:
    """Whether a form is letters in a row that are compared as a name: ``BAC`` is not ``ABC``."""
    return _INITIALS.fullmatch(form) is not None


def with_plain_unit(form: str) -> list[Node]:
    """A number before a letter, ``5m``, as a quantity; only for comparison with quantities."""
    match = _PLAIN_UNIT.fullmatch(form)
    return [] if match is None else [parse(_upright(match))]


def with_equal_letters(form: str) -> list[Node]:
    """``x=y=1 or x=y=-1`` as pairs; only for comparison with tuples, which fix the number of letters."""
    apart = without_chains(form) if form.count("=") > 1 else None
    return [] if apart is None else readings(apart)


def with_products(form: str, letters: frozenset[str]) -> list[Node]:
    """A sum of products of these letters that looks like words, ``aceg+deg``; only to compare with expressions."""
    if _PRODUCTS.fullmatch(form) is None or set(re.findall("[a-z]", form)) - {"e", "i"} != letters - {"e", "i"}:
        return []
    return [parse(re.sub(r"(?<=[a-z])(?=[a-z])", " ", form))]


def readings(form: str) -> list[Node]:
    """The readings of a normal form, most likely first; text that is not mathematics is read as words.

    Raises:
        UnreadableError: nothing is readable, or the text is too large.
    """
    if (labelled := _LABEL.fullmatch(form)) is not None and is_label(name := labelled[1] or labelled[2]):
        return [Relation((Text(words(name)), value), ("=",)) for value in readings(labelled[3])]
    if (formula := _LABELLED.fullmatch(form)) is not None and is_label(formula[1]):
        return readings(formula[2])
    if (congruence := _CONGRUENCE.fullmatch(form)) is not None:
        name, rest, modulus = congruence.groups()
        form = rf"{name}={rest}+{modulus}k,k\in\mathbb{{Z}}"
    if (":" in form or "=" in form) and (values := named_values(form)) is not None:
        return [Group("bare", tuple(_named_value(name, value) for name, value in values))]
    if (named := values_by_word(form)) is not None:
        return [Group("bare", tuple(_named_value(name, value) for name, value in named))]
    if (described := described_set(form)) is not None:
        return [Text(words(form)), described]
    if form[:4] == "\\int" and (value := integral(form)) is not None:
        return [Text(words(form)), value]
    if form[:1] == "(" and (parts := numbered_parts(form)) is not None:
        numbered = (Relation((Symbol(str(place)), readings(value)[0]), ("=",)) for place, value in enumerate(parts, 1))
        return [Group("bare", tuple(numbered))]
    if " or" in form and "=" in form and (points := alternatives(form)) is not None:
        tuples = (Group("tuple", tuple(readings(value)[0] for _, value in sorted(point))) for point in points)
        return [Group("bare", tuple(tuples))]
    if "=" in form and (function := of_function(form)) is not None:
        return [Relation((Text(function[0]), value), ("=",)) for value in readings(function[1])]
    found = _readings_in_words(form)
    if (choice := choice_of(form)) is not None:
        found = [Symbol(choice[0]), *readings(choice[1])]
    if not found:
        found = [*clock_times(form), *_readings_as_mathematics(form.removesuffix(" o'clock"))]
        if ":" in form and (amount := duration(form)) is not None:
            found.append(amount)
        if (unit := _PLAIN_UNIT.fullmatch(form)) is not None and (unit["space"] or "/" in unit["unit"]):
            found.append(parse(_upright(unit)))
        if "=" in form and (calculated := _CALCULATED.fullmatch(form)) is not None:
            found.append(parse(_upright(calculated)))
        if (letter := _LETTER.fullmatch(form)) is not None:
            found.append(Symbol(letter[1].upper()))
        if (point := _POINT.fullmatch(form)) is not None:
            found.append(parse(point[1]))
    for reading in found:
        _check_sizes(reading)
    return found


def _named_value(name: str, value: str) -> Relation:
    return Relation((Text(words(name)) if is_word(name) else parse(name), readings(value)[0]), ("=",))


def _readings_in_words(form: str) -> list[Node]:
    """Times of day, names and plain words; empty for any other form."""
    if (moment := time_of_day(form) or date(form) or weekday(form)) is not None:
        return [moment]
    if form[:1].isdigit() and ":" not in form and (amount := duration(form)) is not None:
        return [amount]
    if (described := _DESCRIBED.fullmatch(form)) is not None:
        return [Text(words(form)), Text(described[1])]
    text = words(form)
    if not text.replace(" ", "").isalpha() or len(text) == 1:
        return []
    meaning = value_of_words(text)
    if is_name(form):
        return [Text(text), *([meaning] if meaning is not None else _readings_as_mathematics(form))]
    if meaning is None and (answer := _YES_OR_NO.match(form)) is not None and len(_ANSWERS.findall(text)) == 1:
        return [Text(text), Text(answer[1].lower())]
    if meaning is not None:
        return [Text(text), meaning]
    parts = text.split()
    only_words = len(parts) > 1 and all(len(word) > 2 and word not in FORMULA_WORDS for word in parts)
    return [Text(text)] if only_words else []


def _upright(match: re.Match[str]) -> str:
    unit = match["unit"].replace("/", "}/\\text{")
    return rf"{match['value']}\text{{{unit}}}{match['power'] or ''}"


def _with_base(form: str, dimension: int) -> str:
    """Replace the unit vectors i, j, k by columns."""

    def column(match: re.Match[str]) -> str:
        entries = r"\\".join(str(int(row == "ijk".index(match[1]))) for row in range(dimension))
        return rf"\begin{{pmatrix}}{entries}\end{{pmatrix}}"

    return _VECTOR.sub(column, form)


def _readings_as_mathematics(form: str) -> list[Node]:
    readings: list[Node] = []
    if (numeral := _NUMERAL.fullmatch(_UPRIGHT.sub(r"\1", form))) is not None:
        return [Symbol(f"{numeral[1].upper().lstrip('0')} in base {int(numeral[2])}")]
    if (permutations := _PERMUTATIONS.fullmatch(form)) is not None:
        readings.append(parse(rf"\frac{{{permutations[1]}!}}{{({permutations[1]}-{permutations[2]})!}}"))
    if (combinations := _COMBINATIONS.fullmatch(form)) is not None:
        readings.append(parse(rf"\binom{{{combinations[1]}}}{{{combinations[2]}}}"))
    try:
        if (named := {match[1] for match in _VECTOR.finditer(form)}) & {"i", "j"}:
            return [parse(_with_base(form, dimension)) for dimension in (2, 3) if dimension == 3 or "k" not in named]
        readings.append(parse(form))
        if _TRIPLES.search(form):
            readings.append(parse(form, thousands=False))
        if _LOGARITHM.search(form):
            readings.append(parse(form, decadic=True))
        if _POUNDS.search(form):
            readings.append(parse(_POUNDS.sub("GBP", form)))
    except TooLargeError:
        raise
    except UnreadableError:
        if not _MEANING.search(form):
            raise UnreadableError("nothing that can be read") from None
        readings.append(Text(words(form)))
    if (repeating := _REPEATING.fullmatch(form)) is not None:
        periodic = parse(rf"{repeating[1]}\overline{{{repeating[2]}}}")
        readings = [periodic] if repeating[1].endswith(".") else [*readings, periodic]
    return list(dict.fromkeys(readings))


def _check_sizes(node: Node) -> None:
    if isinstance(node, Apply):
        exact.check_size(node)
    else:
        for child in children(node):
            _check_sizes(child)
