"""The template language in which the worded families are written, and the decorator that makes a `Family` of one.

A family is a list of templates and a function that draws a `Draft`. Templates come as one text, each opened by ``- ``
at the start of a line; line breaks count as spaces. A template has

* ``{field}``, ``{field:spec}``: a field of the draft (people, nouns and lists have specs, see `rstar.tiny.words`);
* ``<a|b|c>``: one of these wordings, at random (may not contain brackets);
* ``[a|b|c]``: the first alternative of which the draft has every field, or nothing. So one template serves five
  levels: what a level does not have is left out;
* ``{?field}``: no text, only the condition for ``[...]``.

The answer of a draft comes from a solver of its own (a formula or a search over the drawn values), never from the
steps: the tests run the steps and compare.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Protocol

from rstar.tiny.family import Family, Instance, Kind

_WORDINGS = re.compile(r"<([^<>\[\]]*)>")
_GROUP = re.compile(r"\[([^\[\]]*)\]")
_FIELD = re.compile(r"\{\??(\w+)")
_LOOSE = re.compile(r" (?=[.,;?!](?!\.))")
_OPENING = re.compile(r"^\s*- ", re.MULTILINE)
_CONDITION = re.compile(r"\{\?\w+\}")


@dataclass(frozen=True, slots=True)
class Draft:
    """What a family draws, before a template puts it into words.

    Attributes:
        fields: the values of the templates' fields; None means that the draft does not have it.
        steps: the reference solution without its last step, as (comment, code) pairs.
        show: what the last step prints.
        answer: the exact answer, found without the steps.
        numbers: the values that determine the answer (see `Instance.numbers`).
    """

    fields: Mapping[str, Any]
    steps: Sequence[tuple[str, str]]
    show: str
    answer: object
    numbers: tuple[Any, ...]


class Draw(Protocol):
    """A function that draws at a level; may raise `rstar.tiny.family.RejectedError`."""

    __name__: str

    def __call__(self, rng: random.Random, level: int, /) -> Draft:
        """One draft."""


def render(template: str, fields: Mapping[str, Any], rng: random.Random) -> str:
    """The question that `template` makes of `fields`. Raises KeyError for a field that is missing outside a group."""
    have = {name: value for name, value in fields.items() if value is not None}

    def chosen(group: re.Match[str]) -> str:
        for alternative in group[1].split("|"):
            if all(name in have for name in _FIELD.findall(alternative)):
                return alternative
        return ""

    text, found = template, 1
    while found:
        text, found = _WORDINGS.subn(lambda match: rng.choice(match[1].split("|")), text)
    found = 1
    while found:
        text, found = _GROUP.subn(chosen, text)
    text = " ".join(_CONDITION.sub("", text).format_map(have).split())
    return _LOOSE.sub("", text)


@dataclass(frozen=True, slots=True)
class Story:
    """Several sentences told in one setting, which is the format spec: ``{events:bus}``.

    Attributes:
        settings: setting -> kind of move -> template of a sentence.
        moves: what happens, in order: (kind of move, its fields).
        rng: chooses among wordings.
    """

    settings: Mapping[str, Mapping[str, str]]
    moves: Sequence[tuple[str, Mapping[str, Any]]]
    rng: random.Random

    def __format__(self, spec: str) -> str:
        told = (render(self.settings[spec][move], fields, self.rng) for move, fields in self.moves)
        return " ".join(text[0].upper() + text[1:] for text in told)


def _checked(template: str) -> str:
    """The template, if each alternative of a ``[...]`` has a field, but for the last of several.

    An alternative without one is always taken, so that what follows it is dead text and a lone one is not optional.
    """
    rest, found = _WORDINGS.sub("", template), 1
    while found:
        for group in _GROUP.findall(rest):
            first, *others = group.split("|")
            if not all(_FIELD.search(alternative) for alternative in [first, *others[:-1]]):
                raise ValueError(f"an alternative without a field in [{group}]")
        rest, found = _GROUP.subn("", rest)
    return template


def family(
    kind: Kind, *, trained: str, held: str, stories: Mapping[str, Mapping[str, str]] = MappingProxyType({})
) -> Callable[[Draw], Family]:
    """Decorator: the family whose drafts the function draws and whose surface forms are these templates.

    `stories` are the settings of the drafts' `Story`, for families that have one.

    The function's name, with hyphens, is the family's; its docstring says what it is about. The templates are named
    ``t1``, ``t2`` … (trained) and ``h1`` … (held out), in their order.
    """
    seen = {f"t{n}": _checked(text) for n, text in enumerate(_OPENING.split(trained)[1:], 1)}
    unseen = {f"h{n}": _checked(text) for n, text in enumerate(_OPENING.split(held)[1:], 1)}
    texts = seen | unseen

    def decorate(draw: Draw) -> Family:
        def make(rng: random.Random, level: int, template: str) -> Instance:
            draft = draw(rng, level)
            steps = [f"# {comment}\n{code}" for comment, code in draft.steps]
            return Instance(
                question=render(texts[template], draft.fields, rng),
                answer=str(draft.answer),
                steps=(*steps, f"print({draft.show})"),
                template=template,
                numbers=draft.numbers,
            )

        about = (draw.__doc__ or "").strip().rstrip(".")
        return Family(draw.__name__.replace("_", "-"), kind, about, make, seen, unseen, stories)

    return decorate
