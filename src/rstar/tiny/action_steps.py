"""Reference solutions written in the five actions of mutual reasoning, for training (`rstar.search.actions`).

A plain program consists of steps, which are the actions ``step`` and ``finish``. Here, some programs begin with the
conditions of the problem (``rephrase``), some steps state what they compute as a question (``question``), and some of
these are answered after a second opening (``reanswer``). The program stays the same.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence

GIVEN, QUESTIONS, ASKED, AGAIN = 0.3, 0.5, 0.6, 0.2
"""Share of programs that begin with the conditions; share with questions; in these, the share of steps that ask one,
and of those that are answered after a second opening."""

_CONDITION = re.compile(r"-?\d+(?:[.:/]\d+)*(?:%| [a-z]+)?")


def conditions(question: str) -> str:
    """The numbers of a question, each with the word after it.

    >>> conditions("A baker makes 4 trays of 18 rolls and sells 57.")
    '4 trays, 18 rolls, 57'
    """
    return ", ".join(_CONDITION.findall(question))


def with_actions(question: str, steps: Sequence[str], rng: random.Random) -> tuple[str, ...]:
    """The program, with some of its steps written as other actions.

    Args:
        question: the problem's text.
        steps: reference solution; each step is a ``# comment`` line and code, or code alone.
        rng: chooses the actions.
    """
    asking = rng.random() < QUESTIONS
    written = [f"# given: {conditions(question)}"] if rng.random() < GIVEN else []
    for step in steps:
        comment, _, code = step.partition("\n")
        if not code or not comment.startswith("# "):
            comment, code = "# the answer", step
        if asking and rng.random() < ASKED:
            again = "# think again\n" if rng.random() < AGAIN else ""
            written.append(f"# question: {comment.removeprefix('# ')}?\n{again}{code}")
        else:
            written.append(step)
    return tuple(written)
