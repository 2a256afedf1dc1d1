"""What a family of synthetic problems is, and which of its problems are held out.

A family draws an `Instance` (question, exact answer, reference solution as code steps) at a level from 1 to 5. Splits:

* ``train``: a trained template and trained numbers.
* ``numbers``: a trained template with numbers (in search families: intermediate states) never trained on.
* ``templates``: a template never trained on, with numbers never trained on.

Membership is decided by a hash of what the instance says of itself (`Instance.numbers`, `Instance.states`) so that it
does not depend on seeds, order or how many problems are drawn. Families draw freely; `Family.draw` redraws until the
instance belongs to the split.
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
    """One problem of a family, with everything known about it.

    Attributes:
        question: natural English.
        answer: the exact answer as text, computed by a solver that does not look at `steps`.
        steps: the reference solution; each step is a `# comment` line and code; the last step prints the answer.
        template: name of the surface form.
        numbers: what decides between trained and held-out numbers: the values that determine the answer.
        states: search families only: every intermediate state from which the goal can still be reached, in canonical
            form, so that the same state of two different problems is the same string. A family may name a coarser
            class that such states share and never leave (the completed grid, the target). These decide, not `numbers`.
        path: search families only: the states that the reference solution passes through, a subset of `states`.
        check: verifier data for problems with many right answers (see `rstar.grading.checks`), else None.
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
    """Raised by a family's draw function when the random values do not make a good problem; it is called again."""


def is_held_out(share: float, *parts: object) -> bool:
    """Whether this value belongs to the `share` that is never trained on, by a stable hash of its parts' reprs."""
    digest = hashlib.blake2b(repr(parts).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") / 2**64 < share


@dataclass(frozen=True, slots=True)
class Family:
    """A named kind of problem.

    Attributes:
        name: as in ``--family``.
        kind: the group it is reported under.
        about: one line for tables and help.
        make: draws an instance: (random stream, level, template name) -> Instance; may raise `RejectedError`.
        templates: the surface forms that are trained on, name to text.
        held_templates: those that never are (at least one), likewise.
        stories: what a field that is a `rstar.tiny.templates.Story` can tell: setting -> kind of move -> template.
        share: the share of number tuples or state classes that is held out.
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
        """An instance of `level` in `split`.

        Raises:
            DataError: no instance of that split was found in `MAX_DRAWS` tries (a defect of the family).
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
