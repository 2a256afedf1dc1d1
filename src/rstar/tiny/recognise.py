"""Recognises questions whose wording the bundled model was trained on, and names their family.

Every trained template becomes a regular expression that matches the questions it can make: the template's own words
stay, its choices become alternatives, and a field matches numbers, single letters, punctuation and *value words*
(names, nouns and those in `VALUE_WORDS`). So every wording of a template matches; a question with any other word, or
with the same words in another order, does not.

RE2 matches in a time that is linear in the question's length. Python's own `re` goes back and forth between adjacent
fields: a question of 500 characters could hold it for minutes.

Numbers must have the form that the family's numbers have: nearly all families have whole numbers above 0. Their size is
not checked, nor whether the question makes sense.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache, lru_cache
from typing import Any

from rstar.tiny.family import Family
from rstar.tiny.generate import families
from rstar.tiny.words import ANIMALS, BAKED, BOXES, CREW, DEAR, PEOPLE, PLACES, PUPILS, SMALL, THINGS, TOWNS

VALUE_WORDS = {
    "consecutive": "whole even odd numbers multiples of smallest largest",
    "calculate": "add adds adding subtract subtracts subtracting multiply multiplies multiplying divide divides "
    "dividing by square squares squaring the result",
    "bag": "one back it is not both are red have the same colour at least of each has another",
    "codes": "once one",
    "dice": "two three Two Three dice with sides each at most least even more than",
    "multiples": "or but not of by both",
    "divisors": "odd even",
    "remainders": "remainder when divided by in rows of is are left over",
    "assign": "Worker can do or Flat suits cat Child likes Door takes Place may hold",
    "queens": "In row column must be used Not allowed as",
    "registers": "Button adds subtracts multiplies divides by if there is no rest",
    "area": "both size round",
    "inventory": "half third quarter fifth",
    "recipe": "flour sugar milk oats butter cocoa honey water",
    "shopping": "at for each cost",
    "units": "weeks days hours minutes seconds km kg cm mm ml grams litres yards feet inches holiday work music film "
    "ribbon wire rope cloth wood rice juice",
}
"""Words that a family's fields may contain besides names, nouns, places and ``and``."""

NUMBER_FORMS = {
    re.compile(r"\d\.\d"): {"shopping"},
    re.compile(r"\d,\d"): set[str](),
    re.compile(r"(?<![\w)\]])[-−]\d"): {"linear"},
    re.compile(r"(?<![\d.])0(?![\d.]*\d)"): {"latin", "registers", "sudoku4", "grid-paths"},
}
"""Decimal points, commas within numbers, signs and zeros; each with the families whose questions can have them."""

LONGEST = 2_000
"""Maximum length of a template's question, in characters."""

_MARK = "\x01"
"""Inserted before every value word and single letter of a question for matching."""

_WORD = re.compile("[A-Za-z]+")
_VALUE = rf"(?:[ -@²·×÷\[-`{{-~]|{_MARK}[A-Za-z]+)*"
_PART = re.compile(r"\{\??(?P<name>\w+)(?::(?P<spec>\w+))?\}|[A-Za-z]+|\s+|.", re.DOTALL)
_CHOICE = re.compile(r"\w*(?:<[^<>\[\]]*>|\[[^<>\[\]]*\])\w*")
_FIELD = re.compile(r"\{[^{}]*\}")


def recognise_family(question: str) -> str | None:
    """Name of a family with a trained template that can make this question, or None."""
    question = " ".join(question.split())
    words = frozenset(_WORD.findall(question))
    if not question or len(question) > LONGEST or _MARK in question:
        return None
    allowed = [names for form, names in NUMBER_FORMS.items() if form.search(question)]
    for family in families().values():
        if any(family.name not in names for names in allowed):
            continue
        texts = [text for text, needed in _templates(family.name) if needed <= words]
        if texts:
            marked = _marked(question, _value_words(family.name))
            if any(_pattern(family.name, text).fullmatch(marked) for text in texts):
                return family.name
    return None


