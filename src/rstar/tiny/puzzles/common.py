"""What the search families have in common: how questions list things, and how their solutions are shaped.

A solution of a search family is a chain of moves. Its first step copies the problem out of the question into a few
variables and defines one small function (the same text in every problem of the family) that makes a move; each further
step makes one move; the last one also asserts the goal and prints the answer. So a tree branches where moves are made,
and trying another move costs no more than writing it.

A move names the state that it claims to lead to, and the function asserts that the claim is true and the move legal: an
illegal move, a false claim and a local dead end all end in an exception, and a program that runs to its end has solved
the problem that its first step copied. So a wrong answer can only come from a wrong copy.

This module knows no family and draws nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence


def listing(items: Iterable[object], last: str = "and") -> str:
    """The items as English lists them: ``3, 5 and 8``."""
    words = [str(item) for item in items]
    if len(words) == 1:
        return words[0]
    return f"{', '.join(words[:-1])} {last} {words[-1]}"


def question(forms: Mapping[str, str], template: str, **values: object) -> str:
    """The surface form named `template`, filled in."""
    return forms[template].format(**values)


def solution(setup: str, moves: Sequence[tuple[str, str]], finish: str) -> tuple[str, ...]:
    """The steps of a chain of moves, each a pair of (comment without ``#``, code).

    `setup` is the first step; `finish` goes into the last one.
    """
    steps = [f"# {comment}\n{code}" for comment, code in moves]
    return (f"# the problem\n{setup}", *steps[:-1], f"{steps[-1]}\n{finish}")
