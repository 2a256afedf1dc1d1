"""Generation of problem sets from families, levels and a split.

Problem i of a set depends on (seed, split, i) alone. So a longer set begins with the shorter one, and parts of a set
can be drawn in parallel.
"""

from __future__ import annotations

import difflib
import importlib
import json
import pkgutil
import random
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain, count, islice
from math import gcd
from pathlib import Path
from typing import Any

import rstar.tiny.families
import rstar.tiny.puzzles
from rstar.errors import ConfigError
from rstar.jsonl import write_new
from rstar.prompts import code_steps as prompt
from rstar.seeds import derive
from rstar.tiny.action_steps import with_actions
from rstar.tiny.family import LEVELS, Family, Instance, Split
from rstar.tiny.vary import blur, vary

MOST_REPEATS = 20  # draws per requested problem before giving up on finding distinct ones


@cache
def families() -> dict[str, Family]:
    """All families by name: the `FAMILIES` of all modules in `families` and `puzzles`."""
    found: dict[str, Family] = {}
    for package in (rstar.tiny.families, rstar.tiny.puzzles):
        for module in pkgutil.iter_modules(package.__path__):
            for family in getattr(importlib.import_module(f"{package.__name__}.{module.name}"), "FAMILIES", ()):
                found[family.name] = family
    return dict(sorted(found.items(), key=lambda item: (item[1].kind, item[0])))


@cache
def question_words() -> tuple[str, ...]:
    """Lower-case words of all trained templates, as often as they occur."""
    texts = [text for family in families().values() for text in family.templates.values()]
    return tuple(word for text in texts for word in re.findall(r"(?<![\w{:])[a-z]{2,}(?![\w}:])", text))


def pick(names: Sequence[str]) -> list[Family]:
    """Families by name or kind, or ``all`` (also if `names` is empty); ``search:3`` lists each family three times.

    Raises `ConfigError` for an unknown name or invalid number.
    """
    known = families()
    chosen: list[Family] = []
    for name in names:
        base, _, times = name.partition(":")
        found = [family for family in known.values() if base in (family.name, family.kind, "all")]
        if not found:
            names = [*known, *{family.kind: None for family in known.values()}, "all"]
            near = difflib.get_close_matches(base, names, n=1, cutoff=0.5)
            hint = f", did you mean {near[0]!r}?" if near else ""
            raise ConfigError(f"unknown family {base!r}{hint} (`rstar problems families` lists them)")
        if times and not (times.isdecimal() and int(times)):
            raise ConfigError(f"family {name!r}: expected an integer of at least 1 after the colon")
        chosen += found * int(times or 1)
    return chosen or list(known.values())


@dataclass(frozen=True, slots=True)
class Drawn:
    """A problem of a set: its origin and the instance."""

    id: str
    family: Family
    level: int
    split: Split
    instance: Instance

    def row(self, solution: bool = False, actions: bool = False) -> dict[str, Any]:
        """Line of a problem file.

        Args:
            solution: add what a policy is trained on (see `rstar.tiny.vary`).
            actions: write the solution in the actions of mutual reasoning (see `rstar.tiny.action_steps`).
        """
        instance = self.instance
        row: dict[str, Any] = {
            "id": self.id,
            "question": instance.question,
            "answer": instance.answer,
            "family": self.family.name,
            "kind": self.family.kind,
            "level": self.level,
        }
        if instance.check is not None:
            row["check"] = instance.check
        if solution:
            rng = random.Random(derive(0, "vary", self.id))
            question, steps = blur(instance.question, question_words(), rng), vary(instance.steps, rng)
            steps = with_actions(question, steps, rng) if actions else steps
            row["pieces"] = [prompt.prompt(question), *prompt.solution(steps, instance.answer)]
        return row


