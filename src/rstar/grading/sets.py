r"""Sets of real numbers, however they are written: inequalities, intervals, unions, the line without some points."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise

from rstar.grading import numeric
from rstar.grading.exact import value_of
from rstar.grading.nodes import INFINITY, Apply, Group, Interval, Node, Number, Relation, Symbol, minus
from rstar.grading.relations import is_name, names_of

_REALS = Symbol("ℝ")
_WHOLE_LINE = Interval(minus(INFINITY), INFINITY, False, False)
_LESS = {"<": False, "≤": True}
_MORE = {">": "<", "≥": "≤"}


def as_set(node: Node) -> Node | None:
    """The numbers for which an inequality in one variable with constant bounds holds: an interval or a union."""
    if node == _REALS:
        return _WHOLE_LINE
    if isinstance(node, Group):
        if node.kind == "without":
            return _without(node)
        if node.kind in ("bare", "both") and len(_unknowns(node)) == 1:
            excluded = [item.sides[1] for item in node.items if isinstance(item, Relation) and item.signs == ("≠",)]
            if len(excluded) == len(node.items):
                return _without(Group("without", (_REALS, Group("set", tuple(excluded)))))
            if len(node.items) == 2:
                return _together(node)
        if node.kind == "union":
            parts = [as_set(item) for item in node.items]
            known = tuple(part for part in parts if part is not None)
            return _merged(known) if len(known) == len(parts) else None
        return node
    if isinstance(node, Interval):
        return node
    match node:
        case Apply(
            "+", (Symbol("ℝ"), Apply("*", (Number(Fraction(numerator=-1, denominator=1)), Group("set") as few)))
        ):
            return _without(Group("without", (_REALS, few)))
    if not isinstance(node, Relation):
        return None
    if node.signs == ("∈",):
        return as_set(node.sides[1]) or node.sides[1]
    if node.signs == ("≠",) and is_name(node.sides[0]) and not names_of(node.sides[1]):
        return _without(Group("without", (_REALS, Group("set", (node.sides[1],)))))
    sides, signs = node.sides, node.signs
    if signs[0] in _MORE:
        sides, signs = sides[::-1], tuple(_MORE.get(sign, "") for sign in reversed(signs))
    if not all(sign in _LESS for sign in signs):
        return None
    closed = [_LESS[sign] for sign in signs]
    match sides:
        case (Apply("abs", (inner,)), radius) if not names_of(radius):
            return _within(inner, radius, closed[0])
        case (radius, Apply("abs", (inner,))) if not names_of(radius):
            return _beyond(inner, radius, closed[0])
        case (Symbol() as name, high) if not names_of(high) and is_name(name):
            return Interval(minus(INFINITY), high, False, closed[0])
        case (low, Symbol() as name) if not names_of(low) and is_name(name):
            return Interval(low, INFINITY, closed[0], False)
        case (low, Symbol() as name, high) if not names_of(low) | names_of(high) and is_name(name):
            return Interval(low, high, closed[0], closed[1])
    return None


def _centre(inner: Node) -> Node | None:
    """The c of ``x - c``, or of ``x``."""
    match inner:
        case Symbol() if is_name(inner):
            return Number(Fraction(0))
        case Apply("+", (Symbol() as name, rest)) if is_name(name) and not names_of(rest):
            return minus(rest)
    return None


def _within(inner: Node, radius: Node, closed: bool) -> Node | None:
    """``|x - c| < r`` as an interval."""
    centre = _centre(inner)
    if centre is None:
        return None
    return Interval(Apply("+", (centre, minus(radius))), Apply("+", (centre, radius)), closed, closed)


def _beyond(inner: Node, radius: Node, closed: bool) -> Node | None:
    """``|x - c| > r`` as two half-lines."""
    centre = _centre(inner)
    if centre is None:
        return None
    low, high = Apply("+", (centre, minus(radius))), Apply("+", (centre, radius))
    return Group("union", (Interval(minus(INFINITY), low, False, closed), Interval(high, INFINITY, closed, False)))


def _unknowns(node: Group) -> set[Node]:
    """What the relations of a group are about."""
    return {side for item in node.items if isinstance(item, Relation) for side in item.sides if is_name(side)}


def _without(node: Group) -> Node | None:
    """The real numbers but a few: intervals between these."""
    match node.items:
        case (Symbol("ℝ"), Group("set" | "bare", points)) if points:
            values = {point: value_of(point) for point in points}
            if len(points) > 1 and None in values.values():
                return None
            ordered = sorted(points, key=lambda point: values[point] or 0)
            ends = [minus(INFINITY), *ordered, INFINITY]
            return Group("union", tuple(Interval(*pair, False, False) for pair in pairwise(ends)))
    return None


def _together(node: Group) -> Node | None:
    """What two half-lines have in common; where that is nothing, "x < 1, x > 2" means either of them."""
    first, second = map(as_set, node.items)
    for one, other in ((first, second), (second, first)):
        match one, other:
            case Interval(low, Symbol("∞")), Interval(Apply(), high) if high != INFINITY:
                bottom, top = (numeric.approximation(end) for end in (low, high))
                if bottom is None or top is None:
                    return None
                if bottom < top:
                    return Interval(low, high, one.low_closed, other.high_closed)
                return Group("union", (one, other)) if node.kind == "bare" else None
    return None


def as_interval(node: Node) -> Interval | None:
    """A pair in round or square brackets as the interval that it may stand for."""
    if isinstance(node, Group) and node.kind in ("tuple", "list") and len(node.items) == 2:
        closed = node.kind == "list"
        return Interval(node.items[0], node.items[1], closed, closed)
    return node if isinstance(node, Interval) else None


_Position = Fraction | float  # infinite ends are floats
_SAME_END = Fraction(1, 10**30)


def _merged(parts: tuple[Node, ...]) -> Node:
    """A union as intervals and points that neither overlap nor touch, where all their ends are known."""
    segments: list[tuple[_Position, _Position, Interval]] = []
    if all(isinstance(part, Group) and part.kind == "set" for part in parts):
        return Group("set", tuple(item for part in parts if isinstance(part, Group) for item in part.items))
    for part in parts:
        points = part.items if isinstance(part, Group) and part.kind == "set" else ()
        for piece in [Interval(point, point, True, True) for point in points] if points else [as_interval(part)]:
            low, high = (None, None) if piece is None else (_position(piece.low), _position(piece.high))
            if piece is None or low is None or high is None or high < low:
                return Group("union", parts)
            segments.append((low, high, piece))
    segments.sort(key=lambda segment: (segment[0], not segment[2].low_closed))
    found = segments[:1]
    for low, high, piece in segments[1:]:
        start, end, last = found[-1]
        same = low == end or -_SAME_END < low - end < _SAME_END
        if not (low < end or (same and (last.high_closed or piece.low_closed))):
            found.append((low, high, piece))
        elif high > end or (high == end and piece.high_closed):
            found[-1] = (start, high, Interval(last.low, piece.high, last.low_closed, piece.high_closed))
    nodes = [Group("set", (one.low,)) if low == high else one for low, high, one in found]
    return nodes[0] if len(nodes) == 1 else Group("union", tuple(nodes))


def _position(end: Node) -> _Position | None:
    """Where an end lies on the real line; None where that is not known."""
    if end in (INFINITY, minus(INFINITY)):
        return math.inf if end == INFINITY else -math.inf
    if isinstance(end, Number):
        return end.value
    return None if names_of(end) or not isinstance(end, Apply | Symbol) else numeric.approximation(end)
