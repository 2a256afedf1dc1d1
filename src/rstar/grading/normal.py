r"""One spelling for what is written in many ways, before anything is parsed.

Only typography is touched: math delimiters, spacing commands, ``\left``/``\right``, sizes, ``\dfrac``, Unicode signs,
full-width and superscript digits, ``{,}`` in numbers. Two texts with the same normal form mean the same. Nothing that
carries meaning is dropped: brackets, units, percent signs and digits stay.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

from rstar.grading.spellings import RULES, UNICODE, WHOLE

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
_INVISIBLE = frozenset({"Cf", "So", "Mn"})  # zero-width characters, emoji and the selectors of their variants
_QUOTED = re.compile(r"\s*(?:\"[^\"]*\"|'[^']*')\s*")
_COUNTRY = re.compile(r"\b(?:US|USD) ?(?=\\?\$)")
_LONE_DOLLAR = re.compile(r"\$(?= ?\d)")
_END = re.compile(r"(?:[\s,;]|\\+|(?<!,)(?<!, )(?<!\.\d)(?<!\.\d\d)(?:\.{2,}|\\ldots ?)|(?<!\.)\.(?!\.))+$")


@lru_cache(maxsize=1024)
def normal(text: str) -> str:
    """The normal form of an answer's text."""
    if not text.isascii():
        text = _ascii(text)
    if _QUOTED.fullmatch(text):
        text = text.strip()[1:-1]
    text = _COUNTRY.sub("", text)
    if text.count("$") == 1 != text.count("\\$"):
        text = _LONE_DOLLAR.sub("USD ", text)
    if "\\begin" not in text:  # where no rows end, a doubled backslash is an escape too many
        text = _DOUBLED.sub(r"\\", text)
    for pattern, by in RULES:
        text = pattern.sub(by, text)
    text = _END.sub("", text).strip()
    for whole, spelling in WHOLE:
        if (match := whole.fullmatch(text)) is not None:
            text = spelling(match)
    return text


def squeezed(form: str) -> str:
    """A normal form without the spaces that separate nothing: same string, same meaning."""
    return _LOOSE_SPACE.sub("", form)


def words(form: str) -> str:
    """A normal form that is not mathematics, for comparison: prose in lower case without punctuation and articles.

    Anything with a digit or a mathematical sign in it stays as it is: there every character may count.
    """
    text = _TEXT_COMMAND.sub(" ", form)
    if not _PROSE.fullmatch(text):
        return _SINGLE.sub(r"\1", squeezed(form))
    return " ".join(word for word in re.findall(r"[^\W\d_]+", text.lower()) if word not in ("the", "a", "an"))


def prose(form: str) -> str | None:
    """The letters of a normal form that is prose, in lower case; None for anything else."""
    text = _TEXT_COMMAND.sub(" ", form)
    return "".join(re.findall(r"[^\W\d_]", text.lower())) if _WORDS.fullmatch(text) else None


def _ascii(text: str) -> str:
    text = _SUPERSCRIPT.sub(lambda m: "^{" + "".join(_SUPERSCRIPTS[c] for c in m[0]) + "}", text)
    text = _SUBSCRIPT.sub(lambda m: "_{" + "".join(_SUBSCRIPTS[c] for c in m[0]) + "}", text)
    text = _VULGAR.sub(lambda m: " " + unicodedata.normalize("NFKC", m[0]), text)
    text = unicodedata.normalize("NFKC", text.translate(_TRANSLATED)).translate(_TRANSLATED)
    return text if text.isascii() else "".join(c for c in text if unicodedata.category(c) not in _INVISIBLE)
