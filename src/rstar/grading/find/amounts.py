"""The only amount of a sentence: "Tom has 9 apples left", "James runs 540m", "It starts at 3 o'clock".

An amount is a number with its unit, half of the day, or "million". A sentence with several amounts has none.
"""

from __future__ import annotations

import re

from rstar.grading.find.unit_phrases import unit_phrase

AMOUNTS = r"(?:hours?|minutes?|dollars?|pounds?|feet|foot|met(?:er|re)s?|years?|weeks?|days?)"
_ATTACHED_UNIT = r"(?:km|[cdm]?m|k?g|mg|[mMdc]?[lL]|h|min|s|kph|mph)(?![\w^/²³*])"
"""Units that may directly follow a number."""
_NUMBER = re.compile(
    r"(?<![\w.,/^:])(?:\d{1,2}:\d{2}(?::\d{2})?(?:\s*[ap]\.?m\b\.?| in the (?:morning|afternoon|evening)| at night)?"
    r"|\d{1,2} (?:in the (?:morning|afternoon|evening)|at night)|\d{1,2}\s*(?:[ap]\.?m\b\.?|o['’]clock\b)"
    r"|(?:\\?\$)?-?\d{1,1999}(?:,\d{3}){0,600}(?:\.\d{1,30})?(?:/\d{1,30})?(?:\\?%)?)"
    rf"(?:(?={_ATTACHED_UNIT})|(?![\w^/]|:\d|,\d))",
    re.IGNORECASE,
)
_SEVERAL_UNITS = re.compile(
    rf"\d+(?:\.\d+)? {AMOUNTS}(?:,?(?: and)? \d+(?:\.\d+)? {AMOUNTS})*,?(?: and)? \d+(?:\.\d+)? [a-z]+\b"
    r"|\b\d+ ?(?:h|hours?|min|minutes?)(?:\b|(?=\d))(?:,? ?(?:and )?\d+ ?(?:min|m|minutes?|s|seconds?)\b){1,2}"
)
_COUNTED = re.compile(
    r"\s+(?:dozen|hundred|thousand|million|billion|trillion|percentage points?|and (?:a|one) (?:half|quarter))\b"
)
"""Words that belong to the number before them."""
_CHANGED = re.compile(
    r"\s*(?:to the power|squared|cubed|factorial|or\b|and (?:an? |one |two |three )?(?:third|quarter|fifth)s?\b|mil\b"
    r"|mill?e\b|mila\b|mill(?:ón|ones|iards?|iarden|ionen|ioni|ions (?:d|of)|iers)|milh|tausend|dutzend|docenas?\b"
    r"|douzaines?\b|dúzias?\b|dozzin[ae]\b|[百千万亿打]|\.\d|in an? |out of|in base|times 10|at most|at least"
    r"|short of)",
    re.IGNORECASE,
)
"""Words that change the number before them."""
_IN_TOTAL = re.compile(r"\s+in (?:total|all|sum|the|a|an|each|one|this|our|my|his|her|its|their)\b")
"""The word "in" where it is not an inch."""
_CLOCK = re.compile(r":|clock")
_RELATIVE = re.compile(r"\b(?:before|after|until|till|since|from|between|than|past|later|earlier)\b")
"""Words beside a time that mean a different time."""
_RANGE = re.compile(r"(?<=[\w%]),? from \S{1,20}(?: [a-z]+)? to \S{1,20}(?: [a-z]+)?$")
"""The old and new values after the amount of a change."""


def only_amount(sentence: str) -> tuple[int, str] | None:
    """Start and text of the only amount of a sentence; None if there is none, or several."""
    if " by " in sentence:
        sentence = _RANGE.sub("", sentence)
    several = list(_SEVERAL_UNITS.finditer(sentence))
    found = several or list(_NUMBER.finditer(sentence))
    if len(found) != 1 or _CHANGED.match(sentence, found[0].end()):
        return None
    start, end = found[0].span()
    if several:
        return start, found[0][0]
    if _CLOCK.search(found[0][0]) and _RELATIVE.search(sentence):
        return None
    if (counted := _COUNTED.match(sentence, end)) is not None:
        return start, sentence[start : counted.end()]
    if _IN_TOTAL.match(sentence, end):
        return start, sentence[start:end]
    unit = unit_phrase(sentence, end, letters=True) if ":" not in found[0][0] else None
    if unit is None:
        return start, sentence[start:end]
    if end == unit[0]:  # glued to the number
        return start, f"{sentence[start:end]} {unit[1]}"
    return start, sentence[start : unit[0]] + unit[1]
