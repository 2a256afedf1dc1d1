"""Option letters followed by an explanation: "B. The function is even.", "BD，A选项错在定义域".

For gold answers that are only letters, when nothing else was found. An explanation names another letter only to say
what is wrong with it, and retracts nothing.
"""

from __future__ import annotations

import re

from rstar.grading.find.hedges import is_hedged
from rstar.grading.find.languages import in_english

MAX_LENGTH = 600
MIN_WORDS = 3
_LETTER_FIRST = re.compile(
    r"(?:(?i:the )?(?i:best|correct|right|final)? ?(?i:answer|option|choice)?(?i: is)?:? ?)?"
    r"[\s*]*\(?(?P<letter>[A-H])\)?[\s*]*(?:[.:;,]|—|–|\s-)\s+(?P<remark>\S.*)"
)
_CHINESE_CHOICE = re.compile(
    r"(?:(?:选项?|答案)[是为:：\s]*|^\s*)(?P<letters>[A-H](?:\s*(?:[、和]\s*)?[A-H])*)\s*(?P<remark>[,，;；。.(（].*)$"
)
_LETTER = re.compile(r"(?<![A-Za-z])[A-H](?![A-Za-z'’])")
_ARTICLE = re.compile(r"(?:^|[.!?:] )A (?=[a-z]{2})")
_DOUBT = re.compile(
    r"\b(?:answers?|options?|choices?|choose|pick|correct|right|wrong|incorrect|false|untrue|mistake\w*|fails?|failed"
    r"|reject\w*|eliminat\w*|exclud\w*|ruled?|discard\w*|contradict\w*|impossible|cannot|can't|actually|wait|no"
    r"|not sure|sorry|oops|but|however|although|except|unless|if|maybe|perhaps|probably|or"
    r"|too (?:big|small|large|low|high)|only (?:partly|partially)|does not (?:work|hold|fit|satisfy)|doesn't"
    r"|isn't|is not|are not|rather|instead|also)\b",
    re.IGNORECASE,
)
_FOREIGN_DOUBT = re.compile(
    r"\b(?:nein|doch|aber|oder|non|ou|mais|sauf|pero|sino|não|nem|mas|ma|falsch\w*|fausse?|fals[aoe]|errad[ao]"
    r"|sbagliat\w*|(?:in|un)?[ck]orr?e[ck]t\w*|incorret[ao]|richtig\w*)\b",
    re.IGNORECASE,
)
"""Words of other languages that the translation keeps and that may take the letter back."""
_STEP = re.compile(
    r"(?:find|compute|calculate|let|consider|assume|suppose|draw|use|solve|show|prove|given|we|first|now|next|introduction)\b",
    re.IGNORECASE,
)
_DIGIT_LAST = re.compile(r"[=\d$]\s*\W*$")
"""A remark that ends in a value, which may be an answer of its own."""
_FAULT = re.compile(r"(?:选?项)?[^,，;；。.]{0,20}?(?:错|不|误|矛盾|反例|排除|舍)")
_NOT_CHOSEN = re.compile("(?:不[能该应可要]?|别|勿)选")
_CHINESE_DOUBT = re.compile("也|或|可能|以及|还有|不对|应该|漏|都|均|其实|但|正确")


def explained_letter(text: str) -> str | None:
    """The letter that a text begins with, if only an explanation follows; None if in doubt."""
    match = _LETTER_FIRST.fullmatch(text.strip()) if len(text) <= MAX_LENGTH else None
    if match is None or "\n" in match["remark"]:
        return None
    remark = _ARTICLE.sub("", match["remark"])
    if _DOUBT.search(remark) or _STEP.match(remark) or _DIGIT_LAST.search(remark) or "?" in remark:
        return None
    if len(re.findall(r"[^\W\d_]{2,}", remark)) < MIN_WORDS:
        return None
    return None if set(_LETTER.findall(remark)) - {match["letter"]} else match["letter"]


def translated_letter(text: str) -> str | None:
    """`explained_letter` of a text in another language: "La opción correcta es la D: …"; None for an English text."""
    english = in_english(text) if len(text) <= MAX_LENGTH else text
    match = _LETTER_FIRST.fullmatch(english.strip()) if english != text else None
    if match is None or _FOREIGN_DOUBT.search(match["remark"]) or is_hedged(match["remark"], ""):
        return None
    return explained_letter(english)


def explained_letters(text: str) -> str | None:
    """The letters chosen by the last line of a Chinese text that says why the others are wrong."""
    lines = text.strip()[-MAX_LENGTH:].splitlines()
    match = _CHINESE_CHOICE.search(lines[-1]) if lines else None
    if match is None or _NOT_CHOSEN.search(lines[-1]) or _CHINESE_DOUBT.search(match["remark"]):
        return None
    chosen = re.findall("[A-H]", match["letters"])
    remark = match["remark"]
    others = list(_LETTER.finditer(remark)) or list(re.finditer("[A-H]", remark))
    refuted = all(other[0] not in chosen and _FAULT.match(remark, other.end()) for other in others)
    return "".join(chosen) if refuted and others and len(set(chosen)) == len(chosen) else None
