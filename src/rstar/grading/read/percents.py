"""Percentages in words: "twenty-five percent" is 25%, "soixante-quinze pour cent" 75%, 百分之十二点五 12.5%.

The last sentence is read if it has no digits. Any other number in words in it ("from five or six percent") leaves the
sentence as it is.
"""

from __future__ import annotations

import re
from fractions import Fraction
from functools import cache

from rstar.grading.read.number_words import number_in_words
from rstar.grading.read.numerals import (
    HAN_DIGITS,
    HAN_RUN,
    LANGUAGES,
    han_number,
    is_number_word,
    last_sentence_at,
    run_of,
)
from rstar.grading.read.vocabulary import CARDINALS, DENOMINATORS

_WORD = "|".join(sorted(CARDINALS, key=len, reverse=True))
_DIGIT = "|".join(list(CARDINALS)[:10])
_PARTS = {"a half": "1/2", "one half": "1/2", "a quarter": "1/4", "one quarter": "1/4", "three quarters": "3/4"}
_ENGLISH = re.compile(
    rf"(?<![\w-])(?P<minus>(?:minus|negative) )?(?P<run>(?:a hundred|(?:{_WORD}))(?:(?:[- ]| and )"
    rf"(?:{_WORD}|hundred|thousand))*)(?: and (?P<part>{'|'.join(_PARTS)})| point(?P<decimals>(?: (?:{_DIGIT}))+))?"
    r" (?:percent|per cent)(?![\w-])",
    re.IGNORECASE,
)
_CHINESE = re.compile(rf"百分之({HAN_RUN})(?:点([{''.join(HAN_DIGITS)}]+))?(?![{HAN_RUN[1:-2]}几多点])")
_POINTS = {"French": ("virgule", "pour cent"), "German": ("Komma", "Prozent"), "Spanish": ("coma", "por ciento")}
_MARKS = {None: "cent", "French": "cent", "German": "rozent", "Spanish": "ciento"}
"""Letters without which a text has no percentage in words."""
_REMAINDER = re.compile(
    rf"\b(?:(?:{'|'.join(DENOMINATORS)})s?|hundreds?|thousands?|millions?|point|virgule|komma|coma|millones|mille|mil|tausend"
    r"|z[eé]ro|cero|null|medi[oa]|demie?|halb\w*|einhalb|tiers|quarts?|tercios?|cuartos?|drittel|viertel)\b",
    re.IGNORECASE,
)
"""Words that belong to another number, or to a part of the percentage."""
_NO_NUMBERS = frozenset({"one", "un", "ein", "uno", "neuf"})
"""Number words that are also pronouns, articles or adjectives."""


@cache
def _foreign(name: str) -> re.Pattern[str]:
    """The pattern of percentages in a language, compiled when first needed."""
    comma, percent = _POINTS[name]
    run = run_of(LANGUAGES[name])
    return re.compile(
        rf"(?<![\w-])(?P<minus>(?:moins|minus|menos) )?(?P<run>{run})(?: {comma} (?P<decimals>{run}))?"
        rf" {percent}(?![\w-])",
        re.IGNORECASE,
    )


def percent_in_digits(text: str, language: str | None = None) -> str:
    """Write the percentages in words of the last sentence in digits; without a language, the English ones."""
    mark = _MARKS.get(language)
    if mark is None or mark not in text:
        return text
    pattern = _ENGLISH if language is None else _foreign(language)
    start, sentence = last_sentence_at(text.rstrip())
    if any(sign.isdigit() or sign in "$\\" for sign in sentence):
        return text

    def digits(match: re.Match[str]) -> str:
        value = _english_value(match) if language is None else _foreign_value(match, language)
        return match[0] if value is None else f"{'-' if match['minus'] else ''}{value}%"

    changed = pattern.sub(digits, sentence)
    others = set(re.findall(r"[^\W\d_]+", changed.lower())) - _NO_NUMBERS
    return text if _REMAINDER.search(changed) or any(map(is_number_word, others)) else text[:start] + changed


def chinese_percent_in_digits(text: str) -> str:
    """Write percentages in Chinese digits with a percent sign: 百分之七十五 is 75%."""

    def digits(match: re.Match[str]) -> str:
        whole = han_number(match[1])
        decimals = "".join(str(HAN_DIGITS[sign]) for sign in match[2] or "")
        return match[0] if whole is None else f"{whole}{'.' if decimals else ''}{decimals}%"

    return _CHINESE.sub(digits, text) if "百分之" in text else text


def _english_value(match: re.Match[str]) -> str | None:
    run = match["run"].lower().replace("-", " ").removeprefix("a ")
    value = number_in_words(run.split())
    if value is None or value.denominator > 1:
        return None
    if match["part"]:
        return str(float(value + Fraction(_PARTS[match["part"].lower()])))
    decimals = "".join(str(CARDINALS[word]) for word in (match["decimals"] or "").lower().split())
    return f"{value}{'.' if decimals else ''}{decimals}"


def _foreign_value(match: re.Match[str], name: str) -> str | None:
    value = LANGUAGES[name].value(match["run"])
    decimals = LANGUAGES[name].value(match["decimals"]) if match["decimals"] else None
    if value is None or (match["decimals"] and decimals is None):
        return None
    return f"{value}{'' if decimals is None else '.'}{'' if decimals is None else decimals}"
