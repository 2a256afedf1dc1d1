"""Times, dates and weekdays, compared as such: 3:30 p.m. is 15:30, March 14, 2015 is 2015-03-14."""

from __future__ import annotations

import re
from fractions import Fraction
from itertools import pairwise

from rstar.grading.read.nodes import Number, Quantity, Text
from rstar.grading.read.units import UNITS
from rstar.grading.read.vocabulary import CARDINALS, MIDNIGHT, NOON, alias_table, word_list

_CLOCK = re.compile(
    r"(?:\\text ?\{ ?)?(\d{1,2})(?::([0-5]\d)(?::([0-5]\d))?| o['’]clock)?\s*(?:\\text ?\{\s*)?"
    r"(?:([aApP])\s*\.?\s*[mM]|in the (morning|afternoon|evening)|at (night))\s*\.?\s*\}?"
)
_HOURS = re.compile(r"(\d{1,2})(?::([0-5]\d)(?::([0-5]\d))?| o['’]clock)")
_AMOUNT = re.compile(
    r"(?P<count>\d+(?:\.\d+)?) ?(?:(?P<day>d(?:ays?)?)|(?P<h>h(?:(?:ou)?rs?|our)?)|(?P<min>m(?:in(?:ute)?s?)?)"
    r"|(?P<s>s(?:ec(?:ond)?s?)?))(?![a-z])\.?(?:[, ]|and\b)*"
)
_LABELLED = re.compile(
    r"(?P<first>\d{1,3}):(?P<second>[0-5]\d)(?::(?P<third>[0-5]\d))? ?\( ?(?P<units>(?:h(?:ours?|rs?|h)?"
    r"|m(?:inutes?|ins?|m)?|s(?:econds?|ecs?|s)?)(?: ?: ?(?:m(?:inutes?|ins?|m)?|s(?:econds?|ecs?|s)?)){1,2}) ?\)",
    re.IGNORECASE,
)
"""A duration that names its parts: ``1:40:00 (hours:minutes:seconds)``."""
_UNIT_INITIALS = {"hms": ("h", "min", "s"), "hm": ("h", "min"), "ms": ("min", "s")}
_MAX_PARTS = 4
_NIGHT_END = 5
"""The hour at which night ends."""
_NAMED_HOUR = re.compile(rf"{NOON}|{MIDNIGHT}", re.IGNORECASE)
_NOON_OR_MIDNIGHT = re.compile(
    rf"(?P<at>\b(?:at|by|is)\s+|(?=1?2|0?0:|24:))(?:(?:12|24|0?0)(?::00)?(?: o['’]clock)?(?: at)? ?)?"
    rf"(?:(?P<noon>{NOON})|(?:{MIDNIGHT}))\b",
    re.IGNORECASE,
)
"""Noon or midnight as the time of an event."""
_SEARCHED_LENGTH = 1_000
"""Characters at the end of a text that are searched for times in words."""
_HOUR_WORDS = list(CARDINALS)[1:13]
_MINUTE_WORDS = {"five": 5, "ten": 10, "quarter": 15, "twenty": 20, "twenty-five": 25, "half": 30}
_PAST = re.compile(
    r"(?<![\w-])(?:(?P<at>at|by|it is|it's) )?(?:an? )?(?P<minutes>half|quarter|five|ten|twenty(?:[- ]five)?|[1-9]"
    r"|[1-5]\d)(?P<unit> minutes)?"
    rf" (?P<side>past|after|to) (?P<hour>{'|'.join(_HOUR_WORDS)}|1[0-2]|[1-9])(?: o['’]clock)?(?![\w:.,]\d)(?!\w|-)",
    re.IGNORECASE,
)
_WEEKDAYS = alias_table(
    "monday lundi montag lunes 星期一 周一 礼拜一; tuesday mardi dienstag martes 星期二 周二 礼拜二",
    "wednesday mercredi mittwoch miércoles 星期三 周三 礼拜三; thursday jeudi donnerstag jueves 星期四 周四 礼拜四",
    "friday vendredi freitag viernes 星期五 周五 礼拜五; saturday samedi samstag sonnabend sábado 星期六 周六 礼拜六",
    "sunday dimanche sonntag domingo 星期日 星期天 周日 周天 礼拜天 礼拜日",
)
_WEEKDAYS |= {day: day for day in _WEEKDAYS.values()}
_ARTICLE = re.compile("^(?:a|ein|un) ")
_MONTH_NAMES = word_list("january february march april may june july august september october november december")
_MONTH = rf"(?P<month>{'|'.join(f'{name[:3]}(?:{name[3:]})?' for name in _MONTH_NAMES)})\.?"
_MONTHS = [name[:3] for name in _MONTH_NAMES]
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
    hour = int(match[1])
    half = match[4].lower() if match[4] else _half(hour, match[5] or match[6])
    return None if half is None else _time(hour, int(match[2] or 0), int(match[3] or 0), half)


