"""The letter of a choice that is given with its reason: "B, because 7 is prime", "only A satisfies both conditions"."""

from __future__ import annotations

import re

LONGEST = 600
_LETTER = r"\(?(?P<letter>[A-H])\)?(?![A-Za-z])"
_RIGHT = r"(?:the )?(?:correct|right|best)(?: (?:answer|option|choice|one))?"
_REASON = r"(?:because|since|as|given that|due to)\b"
_FIRST = re.compile(
    rf"[\s*]*{_LETTER}[\s*]*(?:[.,:;-]|—|–)?\s*(?i:{_REASON})"  # B, because …
    rf"|[\s*]*\(?(?P<listed>[A-H])\)\s[^.\n]{{1,60}}?,? {_REASON}"  # B) 15, because …
    r"|[\s*]*\(?(?P<valued>[A-H])[).:]\s[^.\n—–]{1,40}\s(?:—|–)\s"  # D) 45 — the angles must add up
    r"|[\s*]*\(?(?P<before>[A-H])\)?[\s*]*(?:—|–|--|:|\s-\s)\s+(?P<remark>[^\d=\\$]{8,})$"  # D: there is no limit
)
_LATER = re.compile(
    rf"\bonly (?:option |choice |answer )?{_LETTER} (?:satisf\w+|works|holds|fits|meets|remains|matches)\b"
    rf"|\b(?:option|choice|answer) \(?(?P<right>[A-H])\)?,? (?:[^,.\n]{{1,60}},)? ?is {_RIGHT}\s*"
    rf"(?:[.!*]|$|\n|{_REASON})"
    r"|\b(?:hence|therefore|thus|so),? (?:\((?P<so>[A-H])\)|(?:option|choice) \(?(?P<then>[A-H])\)?)\s*\.?\s*$"
    r"|\b(?:option|choice|answer) \(?(?P<end>[A-H])\)?[\s.*]*$"
    rf"|(?<![\w.,(-])\(?(?P<told>[A-H])\)? is {_RIGHT},? {_REASON}",
    re.IGNORECASE,
)
_DOUBT = re.compile(
    r"\b(?:no[,.]|wait|actually|correction|sorry|oops|neither|either|unless|if|suppose|reject(?:ed)?|wrong|incorrect"
    r"|impossible|false|not (?:option |choice )?\(?[A-H]\b"
    r"|(?:option|choice|answer)s?\b.*\b(?:option|choice|answer)s?)",
    re.IGNORECASE,
)
_BEGUN = re.compile(rf"[\s*]*{_LETTER}\**(?:\s*[,.:;]\s*|\s+)(?:{_REASON}|which\b|so\b)", re.IGNORECASE)


def with_reason(text: str) -> str | None:
    """The letter that a short text gives with its reason; None where it gives none, several, or takes one back."""
    if len(text) > LONGEST or _DOUBT.search(text) is not None:
        return None
    match = _FIRST.match(text)
    if match is None:
        found = list(_LATER.finditer(text))
        match = found[-1] if found else None
    if match is None:
        return None
    letter = next((value for name, value in match.groupdict().items() if value and name != "remark"), None)
    return letter if letter is not None and letter.isupper() else None


def without_reason(sentence: str) -> str:
    """The letter alone of "B because the others are odd"; any other sentence as it is."""
    match = _BEGUN.match(sentence)
    return sentence if match is None or not match["letter"].isupper() else match["letter"]
