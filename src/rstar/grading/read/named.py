"""Values named by words or before colons: ``a: 3; b: 4``, ``Alice = 3, Bob = 4``, ``P(X=2) = 3/8``."""

from __future__ import annotations

import re

from rstar.grading.read.normal import words
from rstar.grading.read.vocabulary import FORMULA_WORDS, words_of

_TEXT = re.compile(r"\\(?:text[a-z]*|mathrm) ?\{([^{}]*)\}")
_NAME = re.compile(r"(?<![\w\\])(?:and )?(?P<name>\\?[A-Za-z]+(?: [A-Za-z]+){0,2}(?:_(?:\w|\{\w+\}))?) ?(?P<sign>[:=])")
_SEPARATOR_OR = re.compile(r"(?:, ?)?(?: ?\\text ?\{ ?or ?\} ?| or )")
_LETTERS = re.compile(r"([a-z]) ?= ?([^=,<>:]+?) ?(?=,| and |$)")
_CHAIN = re.compile(
    r"(?<![\w=\\])(?P<names>(?:[a-z] ?= ?){2,6})(?P<value>(?:[^=,;<>:A-Za-z\\]|\\(?:frac|sqrt|pi)(?![a-z]))+)"
    r"(?= ?(?:,|$|or\b|and\b|\\text))"
)
"""Letters that all equal one number: ``x = y = 1``."""
_CHAINS_APART = re.compile(r" ?(?:,|\band\b) ?(?=([a-z])(?: ?= ?[a-z])+ ?= ?(?![a-z]))")
_SEPARATORS_LAST = re.compile(r"(?:[,; ]|\band\b)+$")
_WORD = re.compile(r"(?![A-Z]+$)[A-Za-z ]{3,}")
_SIGNS = re.compile(r"[:=<>]|\\(?:[lg]eq?|approx|in)(?![a-z])")
_FUNCTION = re.compile(
    r"(?P<name>\\(?:max|min|gcd|lcm|sup|det|dim|deg|arg)(?![A-Za-z])[^=<>]*|\\operatorname ?\{[A-Za-z]+\}[^=<>]*"
    r"|(?:[dsvNSTDV]|\\(?:phi|varphi|tau|sigma|mu|omega|Omega)) ?\(\d{1,9}\)"
    r"|[PE] ?\([^()]*(?:[=<>|,]|\\(?:mid|[lg]eq?|cup|cap)(?![a-z]))[^()]*\)"
    r"|n ?\([A-Z' ]*\\c[ua]p(?![a-z])[^()]*\)|\|[A-Z' ]*\\c[ua]p(?![a-z])[^|]*\|) ?= ?(?P<value>[^=<>]+)"
)
_OF_LIMIT = re.compile(
    r"(?P<name>\\(?:i{1,3}nt|oint)(?![a-z])[^=<>]*?"
    r"d ?(?:[A-Za-z]|\\(?:[a-z]+|(?:mathbf|vec|boldsymbol) ?\{ ?[A-Za-z] ?\}))(?:\} ?\{[^=<>]*\})?"
    r"|\\frac ?\{ ?d ?\} ?\{ ?d ?[a-z] ?\}[^=<>]*?"
    r"|\\lim(?![a-z])[^=<>]*?) ?= ?(?:[^=<>]*=)*?(?P<value>[^=<>]+)"
)
"""An integral, a derivative or a limit, which may be rewritten before it is evaluated."""
_SET_NAME = (
    r"(?:[A-Z()' ,]|\^\{?c\}?|\\overline ?\{|\}|\\mathbb\{[RZNQC]\}"
    r"|\\(?:cup|cap|setminus|times|triangle|oplus)(?![a-z])"
    r"|\\complement ?(?:_ ?\{? ?(?:[A-Z]|\\mathbb\{R\}) ?\}?)?|C_\{?[UIRS]\}?)+"
)
_SET = r"(?:\\?[{[(\]]|\\(?:emptyset|varnothing|mathbb)(?![a-z]))"
_OF_SETS = re.compile(
    rf"(?P<name>(?=[^=]*(?:\\(?:cup|cap|setminus|times|triangle|oplus|complement)(?![a-z])|C_)){_SET_NAME})= ?"
    rf"(?:{_SET}[^=]*= ?)*(?P<value>{_SET}[^=<>]*|\\\{{ ?[a-z] ?(?:\\mid|\\vert|\||:)[^=]*\\\}})"
)
_OF_COMPLEMENTS = re.compile(
    r"(?P<name>[A-Z](?: ?- ?[A-Z]|'|\^\{?c\}?)|\\overline ?\{[^=]+\}) ?= ?(?P<value>\\?\{[^=<>]*\})"
)
"""Sets that are computed from sets with a name; with fewer signs, if the value is in braces."""
_PART = re.compile(r"(?:^|[;,.]? |[;,])\((\d|[a-h]|i{1,3}|iv|v)\) ?(?!\()")
_NO_PART = re.compile(r"[-+*/^_=<>)]?|[+*/^_=<>)].*|(?:.* )?(?:and|or)")
_LABELS = ("123456789", "abcdefgh", ("i", "ii", "iii", "iv", "v"))
_NO_NAMES = words_of(
    "except impossible not but below above at than perhaps unless if when any all where for no or wrong incorrect"
    " false guess given known assume suppose check step note hint recall example let try attempt trial start before old"
    " excluded forbidden rejected discarded extraneous invalid former previous"
)


