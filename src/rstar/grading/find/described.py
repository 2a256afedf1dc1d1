"""Sentences that describe a set of numbers: "The domain is all real x except 2", "Every odd prime works"."""

from __future__ import annotations

import re

from rstar.grading.read.descriptions import DESCRIPTION, KEY, MAX_LENGTH, described_set
from rstar.grading.read.normal import normal

QUANTIFIER = re.compile(r"\b(?:all|every|any|each)\b")
"""A word without which a sentence describes no set as its statement."""
_DENIED = re.compile(r"\b(?:not|never|no|if|unless|except|false|wrong|but|nor)\b|n't\b", re.IGNORECASE)
_LINK = r"(?:(?:so|thus|hence|therefore|consequently|in conclusion)\b,? )?"
_STATED = re.compile(
    rf"(?P<before>.*?)\b(?:is|are|be|consists? of|includes?|comprises)(?: exactly)? (?P<value>{DESCRIPTION}.*)"
)
_WORKS = re.compile(
    rf"(?i:{_LINK})(?:(?:It|This|The [a-z]+(?: [a-z]+)?) (?:holds|works|is true|is satisfied|is defined) for )?"
    rf"(?P<value>(?i:{DESCRIPTION}).*?)"
    r"(?: (?:works?|satisf(?:y|ies) (?:the|this|our) [a-z]+|(?:is|are) (?:a )?(?:solutions?|possible|valid)))?"
)


def described_answer(sentence: str) -> str | None:
    """The description that a sentence states of its subject, if readable or not; None for any other sentence."""
    match = _STATED.fullmatch(sentence)
    return None if match is None or _DENIED.search(match["before"]) else match["value"]


def whole_description(sentence: str) -> str | None:
    """The description that is a whole sentence, except that it "works"; None for any other sentence."""
    if len(sentence) > 2 * MAX_LENGTH or KEY.search(sentence) is None:
        return None
    match = _WORKS.fullmatch(sentence)
    value = sentence if match is None else match["value"]
    value = re.sub(rf"^{_LINK}", "", value, flags=re.IGNORECASE)
    return value if described_set(normal(value)) is not None else None
