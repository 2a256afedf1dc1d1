r"""Normalization of notation, before parsing: one spelling for what can be written in many ways.

Only typography changes: math delimiters, spacing commands, ``\left``/``\right``, sizes, ``\dfrac``, Unicode signs,
full-width and superscript digits, ``{,}`` in numbers. Two texts with the same normal form mean the same. Nothing that
carries meaning is dropped: brackets, units, percent signs and digits stay.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

from rstar.grading.read.parameters import parameters_in_symbols
from rstar.grading.read.phrasings import WHOLE
from rstar.grading.read.spellings import RULES, UNICODE

_TRANSLATED = str.maketrans(UNICODE)
_SUPERSCRIPTS = dict(zip("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻ⁿ", "0123456789+-n", strict=True))
_SUBSCRIPTS = dict(zip("₀₁₂₃₄₅₆₇₈₉", "0123456789", strict=True))
_SUPERSCRIPT = re.compile(f"[{''.join(_SUPERSCRIPTS)}]+")
_SUBSCRIPT = re.compile(f"[{''.join(_SUBSCRIPTS)}]+")
_VULGAR = re.compile("[¼½¾⅐-⅞]")
_DOUBLED = re.compile(r"\\\\(?=[A-Za-z{}])")
_LOOSE_SPACE = re.compile(r"(?<![0-9A-Za-z]) (?!(?<=\d, )\d{3}(?!\d))| (?![0-9A-Za-z])")  # "12, 345" is not 12,345
_TEXT_COMMAND = re.compile(r"\\(?:text[a-z]*|mbox|mathrm|mathbf|operatorname)(?![A-Za-z])")
_PROSE = re.compile(r"(?:[^\W\d_]|[\s.,;:!?\"'`(){}]|(?<=[^\W\d_])-(?=[^\W\d_]))*")
_SINGLE = re.compile(r"\{([A-Za-z0-9])\}")
_WORDS = re.compile(r"[{ ]*(?!(?:[A-Z] ?)*[.} ]*$)[^\W\d_][^\W\d_\s.]*(?:[ .]+[^\W\d_]+)*[.} ]*")
_ARTICLES = frozenset({"the", "a", "an", "The", "An"})  # "A" may be a name
_LEADING_ARTICLE = re.compile(r"A (?=[a-z]{3,})(?!(?:wins|has|was|lies|loses|and)\b)")
_BEFORE_DIGIT = re.compile(r"(\\[a-zA-Z]+) (?=\d)")
_INVISIBLE = frozenset({"Cf", "So"})  # zero-width characters and emoji
_SAYS_NO = frozenset("❌✗✘⛔🚫")
_QUOTED = re.compile(r"\s*(?:\"[^\"]*\"|'[^']*')\s*")
_COUNTRY = re.compile(r"\b(?:US|USD) ?(?=\\?\$)")
_LONE_DOLLAR = re.compile(r"\$(?= ?\d)")
_DECIMAL_END = re.compile(r"\.\d+$")


@lru_cache(maxsize=1024)
def normal(text: str) -> str:
    """The normal form of an answer's text."""
    text = parameters_in_symbols(text)
    if not text.isascii():
        text = _ascii(text)
    if _QUOTED.fullmatch(text):
        text = text.strip()[1:-1]
    text = _COUNTRY.sub("", text)
    if text.count("$") == 1 != text.count("\\$"):
        text = _LONE_DOLLAR.sub("USD ", text)
    if "\\begin" not in text:  # without rows to end, a double backslash is an extra escape
        text = _DOUBLED.sub(r"\\", text)
    for pattern, by in RULES:
        text = pattern.sub(by, text)
    text = _without_end(text)
    for whole, spelling in WHOLE:
        if (match := whole.fullmatch(text)) is not None:
            text = spelling(match)
    return text


def _without_end(text: str) -> str:
    """Strip the punctuation at the end; an ellipsis that means continuation is kept."""
    text = text.strip()
    while text:
        shorter = text.rstrip(" ,;\\\n\t")
        if shorter.endswith(r"\ldots"):
            before = shorter.removesuffix(r"\ldots").rstrip()
            if not (before.endswith((",", r"\ldots")) or _DECIMAL_END.search(before[-40:])):
                shorter = before
        elif shorter.endswith("."):
            shorter = shorter[:-1]
        if shorter == text:
            break
        text = shorter
    return text


def squeezed(form: str) -> str:
    """Drop the spaces of a normal form that separate nothing: same string, same meaning."""
    return _LOOSE_SPACE.sub("", form)


def words(form: str) -> str:
    """The form in which non-mathematics is compared: prose in lower case without punctuation and articles.

    Anything with a digit or a mathematical sign is kept, because every character may count there.
    """
    text = _TEXT_COMMAND.sub(" ", form)
    if not _PROSE.fullmatch(text):
        return squeezed(_SINGLE.sub(r" \1", _BEFORE_DIGIT.sub(r"\1", form)))
    text = _LEADING_ARTICLE.sub("", text.strip())
    return " ".join(word.lower() for word in re.findall(r"[^\W\d_]+", text) if word not in _ARTICLES)


def prose(form: str) -> str | None:
    """The lower-case letters of a normal form that is prose; None for anything else."""
    text = _TEXT_COMMAND.sub(" ", form)
    return "".join(re.findall(r"[^\W\d_]", text.lower())) if _WORDS.fullmatch(text) else None


def _ascii(text: str) -> str:
    text = _SUPERSCRIPT.sub(lambda m: "^{" + "".join(_SUPERSCRIPTS[c] for c in m[0]) + "}", text)
    text = _SUBSCRIPT.sub(lambda m: "_{" + "".join(_SUBSCRIPTS[c] for c in m[0]) + "}", text)
    text = _VULGAR.sub(lambda m: " " + unicodedata.normalize("NFKC", m[0]), text)
    text = unicodedata.normalize("NFKC", text.translate(_TRANSLATED)).translate(_TRANSLATED)
    return text if text.isascii() else "".join(filter(_is_visible, text))


def _is_visible(character: str) -> bool:
    return character in _SAYS_NO or (unicodedata.category(character) not in _INVISIBLE and character != "\ufe0f")