def is_label(name: str) -> bool:
    """Whether words before a value only name it: "Total cost: 5", but not "anything except n = 5"."""
    parts = name.lower().split()
    return not (_NO_NAMES & set(parts) or FORMULA_WORDS & set(parts))


def is_word(name: str) -> bool:
    """Whether a name consists of words, not of a letter, a Greek letter, or the ends of a segment."""
    return _WORD.fullmatch(name) is not None


def named_values(form: str) -> list[tuple[str, str]] | None:
    """Name and value of each part of a list like ``a: 3; b: 4``; None for other forms and plain mathematics."""
    form = _TEXT.sub(r"\1", form)
    marks = list(_NAME.finditer(form))
    if len(marks) < 2 or marks[0].start() or not any(mark["sign"] == ":" or is_word(mark["name"]) for mark in marks):
        return None
    ends = [mark.start() for mark in marks[1:]] + [len(form)]
    values = [_SEPARATORS_LAST.sub("", form[mark.end() : end]).strip() for mark, end in zip(marks, ends, strict=True)]
    names = [mark["name"] for mark in marks]
    if not all(values) or len(set(names)) < len(names) or not all(map(is_label, names)):
        return None
    return None if any(map(_SIGNS.search, values)) else list(zip(names, values, strict=True))


def numbered_parts(form: str) -> list[str] | None:
    """The values of ``(1) 5; (2) 12`` in label order; None for any other form."""
    marks = list(_PART.finditer(form))
    if len(marks) < 2 or marks[0].start():
        return None
    ends = [mark.start() for mark in marks[1:]] + [len(form)]
    values = {mark[1]: form[mark.end() : end].strip(" ;,") for mark, end in zip(marks, ends, strict=True)}
    if len(values) < len(marks) or any(map(_NO_PART.fullmatch, values.values())):
        return None
    for labels in _LABELS:
        if set(labels[: len(values)]) == set(values):
            return [values[label] for label in labels[: len(values)]]
    return None


def alternatives(form: str) -> list[list[tuple[str, str]]] | None:
    """``x=1, y=2 or x=2, y=1`` as lists of names and values; None for any other form."""
    found = [_LETTERS.findall(part) for part in _SEPARATOR_OR.split(form)]
    names = [[name for name, _ in values] for values in found]
    if len(found) < 2 or len(names[0]) < 2 or any(sorted(letters) != sorted(names[0]) for letters in names):
        return None
    expected = "".join(f"{name}={value}," for values in found for name, value in values)
    flat = _SEPARATOR_OR.sub(",", form).replace(" ", "").replace("and", ",")
    return found if expected.replace(" ", "") == f"{flat}," else None


def without_chains(form: str) -> str | None:
    """Rewrite ``x=y=1 or x=y=-1`` as ``x=1,y=1 or x=-1,y=-1``; None if the form has no such chain."""

    def separate(match: re.Match[str]) -> str:
        names = re.findall("[a-z]", match["names"])
        values = ",".join(f"{name}={match['value'].strip()}" for name in names)
        return f"{values} " if len(set(names)) == len(names) else match[0]

    text = _CHAINS_APART.sub(" or ", form) if _CHAINS_APART.search(form) is not None else form
    found = _CHAIN.sub(separate, text).strip()
    return found if found != text and "=," not in found else None


def of_function(form: str) -> tuple[str, str] | None:
    r"""Name and value of a function beyond the parser: ``\gcd(4, 6) = 2``, ``P(X = 2) = 3/8``, ``A \cap B = \{1\}``."""
    match = (
        _FUNCTION.fullmatch(form)
        or _OF_LIMIT.fullmatch(form)
        or _OF_SETS.fullmatch(form)
        or _OF_COMPLEMENTS.fullmatch(form)
    )
    return None if match is None else (words(match["name"]), match["value"])
