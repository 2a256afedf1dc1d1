"""Shared parts of the search families: lists in questions, and the structure of solutions.

A solution is a chain of moves. Its first step copies the problem from the question into a few variables and defines one
small move function (the same text in every problem of the family). Each further step makes one move; the last one also
asserts the goal and prints the answer. So the search tree branches at moves, and trying another move costs no more than
writing it.

A move names the state that it leads to, and the function asserts that this state is right and the move legal. An
illegal move, a wrong state and a local dead end all raise an exception, and a program that runs to its end has solved
the problem that its first step copied, so a wrong answer can only come from a wrong copy.

This module knows no family and draws nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence


def listing(items: Iterable[object], last: str = "and") -> str:
    """Join items as an English list: ``3, 5 and 8``."""
    words = [str(item) for item in items]
    if len(words) == 1:
        return words[0]
    return f"{', '.join(words[:-1])} {last} {words[-1]}"


def question(forms: Mapping[str, str], template: str, **values: object) -> str:
    """Fill in the surface form named `template`."""
    return forms[template].format(**values)


def solution(setup: str, moves: Sequence[tuple[str, str]], finish: str) -> tuple[str, ...]:
    """Build the steps of a chain of moves, each a pair of (comment without ``#``, code).

    `setup` is the first step; `finish` is appended to the last one.
    """
    steps = [f"# {comment}\n{code}" for comment, code in moves]
    return (f"# the problem\n{setup}", *steps[:-1], f"{steps[-1]}\n{finish}")