def draw(
    n: int,
    seed: int,
    split: Split = "numbers",
    levels: Sequence[int] = tuple(LEVELS),
    chosen: Sequence[Family] | None = None,
    first: int = 0,
) -> Iterator[Drawn]:
    """Draw problems `first` … `first` + n − 1 of the set, with equal shares of families and levels.

    Args:
        n: number of problems.
        seed: seed of the set.
        split: ``train``, ``numbers`` or ``templates`` (see `rstar.tiny.family`).
        levels: levels from 1 to 5.
        chosen: families, default all; one listed twice is drawn twice as often.
        first: index of the first problem.
    """
    for i in range(first, first + n):
        yield draw_one(i, seed, split, levels, chosen)


def draw_one(
    i: int,
    seed: int,
    split: Split = "numbers",
    levels: Sequence[int] = tuple(LEVELS),
    chosen: Sequence[Family] | None = None,
) -> Drawn:
    """Draw problem `i` of a set; arguments as in `draw`."""
    pool = list(chosen or families().values())
    family, level = pool[i % len(pool)], levels[i // len(pool) % len(levels)]
    rng = random.Random(derive(seed, split, family.name, level, i))
    return Drawn(f"{split}-{seed}-{i}", family, level, split, family.draw(rng, level, split))


def draw_set(
    n: int, seed: int, split: Split = "numbers", levels: str = "1-5", names: Sequence[str] = ()
) -> Iterator[Drawn]:
    """Draw a problem set for a file: up to `n` problems, without repeated questions except in ``train``.

    Repeats would count an outcome twice. There are fewer than `n` problems if the families have no more distinct ones.

    Args:
        n: number of problems.
        seed, split: see `draw`.
        levels: such as ``3`` or ``1-5``.
        names: see `pick`.

    Raises:
        ConfigError: an unknown family or invalid levels; raised before the first problem is drawn.
    """
    chosen, span = pick(names), parse_levels(levels)
    drawing = (draw_one(i, seed, split, span, chosen) for i in spread(n, len(chosen) * len(span)))
    return islice(drawing, n) if split == "train" else _distinct(drawing, n)


def _distinct(drawing: Iterator[Drawn], n: int) -> Iterator[Drawn]:
    seen: set[str] = set()
    for drawn in islice(drawing, n * MOST_REPEATS):
        if len(seen) == n:
            return
        if drawn.instance.question not in seen:
            seen.add(drawn.instance.question)
            yield drawn


def parse_levels(text: str) -> list[int]:
    """Parse levels such as ``3`` or ``1-5``. Raises `ConfigError`."""
    match = re.fullmatch(r"(\d)(?:-(\d))?", text)
    first, last = (int(match[1]), int(match[2] or match[1])) if match else (0, 0)
    if not (match and first in LEVELS and last in LEVELS and first <= last):
        raise ConfigError(f"levels {text!r}: expected a level from 1 to 5, or a range such as 1-5")
    return list(range(first, last + 1))


def write_set(file: Path, drawing: Iterable[Drawn], solutions: bool = False, actions: bool = False) -> Iterator[Drawn]:
    """Write problems to a JSONL file atomically, yielding each one as it is written; see `Drawn.row`.

    Raises `ConfigError` if the file cannot be written, and `DataError` if a file of other content exists.
    """
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with write_new(file) as out:
            for drawn in drawing:
                out.write(f"{json.dumps(drawn.row(solutions, actions), ensure_ascii=False)}\n".encode())
                yield drawn
    except OSError as error:
        raise ConfigError(f"cannot write {file}: {error.strerror}") from error


def spread(n: int, cells: int) -> Iterator[int]:
    """Yield problem indices for a set of `n`, endlessly.

    Indices are consecutive unless `n` is less than `cells` (families times levels). Then they step through the cells by
    about the golden section of their number, coprime to it, so that a small set has every level and many families.

    >>> from itertools import islice
    >>> list(islice(spread(4, 10), 6)), list(islice(spread(10, 10), 3))
    ([0, 7, 4, 1, 8, 5], [0, 1, 2])
    """
    if n >= cells:
        return count()
    step = next(step for step in count(round(0.618 * cells)) if gcd(step, cells) == 1)
    return chain((k * step % cells for k in range(cells)), count(cells))
