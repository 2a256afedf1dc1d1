"""Periodic solutions: ``kπ + π/4`` and ``kπ − 3π/4`` are the same numbers for integer k."""

from __future__ import annotations

from fractions import Fraction

from rstar.grading.compare import numeric
from rstar.grading.read.nodes import Apply, Node, Number, Symbol, difference, minus, names_of, renamed

_MAX_SHIFT = 10_000
_TEST_POINTS = (2, -3, 7)


def same_progression(first: Node, second: Node, name: str) -> bool:
    """Whether two expressions are linear in `name` and take the same values over the integers.

    Raises like `numeric.same_function`.
    """
    ours, theirs = (_start_and_step(node, name) for node in (first, second))
    if ours is None or theirs is None:
        return False
    (start, step), (other, other_step) = ours, theirs
    if not any(numeric.same_function(step, candidate) for candidate in (other_step, minus(other_step))):
        return False
    if numeric.same_function(start, other):
        return True
    shift = numeric.approximation(Apply("*", (difference(start, other), Apply("inv", (step,)))))
    if shift is None or abs(shift) > _MAX_SHIFT:
        return False
    moved = Apply("+", (other, Apply("*", (Number(Fraction(round(shift))), step))))
    return numeric.same_function(start, moved)


def _start_and_step(node: Node, name: str) -> tuple[Node, Node] | None:
    if not isinstance(node, Apply) or names_of(node) != {name}:
        return None

    def at(place: int) -> Node:
        return renamed(node, Symbol(name), Number(Fraction(place)))

    start, step = at(0), difference(at(1), at(0))
    for place in _TEST_POINTS:
        line = Apply("+", (start, Apply("*", (Number(Fraction(place)), step))))
        if not numeric.same_function(at(place), line):
            return None
    return start, step
