"""Families of synthetic problems, and their split into trained and held-out problems.

A family draws an `Instance` (question, exact answer, reference solution as code steps) at a level from 1 to 5. Splits:

* ``train``: a trained template and trained numbers.
* ``numbers``: a trained template with held-out numbers (in search families: held-out intermediate states).
* ``templates``: a held-out template with held-out numbers.

Membership depends on a hash of the instance (`Instance.numbers`, `Instance.states`), not on seeds, order or the number
of problems drawn. Families draw freely; `Family.draw` redraws until the instance is in the split.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from rstar.errors import DataError

Split = Literal["train", "numbers", "templates"]
Kind = Literal["word", "ratio", "algebra", "number", "counting", "search"]
LEVELS = range(1, 6)
HELD_OUT = 0.15
MAX_DRAWS = 5000


@dataclass(frozen=True, slots=True)
class Instance:
    """A problem of a family.

    Attributes:
        question: natural English.
        answer: exact answer as text, computed by a solver independent of `steps`.
        steps: reference solution; each step is a `# comment` line and code; the last step prints the answer.
        template: name of the surface form.
        numbers: values that determine the answer, which decide between trained and held-out numbers.
        states: search families only: every intermediate state from which the goal is reachable, in a canonical form
            equal across problems. May instead be a coarser class that such states share and never leave (the completed
            grid, the target). They replace `numbers` in the split decision.
        path: search families only: states on the reference solution, a subset of `states`.
        check: verifier data for problems with several right answers (see `rstar.grading.checks`), else None.
    """

    question: str
    answer: str
    steps: tuple[str, ...]
    template: str
    numbers: tuple[Any, ...]
    states: frozenset[str] = frozenset()
    path: tuple[str, ...] = ()
    check: dict[str, Any] | None = None


class RejectedError(Exception):
    """Raised by a draw function when the random values make no good problem; it is then called again."""


def is_held_out(share: float, *parts: object) -> bool:
    """Whether this value belongs to the held-out `share`, by a stable hash of its parts' reprs."""
    digest = hashlib.blake2b(repr(parts).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") / 2**64 < share


@dataclass(frozen=True, slots=True)
class Family:
    """A named kind of problem.

    Attributes:
        name: value for ``--family``.
        kind: group in reports.
        about: one line for tables and help.
        make: draws an instance: (random stream, level, template name) -> Instance; may raise `RejectedError`.
        templates: trained surface forms, name to text.
        held_templates: held-out surface forms (at least one), name to text.
        stories: for each field that is a `rstar.tiny.templates.Story`: setting -> kind of move -> template.
        share: held-out share of number tuples or state classes.
    """

    name: str
    kind: Kind
    about: str
    make: Callable[[random.Random, int, str], Instance] = field(repr=False)
    templates: Mapping[str, str] = field(repr=False, hash=False)
    held_templates: Mapping[str, str] = field(repr=False, hash=False)
    stories: Mapping[str, Mapping[str, str]] = field(default_factory=dict, repr=False, hash=False)
    share: float = HELD_OUT

    def draw(self, rng: random.Random, level: int, split: Split) -> Instance:
        """Draw an instance of `level` in `split`.

        Raises:
            DataError: no instance of that split in `MAX_DRAWS` tries (a defect of the family).
        """
        names = [*(self.held_templates if split == "templates" else self.templates)]
        for _ in range(MAX_DRAWS):
            try:
                instance = self.make(rng, level, rng.choice(names))
            except RejectedError:
                continue
            if self._belongs(instance, split):
                return instance
        raise DataError(f"family {self.name}: no {split!r} problem of level {level} in {MAX_DRAWS} draws")

    def _belongs(self, instance: Instance, split: Split) -> bool:
        if self.kind == "search":
            if split == "train":
                return not any(is_held_out(self.share, self.name, s) for s in instance.path)
            return all(is_held_out(self.share, self.name, s) for s in instance.states)
        return is_held_out(self.share, self.name, instance.numbers) != (split == "train")
