"""Times of day and dates, which are compared as such: 3:30 p.m. is 15:30, and March 14, 2015 is 2015-03-14."""

from __future__ import annotations

import re
from fractions import Fraction
from itertools import pairwise

from rstar.grading.nodes import Number, Quantity, Text
from rstar.grading.units import UNITS

_CLOCK = re.compile(
    r"(?:\\text ?\{ ?)?(\d{1,2})(?::([0-5]\d)(?::([0-5]\d))?)?\s*(?:\\text ?\{\s*)?"
    r"(?:([aApP])\s*\.?\s*[mM]|in the (morning|afternoon|evening)|at (night))\s*\.?\s*\}?"
)
_HOURS = re.compile(r"(\d{1,2}):([0-5]\d)(?::([0-5]\d))?")
_AMOUNT = re.compile(
    r"(?P<count>\d+(?:\.\d+)?) ?(?:(?P<day>d(?:ays?)?)|(?P<h>h(?:(?:ou)?rs?|our)?)|(?P<min>m(?:in(?:ute)?s?)?)"
    r"|(?P<s>s(?:ec(?:ond)?s?)?))(?![a-z])\.?(?:[, ]|and\b)*"
)
_MOST_AMOUNTS = 4
_MONTHS = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
]
_MONTH = rf"(?P<month>{'|'.join(f'{name[:3]}(?:{name[3:]})?' for name in _MONTHS)})\.?"
_DAY = r"(?P<day>\d{1,2})(?:st|nd|rd|th)?"
_DATES = [
    re.compile(rf"(?:\\text ?\{{ ?)?{pattern} ?\}}?", re.IGNORECASE)
    for pattern in (
        r"(?P<year>\d{4})-(?P<number>\d{2})-(?P<day>\d{2})",
        rf"{_MONTH} {_DAY}(?:,? ?(?P<year>\d{{4}}))?",
        rf"(?:the )?{_DAY} (?:of )?{_MONTH}(?:,? ?(?P<year>\d{{4}}))?",
    )
]


def time_of_day(form: str) -> Text | None:
    """A time with its half of the day, on the 24-hour clock; None for any other form."""
    match = _CLOCK.fullmatch(form)
    if match is None or not 1 <= int(match[1]) <= 12:
        return None
    half = (match[4] or {"morning": "a"}.get(match[5] or match[6], "p")).lower()
    return _time(int(match[1]), int(match[2] or 0), int(match[3] or 0), half)


def hours(form: str) -> list[Text]:
    """What ``3:30`` may mean as a time of day; with a leading zero it is on the 24-hour clock."""
    match = _HOURS.fullmatch(form)
    if match is None or int(match[1]) >= 24:
        return []
    hour, minute, second = int(match[1]), int(match[2]), int(match[3] or 0)
    found = [_clock(hour, minute, second)]
    if 0 < hour <= 12 and match[1][0] != "0":
        found += [_time(hour, minute, second, half) for half in "ap"]
    return list(dict.fromkeys(found))


def is_ratio(form: str) -> bool:
    """Whether ``10:20:30``, which could be a time, is more likely a ratio: in a time, some part begins with a zero."""
    return form.count(":") == 2 and ":0" not in form and form[:1] != "0"


def duration(form: str) -> Quantity | None:
    """``2 h 0 min 5 s`` and ``1:02:03`` as an amount of time; None for any other form, a single amount among them."""
    if (match := _HOURS.fullmatch(form)) is not None:
        return None if match[3] is None else _amount([(match[1], "h"), (match[2], "min"), (match[3], "s")])
    parts: list[tuple[str, str]] = []
    at = 0
    while at < len(form) and len(parts) < _MOST_AMOUNTS and (match := _AMOUNT.match(form, at)) is not None:
        parts.append((match["count"], match.lastgroup or ""))
        at = match.end()
    sizes = [UNITS[unit].factor for _, unit in parts if unit]
    falling = all(big > small for big, small in pairwise(sizes))
    return _amount(parts) if at == len(form) and len(parts) > 1 and falling else None


def _amount(parts: list[tuple[str, str]]) -> Quantity:
    first = UNITS[parts[0][1]]
    return Quantity(Number(sum(Fraction(count) * UNITS[unit].factor for count, unit in parts) / first.factor), first)


def date(form: str) -> Text | None:
    """A day of a year, or of any year; None for any other form."""
    match = next(filter(None, (pattern.fullmatch(form) for pattern in _DATES)), None)
    if match is None:
        return None
    parts = match.groupdict()
    month = int(parts["number"]) if "number" in parts else _month(parts["month"])
    return Text(f"{parts['year'] or 'every year'}-{month:02}-{int(parts['day']):02}")


def _month(name: str) -> int:
    return next(number for number, month in enumerate(_MONTHS, 1) if month.startswith(name.lower()[:3]))


def _time(hour: int, minute: int, second: int, half: str) -> Text:
    return _clock(hour % 12 + 12 * (half == "p"), minute, second)


def _clock(hour: int, minute: int, second: int) -> Text:
    """A time on the 24-hour clock; seconds that are zero are left out."""
    return Text(f"{hour}:{minute:02}" + (f":{second:02}" if second else ""))