def _marked(question: str, values: frozenset[str]) -> str:
    return _WORD.sub(lambda word: _MARK * (len(word[0]) == 1 or word[0] in values) + word[0], question)


@cache
def _templates(name: str) -> list[tuple[str, frozenset[str]]]:
    """Trained templates of a family, each with the words common to all its questions."""
    return [(text, _fixed_words(text)) for text in families()[name].templates.values()]


def _fixed_words(text: str) -> frozenset[str]:
    return frozenset(_WORD.findall(_FIELD.sub(" ", _without_choices(text))))


def _without_choices(text: str) -> str:
    found = 1
    while found:
        text, found = _CHOICE.subn(" ", text)
    return text


@cache
def _sure_fields(name: str) -> frozenset[str]:
    """Fields that all drafts of a family have: those that some template always needs."""
    family = families()[name]
    texts = [_without_choices(text) for text in (*family.templates.values(), *family.held_templates.values())]
    return frozenset(field for text in texts for field in re.findall(r"\{(\w+)", text))


@cache
def _value_words(name: str) -> frozenset[str]:
    """Words that may fill a field of this family; single letters always may."""
    nouns = {*THINGS, *ANIMALS, *BAKED, *BOXES, *CREW, *DEAR, *PUPILS, *SMALL}
    forms = [format(noun, spec) for noun in nouns for spec in ("", "s", "S", "A")]
    others = [person.name for person in PEOPLE] + [*PLACES, *TOWNS]
    text = " ".join([*forms, *others, "he she his her him He She His Her an and", VALUE_WORDS.get(name, "")])
    return frozenset(word for word in _WORD.findall(text) if len(word) > 1)


@lru_cache(maxsize=1024)
def _pattern(name: str, text: str) -> Any:
    import re2  # only the bundled model needs it

    return re2.compile(f"(?s){_expression(text, families()[name])}")


def _expression(text: str, family: Family) -> str:
    """Regular expression of a template."""
    (expression,), _ = _alternatives(_PART.finditer(text), family)
    return expression


def _alternatives(parts: Iterator[re.Match[str]], family: Family, end: str = "") -> tuple[list[str], list[set[str]]]:
    """Parse the alternatives of a choice, up to its `end`: their expressions, and the fields that each needs."""
    expressions, fields = [""], list[set[str]]([set()])
    for part in parts:
        found, name = part[0], part["name"]
        if found == end:
            break
        if found == "|" and end:
            expressions.append("")
            fields.append(set())
            continue
        if name:
            fields[-1].add(name)
        if found in ("<", "["):
            expressions[-1] += _choice(parts, family, found)
        elif found.isspace():  # except at the start, an absent part may leave no space
            expressions[-1] += " ?" if expressions[-1] or not end else " "
        else:
            expressions[-1] += _piece(part, family)
    return expressions, fields


def _choice(parts: Iterator[re.Match[str]], family: Family, opened: str) -> str:
    """Expression of a choice; a ``[...]`` is optional unless the fields of its last alternative are always present."""
    inner, fields = _alternatives(parts, family, ">" if opened == "<" else "]")
    optional = opened == "[" and not fields[-1] <= _sure_fields(family.name)
    return f"(?:{'|'.join(inner)})" + "?" * optional


def _piece(part: re.Match[str], family: Family) -> str:
    found = part[0]
    if found.startswith("{?"):
        return ""
    if part["name"]:
        told = family.stories.get(part["spec"] or "")
        return _VALUE if told is None else _story(told, family)
    return f"{_MARK}?{found}" if found.isalpha() else re.escape(found)


def _story(told: Mapping[str, str], family: Family) -> str:
    """Expression of a story: the opening sentence and any others, each capitalised whatever its template has."""
    kinds = {kind: _expression(text, family) for kind, text in told.items()}
    start = kinds.pop("start")
    return f"(?i:{start}(?: (?:{'|'.join(kinds.values())}))+)"
