"""Template language of the families, and the decorator that defines a `Family`.

A family is a list of templates and a function that draws a `Draft`. The templates are one text; each starts with ``- ``
at the start of a line, and line breaks count as spaces. A template has

* ``{field}``, ``{field:spec}``: a field of the draft (people, nouns and lists have specs, see `rstar.tiny.words`);
* ``<a|b|c>``: one of these wordings, at random (may not contain brackets);
* ``[a|b|c]``: the first alternative whose fields the draft all has, or nothing. So one template serves five levels,
  each leaving out what it does not have;
* ``{?field}``: a condition for ``[...]``, without text.

A draft's answer comes from a solver of its own (a formula or a search over the drawn values), never from the steps:
tests run the steps and compare.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Protocol

from rstar.tiny.family import HELD_OUT, Family, Instance, Kind

_WORDINGS = re.compile(r"<([^<>\[\]]*)>")
_GROUP = re.compile(r"\[([^\[\]]*)\]")
_FIELD = re.compile(r"\{\??(\w+)")
_LOOSE = re.compile(r" (?=[.,;?!](?!\.))")
_OPENING = re.compile(r"^\s*- ", re.MULTILINE)
_CONDITION = re.compile(r"\{\?\w+\}")


@dataclass(frozen=True, slots=True)
class Draft:
    """A drawn problem before a template puts it into words.

    Attributes:
        fields: values of the templates' fields; None if the draft does not have the field.
        steps: reference solution, as (comment, code) pairs.
        answer: exact answer, computed independently of the steps.
        numbers: values that determine the answer (see `Instance.numbers`).
        show: what one more step prints.
        finish: code that instead ends the last step, and prints the answer.
        path, states, check: see `Instance`; by default, the states are those of the path.
    """

    fields: Mapping[str, Any]
    steps: Sequence[tuple[str, str]]
    answer: object
    numbers: tuple[Any, ...]
    show: str = "x"
    finish: str = ""
    path: tuple[str, ...] = ()
    states: frozenset[str] | None = None
    check: dict[str, Any] | None = None


class Draw(Protocol):
    """A function that draws at a level; may raise `rstar.tiny.family.RejectedError`."""

    __name__: str

    def __call__(self, rng: random.Random, level: int, /) -> Draft:
        """Draw a draft."""


def render(template: str, fields: Mapping[str, Any], rng: random.Random) -> str:
    """Fill `template` with `fields`. Raises KeyError for a field that is missing outside a group."""
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
    """A sequence of sentences in one setting, selected by the format spec: ``{events:bus}``.

    Attributes:
        settings: setting -> kind of move -> template of a sentence.
        moves: events in order: (kind of move, its fields).
        rng: chooses among wordings.
    """

    settings: Mapping[str, Mapping[str, str]]
    moves: Sequence[tuple[str, Mapping[str, Any]]]
    rng: random.Random

    def __format__(self, spec: str) -> str:
        told = (render(self.settings[spec][move], fields, self.rng) for move, fields in self.moves)
        return " ".join(text[0].upper() + text[1:] for text in told)


def _checked(template: str) -> str:
    """Validate that each alternative of a ``[...]`` has a field, except the last of several; returns the template.

    An alternative without a field is always taken, so later ones are unreachable, and a lone one is not optional.
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
    kind: Kind,
    *,
    trained: str,
    held: str,
    stories: Mapping[str, Mapping[str, str]] = MappingProxyType({}),
    share: float = HELD_OUT,
) -> Callable[[Draw], Family]:
    """Decorator: define a family by the decorated draw function and these templates.

    `stories` are the settings of the drafts' `Story`, if any; `share` is the held-out share. The function's name, with
    hyphens, is the family's; its docstring is the family's `about`. Templates are named ``t1``, ``t2`` … (trained) and
    ``h1`` … (held out), in order.
    """
    seen = {f"t{n}": _checked(text) for n, text in enumerate(_OPENING.split(trained)[1:], 1)}
    unseen = {f"h{n}": _checked(text) for n, text in enumerate(_OPENING.split(held)[1:], 1)}
    texts = seen | unseen

    def decorate(draw: Draw) -> Family:
        def make(rng: random.Random, level: int, template: str) -> Instance:
            draft = draw(rng, level)
            steps = [f"# {comment}\n{code}" for comment, code in draft.steps]
            if draft.finish:
                steps[-1] += f"\n{draft.finish}"
            else:
                steps.append(f"print({draft.show})")
            return Instance(
                question=render(texts[template], draft.fields, rng),
                answer=str(draft.answer),
                steps=tuple(steps),
                template=template,
                numbers=draft.numbers,
                states=frozenset(draft.path) if draft.states is None else draft.states,
                path=draft.path,
                check=draft.check,
            )

        about = (draw.__doc__ or "").strip().rstrip(".")
        return Family(draw.__name__.replace("_", "-"), kind, about, make, seen, unseen, stories, share)

    return decorate
