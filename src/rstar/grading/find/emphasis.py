"""Marks that stress a text and are no part of it: bold type, quotation marks that nothing opened, exclamation marks."""

from __future__ import annotations

import re

_BOLD = re.compile(r"(?<![\w)\]}*])\*\*(?=[^\s*])([^*\n]+?)(?<=\S)\*\*(?![\w({*])")
"""Bold type; ``x**2 + y**2`` is none."""
_OTHER_BOLD = re.compile(
    r"<(b|strong)>(?P<html>[^<>\n]{1,200})</\1>|(?<![\w_])__(?=[^\s_])(?P<lines>[^_\n]{1,200}?)(?<=\S)__(?![\w_])",
    re.IGNORECASE,
)
_BULLET = re.compile(r"^[-•*] +(?=\*\*)")
_LOOSE_END = re.compile(r"(?<=[^\s*])\*\*(?=[\s,.;:!?]|$)")
_AMOUNT = re.compile(
    r"(\b(?:is|are|was|were|be|equals) )\*\*(\\?\$?-?[\d,]*\d(?:\.\d+)?(?: [^\W\d_]+){0,3})\*\*"
    r"(?=\s*[^\W\d_][^\d$\\*=]{0,40}$)"
)
"""An amount in bold type, and the noun or words that end the sentence."""
_LOOSE_QUOTE = re.compile(r"""(?:[.!?]+|(?<=[*_]))["”’]\s*$""")
_NUMBER = r"[-−]?\$?\d[\d,]*(?:\.\d+)?"
_STRESS = r"[*]{0,2}"
_STATES = rf"\b(?:is|are|was|were|be|equals|get|got|(?:answer|result){_STRESS}:)"
_EXCLAIMED = re.compile(
    rf"({_STATES}{_STRESS} {_STRESS}{_NUMBER}{_STRESS})!{{1,3}}(?={_STRESS}\s*$)", re.IGNORECASE | re.MULTILINE
)


def without_bold(text: str) -> str:
    """Drop the marks of bold type, and the bullet before it."""
    return _BOLD.sub(r"\1", _BULLET.sub("", text)) if "**" in text else text


def with_plain_amount(line: str) -> str:
    """Drop the marks of bold type around an amount that the last words of a line follow: "is **9** cm"."""
    return _AMOUNT.sub(r"\1\2", line)


def in_stars(text: str) -> str:
    """Write bold type as ``**42**``."""
    return _OTHER_BOLD.sub(r"**\g<html>\g<lines>**", text) if "</" in text or "__" in text else text


def without_loose_marks(text: str) -> str:
    """Drop the marks of a value that nothing opened: the end of bold type, and a quotation mark after it or a stop."""
    if text.count('"') % 2 or ("”" in text and "“" not in text) or ("’" in text and "‘" not in text):
        text = _LOOSE_QUOTE.sub("", text)
    return _LOOSE_END.sub("", text) if text.count("**") == 1 else text


def without_exclamation(text: str) -> str:
    """End a line that states a number with a full stop instead of an exclamation mark: it is no factorial."""
    return _EXCLAIMED.sub(r"\1.", text) if "!" in text else text


def may_be_factorial(text: str, answer: str) -> bool:
    """Whether a line of a text ends with the answer found in it and an exclamation mark."""
    return "!" in text and re.search(rf"{re.escape(answer)}{_STRESS}!{_STRESS}\s*$", text, re.MULTILINE) is not None
