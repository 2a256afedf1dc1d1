"""The ways in which an answer can be read: as mathematics where that is possible, else as words, times, names.

Some texts have several readings (``1,234`` is a number or a list, ``log`` natural or decadic, ``(C) 12`` a choice or
its text); two answers are equal when any two of their readings are.
"""

from __future__ import annotations

import re

from rstar.grading import exact
from rstar.grading.lexer import TooLargeError, UnreadableError
from rstar.grading.nodes import Apply, Group, Interval, Matrix, Node, Quantity, Relation, Symbol, Text
from rstar.grading.normal import normal, words
from rstar.grading.parser import parse
from rstar.grading.spoken import spoken

_TRIPLES = re.compile(r"(?<![\d,.])\d{3},\d{3}")
"""What may be a number of many digits or a list of short ones; ``1,234`` is no list."""
_INITIALS = re.compile(r"[A-Z]{2,}|(?![abc]{3}|[xyz]{3}|inf)[a-z]{3}")
"""Letters in a row that are a name, a numeral or a word rather than a product, when they are the whole answer."""
_CHOICE = re.compile(
    r"(?:\(?([A-H])[).:]\)?\s+|\(([A-H])\)(?![(+\-*/^=!])|\\(?:text[a-z]*|mathbf|mathrm)\{ ?\(([A-H])\) ?\} ?)"
    r"(?!\s*(?:[,;&]|(?:\\text\{\s*)?(?:and|or)\b|\(?[A-H]\)?(?![A-Za-z])))(\S.*)",
    re.DOTALL,
)
_YES_OR_NO = re.compile(r"(?:\\text\{ ?)?(yes|no|true|false) ?[,.;:!]", re.IGNORECASE)
_ANSWERS = re.compile(r"\b(?:yes|no|true|false)\b")
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_HOURS = re.compile(r"(\d{1,2}):([0-5]\d)")
_REPEATING = re.compile(r"(-?\d+\.\d*)\((\d+)\)")
_LOGARITHM = re.compile(r"log(?![_A-Za-z])")
_MEANING = re.compile(r"[^\W_]")
_CLOCK = re.compile(r"(\d{1,2})(?::(\d{2}))?\s*(?:\\text\{\s*)?([aApP])\s*\.?\s*[mM]\s*\.?\s*\}?")


def read(answer: str) -> list[Node]:
    """The ways in which grading reads a bare answer, most likely first; none when it cannot be read."""
    try:
        return readings(normal(answer))
    except (UnreadableError, RecursionError):
        return []


def choice_of(form: str) -> tuple[str, str] | None:
    """Letter and text of a choice with both: ``(C) 12``."""
    match = _CHOICE.fullmatch(form)
    return None if match is None else (match[1] or match[2] or match[3], match[4])


def readings(form: str) -> list[Node]:
    """The ways to read a normal form, most likely first; a text that is not mathematics is read as words.

    Raises:
        UnreadableError: nothing in it can be read, or it is too large.
    """
    found = _readings_in_words(form)
    if (choice := choice_of(form)) is not None:
        found = [Symbol(choice[0]), *readings(choice[1])]
    if not found:
        found = _readings_as_mathematics(form)
    for reading in found:
        _check_sizes(reading)
    return found


def _readings_in_words(form: str) -> list[Node]:
    """Times of day, names, and what is said in plain words; none where the form is anything else."""
    if (clock := _CLOCK.fullmatch(form)) is not None:
        return [Text(_time(int(clock[1]), int(clock[2] or 0), clock[3].lower()))]
    if _INITIALS.fullmatch(form) or _DATE.fullmatch(form):
        return [Text(words(form))]
    said = words(form)
    if not said.replace(" ", "").isalpha() or len(said) == 1:
        return []
    meant = spoken(said)
    if meant is None and (short := _YES_OR_NO.match(form)) is not None and len(_ANSWERS.findall(said)) == 1:
        return [Text(said), Text(short[1].lower())]
    return [] if meant is None else [Text(said), meant]


def _time(hour: int, minute: int, half: str) -> str:
    """A time of day by the 24-hour clock."""
    return f"{hour % 12 + 12 * (half == 'p')}:{minute:02}"


def _readings_as_mathematics(form: str) -> list[Node]:
    readings: list[Node] = []
    try:
        readings.append(parse(form))
        if _TRIPLES.search(form):
            readings.append(parse(form, thousands=False))
        if _LOGARITHM.search(form):
            readings.append(parse(form, decadic=True))
    except TooLargeError:
        raise
    except UnreadableError:
        if not _MEANING.search(form):
            raise UnreadableError("nothing that can be read") from None
        readings.append(Text(words(form)))
    if (clock := _HOURS.fullmatch(form)) is not None and int(clock[1]) < 24:
        hour, minute = int(clock[1]), int(clock[2])
        readings = [Text(f"{hour}:{minute:02}")]  # and no ratio: 3:30 is not 1:10
        if 0 < hour <= 12:
            readings += [Text(_time(hour, minute, half)) for half in "ap"]
    if (repeating := _REPEATING.fullmatch(form)) is not None:
        periodic = parse(rf"{repeating[1]}\overline{{{repeating[2]}}}")
        readings = [periodic] if repeating[1].endswith(".") else [*readings, periodic]
    return list(dict.fromkeys(readings))


def _check_sizes(node: Node) -> None:
    match node:
        case Apply():
            exact.check_size(node)
        case Quantity(value):
            _check_sizes(value)
        case Group(_, items) | Relation(items, _):
            for item in items:
                _check_sizes(item)
        case Interval(low, high):
            _check_sizes(low)
            _check_sizes(high)
        case Matrix(rows):
            for row in rows:
                for entry in row:
                    _check_sizes(entry)
