r"""Sets of real numbers in any notation: inequalities, intervals, unions, the line without some points."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from rstar.grading.compare import numeric
from rstar.grading.compare.exact import value_of
from rstar.grading.compare.relations import is_measure, is_name, rising
from rstar.grading.read.nodes import (
    INFINITY,
    Apply,
    Group,
    Interval,
    Node,
    Number,
    Relation,
    Symbol,
    difference,
    minus,
    names_of,
    renamed,
)

_REALS = Symbol("ℝ")
_WHOLE_LINE = Interval(minus(INFINITY), INFINITY, False, False)
_CLOSED = {"<": False, "≤": True}
_TEST_POINTS = tuple(map(Fraction, ("-3", "1/3", "2", "7", "1001/97")))
"""Points at which a seemingly linear inequality must be linear."""


def as_set(node: Node) -> Node | None:
    """The solution set of one or more inequalities in one variable: intervals, points, or a union."""
    if node == _REALS:
        return _WHOLE_LINE
    match node:
        case Group("described", (_, condition)):
            return as_set(condition)
        case Group("without", (whole, Group("set" | "bare", points))):
            return _without(whole, points)
        case Group("union", items):
            parts = [part for item in items if (part := _solutions(item)) is not None]
            return _union_of(parts) if len(parts) == len(items) else None
        case Group("bare" | "both", items) if len(unknowns(node)) == 1:
            return _intersection(node)
        case Group() | Interval():
            return node
        case Relation(sides, ("∈",)):
            return as_set(sides[1]) or sides[1]
        case Relation((name, Group("set" | "bare", points)), ("≠",)) if is_name(name):
            return _without(_REALS, points)
        case Relation((name, point), ("≠",)) if is_name(name) and not names_of(point):
            return _without(_REALS, (point,))
        case Relation():
            return _of_inequality(node)
    return None


def as_range(node: Node) -> Interval | None:
    """The interval that ``0 < f(x) < 1`` or ``2 < a + b < 6`` gives for a value, whatever its name."""
    match node:
        case Relation((low, middle, high)) if not names_of(low) | names_of(high):
            if not (is_name(middle) or is_measure(middle) or len(names_of(middle)) > 1):
                return None
            (low, _, high), signs = rising(node)
            if all(sign in _CLOSED for sign in signs):
                return Interval(low, high, *(_CLOSED[sign] for sign in signs))
    return None


def _solutions(node: Node) -> Node | None:
    """The solutions of one part of a union, where ``x = 0`` is a point."""
    match node:
        case Relation((name, point), ("=",)) if is_name(name) and not names_of(point):
            return Group("set", (point,))
    return as_set(node)


def unknowns(node: Node) -> set[Node]:
    """The names that a relation, or a group's relations, constrain."""
    items = node.items if isinstance(node, Group) else (node,)
    return {side for item in items if isinstance(item, Relation) for side in item.sides if is_name(side)}


def _of_inequality(node: Relation) -> Node | None:
    sides, signs = rising(node)
    if not all(sign in _CLOSED for sign in signs):
        return None
    closed = [_CLOSED[sign] for sign in signs]
    match sides:
        case (Apply("abs", (inner,)), radius) if not names_of(radius):
            ends = _ends_of_ball(inner, radius)
            return None if ends is None else Interval(*ends, closed[0], closed[0])
        case (radius, Apply("abs", (inner,))) if not names_of(radius):
            ends = _ends_of_ball(inner, radius)
            return None if ends is None else Group("union", (_below(ends[0], closed[0]), _above(ends[1], closed[0])))
        case (Symbol() as name, high) if not names_of(high) and is_name(name):
            return _below(high, closed[0])
        case (low, Symbol() as name) if not names_of(low) and is_name(name):
            return _above(low, closed[0])
        case (low, Symbol() as name, high) if not names_of(low) | names_of(high) and is_name(name):
            return Interval(low, high, closed[0], closed[1])
        case (low, high):
            return _solved(difference(high, low), closed[0])
        case (low, middle, high):
            halves = _solved(difference(middle, low), closed[0]), _solved(difference(high, middle), closed[1])
            pieces = [_pieces([half]) or [] for half in halves if half is not None]
            return _as_node(_overlap(*pieces)) if len(pieces) == len(halves) else None
    return None


def _solved(node: Node, closed: bool) -> Interval | None:
    """Where a linear expression in one variable with rational coefficients is positive (or zero, if `closed`)."""
    names = names_of(node)
    if len(names) != 1:
        return None
    (name,) = names

    def at(place: Fraction) -> Fraction | None:
        return value_of(renamed(node, Symbol(name), Number(place)))

    origin, end = at(Fraction(0)), at(Fraction(1))
    if origin is None or end is None or (slope := end - origin) == 0:
        return None
    if any(at(place) != origin + slope * place for place in _TEST_POINTS):
        return None
    root = Number(-origin / slope)
    return _above(root, closed) if slope > 0 else _below(root, closed)


def _ends_of_ball(inner: Node, radius: Node) -> tuple[Node, Node] | None:
    """``c - r`` and ``c + r`` for an `inner` of ``x - c`` or ``x``; None for any other."""
    match inner:
        case Symbol() if is_name(inner):
            centre: Node = Number(Fraction(0))
        case Apply("+", (Symbol() as name, rest)) if is_name(name) and not names_of(rest):
            centre = minus(rest)
        case _:
            return None
    return difference(centre, radius), Apply("+", (centre, radius))


