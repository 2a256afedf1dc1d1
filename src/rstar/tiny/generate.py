"""Drawing problem sets: which families, which levels, which split.

Problem i of a set depends on (seed, split, i) alone, so that a longer set begins with the shorter one, and parts of a
set can be drawn in several processes.
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
from rstar.prompts import code_steps as prompt
from rstar.seeds import derive
from rstar.tiny.family import LEVELS, Family, Instance, Split

MOST_REPEATS = 20  # problems drawn for each one asked for, before giving up on finding different ones


@cache
def families() -> dict[str, Family]:
    """All families by name: the `FAMILIES` of the modules of `families` and `puzzles`."""
    found: dict[str, Family] = {}
    for package in (rstar.tiny.families, rstar.tiny.puzzles):
        for module in pkgutil.iter_modules(package.__path__):
            for family in getattr(importlib.import_module(f"{package.__name__}.{module.name}"), "FAMILIES", ()):
                found[family.name] = family
    return dict(sorted(found.items(), key=lambda item: (item[1].kind, item[0])))


def pick(names: Sequence[str]) -> list[Family]:
    """The families of these names or kinds, or ``all``; ``search:3`` has each family three times, so that it is drawn
    three times as often. All once, when there are no names. Raises `ConfigError` for an unknown name or bad number.
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
            raise ConfigError(f"family {name!r}: expected a whole number from 1 behind the colon")
        chosen += found * int(times or 1)
    return chosen or list(known.values())


@dataclass(frozen=True, slots=True)
class Drawn:
    """A problem of a set: where it comes from, and the instance."""

    id: str
    family: Family
    level: int
    split: Split
    instance: Instance

    def row(self, solution: bool = False) -> dict[str, Any]:
        """A line of a problem file; with `solution` also the pieces that a policy is trained on."""
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
            row["pieces"] = [prompt.prompt(instance.question), *prompt.solution(instance.steps, instance.answer)]
        return row


def draw(
    n: int,
    seed: int,
    split: Split = "numbers",
    levels: Sequence[int] = tuple(LEVELS),
    chosen: Sequence[Family] | None = None,
    first: int = 0,
) -> Iterator[Drawn]:
    """Problems `first` … `first` + n − 1 of the set, families and levels in even shares.

    Args:
        n: how many.
        seed: of the set.
        split: ``train``, ``numbers`` or ``templates`` (see `rstar.tiny.family`).
        levels: levels from 1 to 5.
        chosen: families, all by default; one that stands there twice is drawn twice as often.
        first: number of the first problem.
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
    """Problem `i` of a set. Arguments: see `draw`."""
    pool = list(chosen or families().values())
    family, level = pool[i % len(pool)], levels[i // len(pool) % len(levels)]
    rng = random.Random(derive(seed, split, family.name, level, i))
    return Drawn(f"{split}-{seed}-{i}", family, level, split, family.draw(rng, level, split))


def draw_set(
    n: int, seed: int, split: Split = "numbers", levels: str = "1-5", names: Sequence[str] = ()
) -> Iterator[Drawn]:
    """A problem set as it is written to a file: up to `n` problems, without repeated questions but for training.

    Repeats would count one outcome twice; there are fewer than `n` where the families have no more different ones.

    Args:
        n: how many.
        seed, split: see `draw`.
        levels: such as ``3`` or ``1-5``.
        names: see `pick`.

    Raises:
        ConfigError: an unknown family, or levels that are none; before the first problem is drawn.
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
    """The levels of ``3`` or ``1-5``. Raises `ConfigError`."""
    match = re.fullmatch(r"(\d)(?:-(\d))?", text)
    first, last = (int(match[1]), int(match[2] or match[1])) if match else (0, 0)
    if not (match and first in LEVELS and last in LEVELS and first <= last):
        raise ConfigError(f"levels {text!r}: expected a level from 1 to 5, or a range such as 1-5")
    return list(range(first, last + 1))


def write_set(file: Path, drawing: Iterable[Drawn], solutions: bool = False) -> Iterator[Drawn]:
    """Write problems to a JSONL file, whole or not at all, giving each of them back as it is written.

    Raises `ConfigError` when the file cannot be made.
    """
    part = file.with_name(file.name + ".part")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        out = part.open("w", encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"cannot write {file}: {error.strerror}") from error
    with out:
        for drawn in drawing:
            out.write(json.dumps(drawn.row(solutions), ensure_ascii=False) + "\n")
            yield drawn
    part.replace(file)


def spread(n: int, cells: int) -> Iterator[int]:
    """Numbers of problems to draw for a set of `n`, without end.

    As they come, unless there are fewer than `cells` (families times levels): then over all of these in steps of about
    the golden section, which share no divisor with them, so that a small set has every level and many families.

    >>> from itertools import islice
    >>> list(islice(spread(4, 10), 6)), list(islice(spread(10, 10), 3))
    ([0, 7, 4, 1, 8, 5], [0, 1, 2])
    """
    if n >= cells:
        return count()
    step = next(step for step in count(round(0.618 * cells)) if gcd(step, cells) == 1)
    return chain((k * step % cells for k in range(cells)), count(cells))
