"""The only number of a short last sentence, whatever its verb: "Juan recorrió 26 kilómetros en total."

Only for answers that otherwise read as words. The sentence must have no formula, no other number in digits or words,
and nothing that negates, bounds, compares, hedges, approximates or divides the number (`hedges`).
"""

from __future__ import annotations

import re

from rstar.grading.find.amounts import only_amount
from rstar.grading.find.hedges import is_hedged, is_relative
from rstar.grading.find.sentences import last_sentence
from rstar.grading.read.numerals import is_number_word

MAX_LENGTH = 140
MIN_WORDS = 2
"""Minimum words of a sentence beside the number."""
_LABEL = re.compile(r"[*_ ]*[^\W\d_][^\W\d_ ]*(?: [^\W\d_]+){0,2}[*_]* ?: ?[*_]*")
_WORD = re.compile(r"[^\W\d_]+")
_PLAIN = re.compile(r"(?:[A-Za-zÀ-ÖØ-öø-ÿœŒß\d ,.'’%€:;-])*")
_CHANGE_BY = re.compile(r"\bby\s*$")
_WHOLE = re.compile(r"^ of (?:all )?(?:the|our|its|his|her|their|these) |\b(?:to|by|with|from|at|in|on)\b(?= [^\W\d_])")
"""Words around a percentage that say of what it is a part, or by what something changes."""
_JOINED = re.compile(r"(?:[-–'’]|\s*(?:[²³º°]|\d))")
"""Text after a number that makes it part of a word."""


def only_number(line: str, *, percentages: bool = False) -> str | None:
    """The only number of a line's last sentence, with its unit; None if something may change it.

    Args:
        line: the line.
        percentages: a percentage may begin the sentence ("5% of the bolts are faulty") or follow "by".
    """
    sentence = last_sentence(line.strip())
    sentence = sentence[label.end() :] if (label := _LABEL.match(sentence)) is not None else sentence
    if len(sentence) > MAX_LENGTH or _PLAIN.fullmatch(sentence.strip("*_ ")) is None:
        return None
    found = only_amount(sentence)
    if found is None:
        return None
    start, amount = found
    before, after = sentence[:start], sentence[start + len(amount) :]
    percentage = percentages and amount.endswith("%")
    if percentage:
        before, after = _CHANGE_BY.sub(" ", before), _WHOLE.sub(" ", after)
    words = _WORD.findall(f"{before} {after}")
    if _JOINED.match(after) or len(words) + (" " in amount) < MIN_WORDS or not words:
        return None
    if is_hedged(before, after) or is_relative(before, after) or any(map(is_number_word, words)):
        return None
    named = _WORD.findall(before)[-1:]
    return amount if percentage or (named and named[0][0].islower()) else None
