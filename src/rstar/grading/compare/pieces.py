r"""Functions in pieces, as functions: the cases of ``|x|`` are ``|x|``, and a common value belongs to either case.

Both functions are compared at every end of a piece, near it, and inside and outside the pieces, around the constants of
both. A point that belongs to several pieces or is in the domain of one function only makes them differ.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import pairwise

from rstar.grading.compare import numeric
from rstar.grading.compare.exact import value_of
from rstar.grading.compare.sets import as_interval, as_set
from rstar.grading.read.nodes import (
    INFINITY,
    Apply,
    Group,
    Interval,
    Node,
    Number,
    Symbol,
    Text,
    leaves,
    minus,
    names_of,
)

_MAX_PIECES = 8
_MAX_CONSTANTS = 8
_NEAR = Fraction(1, 97)
_INSIDE = (_NEAR, Fraction(1, 3), Fraction(11, 20), 1 - _NEAR)
"""Places in a bounded interval."""
_OUTSIDE = (_NEAR, Fraction(7, 5), Fraction(31, 3), Fraction(1003, 7))
"""Distances from the last end of a piece."""

_Piece = tuple[Sequence[Interval] | None, Node]
"""Where a piece holds (None: everywhere else), and its value."""


def same_pieces(a: Node, b: Node) -> bool:
    """Whether two functions of one letter, of which one is in pieces, are equal. Raises like `numeric`."""
    functions = [_pieces(node) for node in (a, b)]
    ours, theirs = functions
    names = names_of(a) | names_of(b)
    if ours is None or theirs is None or len(names) != 1:
        return False
    ends = sorted({end for function in (ours, theirs) for end in _ends(function)})
    if not ends:
        return False
    (name,) = names
    for place in _places(ends, sorted({abs(c) for _, value in (*ours, *theirs) for c in _constants(value)})):
        first, second = (_at(function, place) for function in (ours, theirs))
        if first is None and second is None:
            continue
        if first is None or second is None or not numeric.agree_at(first, second, {name: place}):
            return False
    return True


def _pieces(node: Node) -> list[_Piece] | None:
    """The pieces of a function; None if the ends of one are not known."""
    if isinstance(node, Apply | Symbol | Number):
        return [(None, node)]
    if not isinstance(node, Group) or node.kind != "cases" or len(node.items) > _MAX_PIECES:
        return None
    found: list[_Piece] = []
    for item in node.items:
        match item:
            case Group("tuple", (Apply() | Symbol() | Number() as value, Text("otherwise"))):
                found.append((None, value))
            case Group("tuple", (Apply() | Symbol() | Number() as value, condition)):
                region = as_set(condition)
                parts = region.items if isinstance(region, Group) and region.kind == "union" else (region,)
                intervals = [
                    interval for part in parts if part is not None and (interval := _interval(part)) is not None
                ]
                if len(intervals) < len(parts):
                    return None
                found.append((intervals, value))
            case _:
                return None
    return found


def _interval(node: Node) -> Interval | None:
    """An interval with rational ends, or one rational point."""
    match node:
        case Group("set", (point,)):
            node = Interval(point, point, True, True)
    interval = as_interval(node)
    ends = () if interval is None else (interval.low, interval.high)
    known = all(end in (INFINITY, minus(INFINITY)) or value_of(end) is not None for end in ends)
    return interval if known else None


def _ends(function: list[_Piece]) -> Iterator[Fraction]:
    for intervals, _ in function:
        for interval in intervals or ():
            for end in (interval.low, interval.high):
                if (value := value_of(end)) is not None:
                    yield value


def _constants(value: Node) -> Iterator[Fraction]:
    return (leaf.value for leaf in leaves(value) if isinstance(leaf, Number))


def _places(ends: list[Fraction], constants: list[Fraction]) -> Iterator[Fraction]:
    """The points of comparison."""
    yield from ends
    for low, high in pairwise(ends):
        yield from (low + (high - low) * part for part in _INSIDE)
    for distance in _OUTSIDE:
        yield from (ends[0] - distance, ends[-1] + distance)
    for constant in constants[-_MAX_CONSTANTS:]:
        yield from (sign * constant + off for sign in (1, -1) for off in (0, _NEAR, -_NEAR))


def _at(function: list[_Piece], place: Fraction) -> Node | None:
    """The value of a function at a place; None if it is in no piece, or in several."""
    found = [value for intervals, value in function if intervals is not None and any(_has(i, place) for i in intervals)]
    found = found or [value for intervals, value in function if intervals is None]
    return found[0] if len(found) == 1 else None


def _has(interval: Interval, place: Fraction) -> bool:
    low, high = value_of(interval.low), value_of(interval.high)
    above = low is None or low < place or (low == place and interval.low_closed)
    return above and (high is None or place < high or (high == place and interval.high_closed))