def _below(high: Node, closed: bool = False) -> Interval:
    return Interval(minus(INFINITY), high, False, closed)


def _above(low: Node, closed: bool = False) -> Interval:
    return Interval(low, INFINITY, closed, False)


def as_interval(node: Node) -> Interval | None:
    """Read a pair in round or square brackets as an interval."""
    if isinstance(node, Group) and node.kind in ("tuple", "list") and len(node.items) == 2:
        closed = node.kind == "list"
        return Interval(node.items[0], node.items[1], closed, closed)
    return node if isinstance(node, Interval) else None


def _intersection(node: Group) -> Node | None:
    """The intersection of several conditions on one number.

    If it is empty, "x < 1, x > 2" means either condition. ``x ≠ -3, 2`` excludes both numbers.
    """
    match node.items:
        case (Relation((name, first), ("≠",)), *others) if is_name(name) and not any(map(names_of, others)):
            return _without(_REALS, (first, *others))
    found: _Pieces | None = None
    parts = [as_set(item) for item in node.items]
    for part in parts:
        pieces = None if part is None else _pieces([part])
        if pieces is None:
            return None
        found = pieces if found is None else _overlap(found, pieces)
    if not found and node.kind == "bare":
        return _union_of([part for part in parts if part is not None])
    return _as_node(found) if found else None


def _without(whole: Node, points: Sequence[Node]) -> Node | None:
    """A set without some of its points."""
    base = as_set(whole)
    pieces = None if base is None else _pieces([base])
    if pieces is None:
        return None
    for point in points:
        left, right, position = _below(point), _above(point), _position(point)
        if position is None:  # a letter: all numbers except it
            return Group("union", (left, right)) if base == _WHOLE_LINE and len(points) == 1 else None
        pieces = _overlap(pieces, [(-math.inf, position, left), (position, math.inf, right)])
    return _as_node(pieces)


_Position = Fraction | float  # infinite ends are floats
_Pieces = list[tuple[_Position, _Position, Interval]]
"""A set of real numbers: intervals with the positions of their endpoints."""
_SAME_END = Fraction(1, 10**30)


def _union_of(parts: Sequence[Node]) -> Node:
    """A union as disjoint intervals and points that do not touch, if all endpoints are known."""
    if all(isinstance(part, Group) and part.kind == "set" for part in parts):
        return Group("set", tuple(item for part in parts if isinstance(part, Group) for item in part.items))
    pieces = _pieces(parts)
    return Group("union", tuple(parts)) if pieces is None else _as_node(_joined(pieces))


def _pieces(parts: Sequence[Node]) -> _Pieces | None:
    """The intervals and points of sets; None if an endpoint is unknown."""
    found: _Pieces = []
    for part in parts:
        if isinstance(part, Group) and part.kind == "union":
            inside = _pieces(part.items)
            if inside is None:
                return None
            found += inside
            continue
        points = part.items if isinstance(part, Group) and part.kind == "set" else ()
        for piece in [Interval(point, point, True, True) for point in points] if points else [as_interval(part)]:
            low, high = (None, None) if piece is None else (_position(piece.low), _position(piece.high))
            if piece is None or low is None or high is None or high < low:
                return None
            found.append((low, high, piece))
    return found


def _joined(pieces: _Pieces) -> _Pieces:
    """Sort pieces and merge those that overlap or touch."""
    pieces = sorted(pieces, key=lambda piece: (piece[0], not piece[2].low_closed))
    found = pieces[:1]
    for low, high, piece in pieces[1:]:
        start, end, last = found[-1]
        if not (low < end or (_same_position(low, end) and (last.high_closed or piece.low_closed))):
            found.append((low, high, piece))
        elif high > end or (high == end and piece.high_closed):
            found[-1] = (start, high, Interval(last.low, piece.high, last.low_closed, piece.high_closed))
    return found


def _overlap(ours: _Pieces, theirs: _Pieces) -> _Pieces:
    """The intersection of two sets."""
    found: _Pieces = []
    for low, high, piece in ours:
        for start, end, other in theirs:
            bottom, first = (low, piece) if low > start or (low == start and not piece.low_closed) else (start, other)
            top, last = (high, piece) if high < end or (high == end and not piece.high_closed) else (end, other)
            closed = first.low_closed and last.high_closed
            if bottom < top or (_same_position(bottom, top) and closed):
                found.append((bottom, top, Interval(first.low, last.high, first.low_closed, last.high_closed)))
    return _joined(found)


def _as_node(pieces: _Pieces) -> Node:
    nodes = [Group("set", (piece.low,)) if low == high else piece for low, high, piece in pieces]
    if not nodes:
        return Group("set", ())
    return nodes[0] if len(nodes) == 1 else Group("union", tuple(nodes))


def _same_position(a: _Position, b: _Position) -> bool:
    return a == b or -_SAME_END < a - b < _SAME_END


def _position(end: Node) -> _Position | None:
    """The position of an endpoint on the real line; None if unknown."""
    if end in (INFINITY, minus(INFINITY)):
        return math.inf if end == INFINITY else -math.inf
    if isinstance(end, Number):
        return end.value
    return None if names_of(end) or not isinstance(end, Apply | Symbol) else numeric.approximation(end)
