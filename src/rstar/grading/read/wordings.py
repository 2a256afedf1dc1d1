r"""Answers of words with values, "center (2,-1), radius 3": one typography for the whole, and the values by name.

``\text``, ``$``, quotes, bold type, a capital first letter and the article "the" do not count, and "and" is a comma.
The order counts, except of values with names.
"""

from __future__ import annotations

import re

from rstar.grading.read.vocabulary import FORMULA_WORDS, words_of

_UPRIGHT = re.compile(r"\\(?:text[a-z]*|mathrm|mathbf|mbox) ?\{([^{}]*)\}")
_WORD = re.compile(r"(?<![\\A-Za-z])[A-Za-z]{3,}")
_ARTICLE = re.compile(r"(?<![\\A-Za-z])the\b")
_QUOTES = re.compile(r"\"(?=[^\d\"]*[^\W\d_][^\"]*\")([^\"]*)\"|\*\*([^*]+)\*\*")
_COMMA = re.compile(r"\s*(?:[,;]\s*(?:\band\b)?|\band\b)\s*")
_SPELLED = {r"\geq": r"\ge", r"\leq": r"\le", r"\neq": r"\ne", r"\geqslant": r"\ge", r"\leqslant": r"\le"}
_SIGN = re.compile(r"\\(?:[gl]eq(?:slant)?|neq)(?![A-Za-z])")
_LOOSE = re.compile(r"(?<![0-9A-Za-z]) | (?![0-9A-Za-z])")
_SEPARATOR = re.compile(r",(?=[a-z]{3})")
"""A comma before a word, and so outside brackets."""
_NAMES = words_of(
    "max maximum min minimum center centre radius diameter vertex focus slope intercept mean median mode length width",
    "height base area perimeter volume amplitude period axis sum product quotient remainder numerator denominator",
    "degree rank speed",
)
"""Words that name a value without a sign between."""
_FIRST_NAME = re.compile(rf"(?:\\text ?\{{ ?)?(?:\*\*)?(?:the )?(?:{'|'.join(sorted(_NAMES))})", re.IGNORECASE)
_NAMED = re.compile(
    rf"(?P<name>(?:{'|'.join(sorted(_NAMES))})(?: value)?) ?(?:=|:|is\b)? ?"
    r"(?P<value>[-\d(\[\\](?:(?!(?<![\\A-Za-z])[A-Za-z]{2}).)*)"
)


def wording(form: str) -> str | None:
    """The words and values of a normal form in one typography; None if it has no word."""
    if all(name in FORMULA_WORDS for name in _WORD.findall(form)):
        return None
    text = _QUOTES.sub(r" \1\2 ", _UPRIGHT.sub(r" \1 ", form))
    text = _SIGN.sub(lambda match: _SPELLED[match[0]], text)
    text = _WORD.sub(lambda match: match[0] if match[0].isupper() else match[0].lower(), text)
    text = _ARTICLE.sub("", text)
    text = _COMMA.sub(",", re.sub(r"\s+", " ", text))
    return _LOOSE.sub("", text.strip(" ,."))


def values_by_word(form: str) -> list[tuple[str, str]] | None:
    """Name and value of each part of "center (2,-1), radius 3"; None for any other form."""
    if ("," not in form and "and" not in form) or _FIRST_NAME.match(form) is None:
        return None
    text = wording(form)
    parts = [_NAMED.fullmatch(part) for part in _SEPARATOR.split(text)] if text else []
    values = [(part["name"], part["value"]) for part in parts if part is not None]
    names = {name for name, _ in values}
    return values if 1 < len(values) == len(parts) == len(names) else None
