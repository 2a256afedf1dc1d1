"""What the search families have in common: how questions list things, and how their solutions are shaped.

A solution of a search family is a chain of moves. Its first step copies the problem out of the question into a few
variables, defines one small function (the same text in every problem of the family) that makes a move, and makes the
first move; each further step makes one move; the last one also asserts the goal and prints the answer. A move names
the state that it claims to lead to, and the function asserts that the claim is true and the move legal: an illegal
move, a false claim and a local dead end all end in an exception, and a program that runs to its end has solved the
problem that its first step copied. So a wrong answer can only come from a wrong copy.

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

    `setup` goes into the first step and `finish` into the last one, which are the same step when there is one move.
    """
    steps = []
    for number, (comment, code) in enumerate(moves, 1):
        lines = [f"# {comment}", setup if number == 1 else "", code, finish if number == len(moves) else ""]
        steps.append("\n".join(line for line in lines if line))
    return tuple(steps)
