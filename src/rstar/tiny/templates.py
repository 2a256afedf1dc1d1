"""Template language of the families, and the decorator that defines a `Family`.

A family is a function that draws a `Draft`, and two files of wordings: ``wordings/NAME.txt``, trained, and
``wordings/held/NAME.txt``, held out. In them each template starts with ``- `` at the start of a line; line breaks count
as spaces. A template has

* ``{field}``, ``{field:spec}``: a field of the draft (people, nouns and lists have specs, see `rstar.tiny.words`);
* ``<a|b|c>``: one of these wordings, at random;
* ``[a|b|c]``: the first alternative whose fields the draft all has, or nothing. So one template serves five levels,
  each leaving out what it does not have. Both kinds of brackets nest;
* ``{?field}``: a condition for ``[...]``, without text.

A file may begin with the settings of a `Story`: a line ``@name``, then lines ``kind of move: template of a sentence``.

A draft's answer comes from a solver of its own (a formula or a search over the drawn values), never from the steps:
tests run the steps and compare.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Protocol

from rstar.tiny.family import HELD_OUT, Family, Instance, Kind

_CHOICE = re.compile(r"<([^<>\[\]]*)>|\[([^<>\[\]]*)\]")
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

    def chosen(choice: re.Match[str]) -> str:
        wordings, group = choice.groups()
        if group is None:
            return rng.choice(str(wordings).split("|"))
        for alternative in str(group).split("|"):
            if all(name in have for name in _FIELD.findall(alternative)):
                return alternative
        return ""

    text, found = template, 1
    while found:  # the innermost choices first
        text, found = _CHOICE.subn(chosen, text)
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
    rest, found = template, 1
    while found:
        for group in (choice[2] for choice in _CHOICE.finditer(rest) if choice[2] is not None):
            first, *others = group.split("|")
            if not all(_FIELD.search(alternative) for alternative in [first, *others[:-1]]):
                raise ValueError(f"an alternative without a field in [{group}]")
        rest, found = _CHOICE.subn("", rest)
    return template


@dataclass(frozen=True, slots=True)
class Wordings:
    """A file of wordings: its templates in order, and the settings of stories (see `Story`)."""

    templates: Sequence[str]
    settings: Mapping[str, Mapping[str, str]]


def parse_wordings(text: str) -> Wordings:
    """Parse a file of wordings. Raises `ValueError` for one that is malformed."""
    head, *templates = _OPENING.split(text)
    settings = {}
    for block in re.split("^@", head, flags=re.MULTILINE)[1:]:
        name, *rows = block.strip().splitlines()
        settings[name] = dict(row.split(": ", 1) for row in rows)
    return Wordings([_checked(" ".join(template.split())) for template in templates], settings)


@cache
def read_wordings(name: str) -> tuple[Wordings, Wordings]:
    """Trained and held-out wordings of a family."""
    folder = files("rstar.tiny") / "wordings"
    trained, held = (
        file.read_text(encoding="utf-8") for file in (folder / f"{name}.txt", folder / "held" / f"{name}.txt")
    )
    return parse_wordings(trained), parse_wordings(held)


def read_settings(name: str) -> Mapping[str, Mapping[str, str]]:
    """Settings of a family's stories, trained and held out."""
    trained, held = read_wordings(name)
    return {**trained.settings, **held.settings}


def family(
    kind: Kind, *, share: float = HELD_OUT, wordings: tuple[Wordings, Wordings] | None = None
) -> Callable[[Draw], Family]:
    """Decorator: define a family by the decorated draw function and its wordings, by default those of its files.

    `share` is the held-out share. The function's name, with hyphens, is the family's; its docstring is the family's
    `about`. Templates are named ``t1``, ``t2`` … (trained) and ``h1`` … (held out), in order.
    """

    def decorate(draw: Draw) -> Family:
        name = draw.__name__.replace("_", "-")
        trained, held = wordings or read_wordings(name)
        seen = {f"t{n}": text for n, text in enumerate(trained.templates, 1)}
        unseen = {f"h{n}": text for n, text in enumerate(held.templates, 1)}
        texts = seen | unseen

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
        stories = {**trained.settings, **held.settings}
        return Family(name, kind, about, make, seen, unseen, stories, share)

    return decorate
