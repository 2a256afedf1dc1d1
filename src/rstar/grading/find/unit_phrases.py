r"""The unit after a number in prose: "square feet", "kilometers per hour", "metros cuadrados", ``m/s``, ``cm^2``.

Money keeps no rate ("5 dollars per hour" is 5 dollars), and a word that is not a unit ends the phrase.
"""

from __future__ import annotations

import re

from rstar.grading.read.units import LETTERS, PER, POWERS_AFTER, is_known, is_measure

_WORD = r"[^\W\d_²³]+"
_POWER = rf"(?:²|³|\^\{{?-?[23]\}}?| (?:{'|'.join(POWERS_AFTER)})(?!\w))?"
_PHRASE = re.compile(
    rf"\s*\$?\s*(?:\\(?:text|mathrm)\{{\s*)?(?P<unit>(?:(?:square|cubic) )?(?P<name>{_WORD}){_POWER})"
    rf"(?![\w²³])(?!\.[a-z])"
    rf"(?P<rate>(?: (?:{'|'.join(PER)}) (?:(?:square|cubic) )?| ?/ ?)(?P<divisor>{_WORD}){_POWER}(?![\w²³]))?"
)
_LETTER_UNITS = frozenset("mgshLl")
"""One-letter units that follow a number in prose."""


def unit_phrase(text: str, place: int, *, letters: bool = False) -> tuple[int, str] | None:
    """Start and text of the unit that follows at a place; None if no known unit follows.

    Args:
        text: the text.
        place: the end of a number.
        letters: accept a letter alone as a unit; ``m/s`` and ``m^2`` are units anywhere.
    """
    match = _PHRASE.match(text, place)
    if match is None:
        return None
    letters = letters or match["rate"] is not None or match["unit"] != match["name"]
    if not (is_known(match["name"]) or (letters and match["name"] in _LETTER_UNITS)):
        return None
    by = match["divisor"] or ""
    divided = is_measure(match["name"]) and (is_known(by) or by in LETTERS)
    return match.start("unit"), match["unit"] + (match["rate"] if divided else "")