def _half(hour: int, part: str) -> str | None:
    """``a`` or ``p`` for an hour in a part of the day; None if in doubt."""
    if part in ("evening", "night") and (hour == 12 or (part == "night" and hour < _NIGHT_END)):
        return "a"
    if (part, hour) in (("morning", 12), ("night", _NIGHT_END)):
        return None
    return "a" if part == "morning" else "p"


def clock_times_in_digits(text: str) -> str:
    """Write "twenty past four" as ``4:20`` at the end of a text; "ten to six" needs an "at" or "minutes"."""

    def figures(match: re.Match[str]) -> str:
        count, side = match["minutes"].lower().replace(" ", "-"), match["side"].lower()
        minutes = _MINUTE_WORDS.get(count) or (int(count) if count.isdigit() else 0)
        explicit = match["at"] or match["unit"] or count == "quarter"
        if side != "past" and (not explicit or count == "half"):
            return match[0]
        hour = int(match["hour"]) if match["hour"].isdigit() else _HOUR_WORDS.index(match["hour"].lower()) + 1
        if side == "to":
            hour, minutes = (hour - 2) % 12 + 1, 60 - minutes
        return f"{match['at'] + ' ' if match['at'] else ''}{hour}:{minutes:02}"

    def middle(match: re.Match[str]) -> str:
        return f"{match['at']}12:00 {'pm' if match['noon'] else 'am'}"

    head, end = text[:-_SEARCHED_LENGTH], _PAST.sub(figures, text[-_SEARCHED_LENGTH:])
    return head + (_NOON_OR_MIDNIGHT.sub(middle, end) if len(_NAMED_HOUR.findall(end)) == 1 else end)


def weekday(form: str) -> Text | None:
    """The English name of a weekday given in any supported language; None for other forms."""
    name = _ARTICLE.sub("", form.lower(), count=1)
    return Text(_WEEKDAYS[name]) if name in _WEEKDAYS else None


def clock_times(form: str) -> list[Text]:
    """The times of day that ``3:30`` may mean; with a leading zero it is on the 24-hour clock."""
    match = _HOURS.fullmatch(form)
    if match is None or int(match[1]) >= 24:
        return []
    hour, minute, second = int(match[1]), int(match[2] or 0), int(match[3] or 0)
    found = [_clock(hour, minute, second)]
    if 0 < hour <= 12 and match[1][0] != "0":
        found += [_time(hour, minute, second, half) for half in "ap"]
    return list(dict.fromkeys(found))


def is_ratio(form: str) -> bool:
    """Whether ``10:20:30`` is more likely a ratio than a time, in which some part begins with a zero."""
    return form.count(":") == 2 and ":0" not in form and form[:1] != "0"


def duration(form: str) -> Quantity | None:
    """``2 h 0 min 5 s`` or ``1:02:03`` as a duration; None for other forms, including a single amount."""
    if (match := _HOURS.fullmatch(form)) is not None:
        return None if match[3] is None else _amount([(match[1], "h"), (match[2], "min"), (match[3], "s")])
    if (marked := _LABELLED.fullmatch(form)) is not None:
        initials = "".join(name.strip()[0].lower() for name in marked["units"].split(":"))
        counts = [count for count in marked.group("first", "second", "third") if count]
        units = _UNIT_INITIALS.get(initials, ())
        return _amount(list(zip(counts, units, strict=True))) if len(counts) == len(units) else None
    parts: list[tuple[str, str]] = []
    at = 0
    while at < len(form) and len(parts) < _MAX_PARTS and (match := _AMOUNT.match(form, at)) is not None:
        parts.append((match["count"], match.lastgroup or ""))
        at = match.end()
    sizes = [UNITS[unit].factor for _, unit in parts if unit]
    falling = all(big > small for big, small in pairwise(sizes))
    return _amount(parts) if at == len(form) and len(parts) > 1 and falling else None


def _amount(parts: list[tuple[str, str]]) -> Quantity:
    first = UNITS[parts[0][1]]
    return Quantity(Number(sum(Fraction(count) * UNITS[unit].factor for count, unit in parts) / first.factor), first)


def date(form: str) -> Text | None:
    """A day of a given year, or of any year; None for any other form."""
    match = next(filter(None, (pattern.fullmatch(form) for pattern in _DATES)), None)
    if match is None:
        return None
    parts = match.groupdict()
    month = int(parts["number"]) if "number" in parts else _MONTHS.index(parts["month"].lower()[:3]) + 1
    return Text(f"{parts['year'] or 'every year'}-{month:02}-{int(parts['day']):02}")


def _time(hour: int, minute: int, second: int, half: str) -> Text:
    return _clock(hour % 12 + 12 * (half == "p"), minute, second)


def _clock(hour: int, minute: int, second: int) -> Text:
    """A time on the 24-hour clock; zero seconds are omitted."""
    return Text(f"{hour}:{minute:02}" + (f":{second:02}" if second else ""))
