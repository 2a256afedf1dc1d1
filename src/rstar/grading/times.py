"""Times of day and dates, which are compared as such: 3:30 p.m. is 15:30, and March 14, 2015 is 2015-03-14."""

from __future__ import annotations

import re

from rstar.grading.nodes import Text

_CLOCK = re.compile(
    r"(?:\\text ?\{ ?)?(\d{1,2})(?::(\d{2}))?\s*(?:\\text ?\{\s*)?"
    r"(?:([aApP])\s*\.?\s*[mM]|in the (morning|afternoon|evening)|at (night))\s*\.?\s*\}?"
)
_HOURS = re.compile(r"(\d{1,2}):([0-5]\d)")
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
    half = (match[3] or {"morning": "a"}.get(match[4] or match[5], "p")).lower()
    return _time(int(match[1]), int(match[2] or 0), half)


def hours(form: str) -> list[Text]:
    """What ``3:30`` may mean as a time of day; with a leading zero it is on the 24-hour clock."""
    match = _HOURS.fullmatch(form)
    if match is None or int(match[1]) >= 24:
        return []
    hour, minute = int(match[1]), int(match[2])
    found = [Text(f"{hour}:{minute:02}")]
    if 0 < hour <= 12 and match[1][0] != "0":
        found += [_time(hour, minute, half) for half in "ap"]
    return list(dict.fromkeys(found))


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


def _time(hour: int, minute: int, half: str) -> Text:
    return Text(f"{hour % 12 + 12 * (half == 'p')}:{minute:02}")
