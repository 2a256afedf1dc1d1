r"""Relations as what they say: a name and a value, or a set of numbers; and ``±`` as two values."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

from rstar.grading import numeric
from rstar.grading.exact import value_of
from rstar.grading.nodes import (
    INFINITY,
    Apply,
    Group,
    Interval,
    Matrix,
    Node,
    Number,
    Quantity,
    Relation,
    Symbol,
    minus,
    symbols,
)

_REALS = Symbol("ℝ")
_WHOLE_LINE = Interval(minus(INFINITY), INFINITY, False, False)
_FUNCTION_NAMES = frozenset("fghFGHPQpq")
_LESS = {"<": False, "≤": True}
_MORE = {">": "<", "≥": "≤"}


def assignment(node: Node) -> tuple[Node | None, Node] | None:
    """Name and value of ``x = 5``, ``5 = x``, ``f(x) = x^2``, ``x ∈ S``; the name is None in ``2 + 3 = 5``."""
    if not isinstance(node, Relation) or not set(node.signs) <= {"=", "∈"}:
        return None
    first, last = node.sides[0], node.sides[-1]
    if _is_name(first) and not _defined(first) & names_of(last):
        return first, last
    if node.signs == ("=",) and _is_name(last) and not _defined(last) & names_of(first):
        return last, first
    if set(node.signs) == {"="} and not any(names_of(side) for side in node.sides):
        return None, last
    return None


def same_name(first: Node | None, second: Node | None) -> bool:
    """Whether two names may stand for the same thing: ``y`` is any function of x, and no name is any name."""
    if first == second or None in (first, second):
        return True
    return any(one == Symbol("y") and isinstance(other, Apply) for one, other in ((first, second), (second, first)))


def as_set(node: Node) -> Node | None:
    """The numbers for which an inequality in one variable with constant bounds holds: an interval or a union."""
    if node == _REALS:
        return _WHOLE_LINE
    if isinstance(node, Group):
        if node.kind == "without":
            return _without(node)
        if node.kind in ("bare", "both") and len(node.items) == 2 and len(_unknowns(node)) == 1:
            return _together(node)
        if node.kind == "union" and any(isinstance(item, Relation) for item in node.items):
            parts = [as_set(item) for item in node.items]
            known = tuple(part for part in parts if part is not None)
            return Group("union", known) if len(known) == len(parts) else None
        return node
    if isinstance(node, Interval):
        return node
    if not isinstance(node, Relation):
        return None
    if node.signs == ("∈",):
        return as_set(node.sides[1]) or node.sides[1]
    if node.signs == ("≠",) and _is_name(node.sides[0]) and not names_of(node.sides[1]):
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
        case (Symbol() as name, high) if not names_of(high) and _is_name(name):
            return Interval(minus(INFINITY), high, False, closed[0])
        case (low, Symbol() as name) if not names_of(low) and _is_name(name):
            return Interval(low, INFINITY, closed[0], False)
        case (low, Symbol() as name, high) if not names_of(low) | names_of(high) and _is_name(name):
            return Interval(low, high, closed[0], closed[1])
    return None


def _centre(inner: Node) -> Node | None:
    """The c of ``x - c``, or of ``x``."""
    match inner:
        case Symbol() if _is_name(inner):
            return Number(Fraction(0))
        case Apply("+", (Symbol() as name, rest)) if _is_name(name) and not names_of(rest):
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
    return {side for item in node.items if isinstance(item, Relation) for side in item.sides if _is_name(side)}


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


def expanded(node: Node) -> Node:
    """A node in which every ``a ± b`` has become two values (a bare list), and a sum of matrices is one matrix."""
    match node:
        case Apply("+", (Matrix(first), *others)):
            shape = [len(row) for row in first]
            if all(isinstance(other, Matrix) and [len(row) for row in other.rows] == shape for other in others):
                parts = [other.rows for other in (node.args) if isinstance(other, Matrix)]
                return Matrix(
                    tuple(tuple(Apply("+", e) for e in zip(*r, strict=True)) for r in zip(*parts, strict=True))
                )
        case Apply() if _has_choice(node):
            return Group("bare", (_choose(node, 1), _choose(node, -1)))
        case Relation((first, second), ("=",)) if isinstance(second, Apply) and _has_choice(second):
            return Group("bare", tuple(Relation((first, _choose(second, way)), ("=",)) for way in (1, -1)))
        case Group(kind, items) if kind in ("set", "bare") and any(_has_choice(item) for item in items):
            found: list[Node] = []
            for item in map(expanded, items):
                found += item.items if isinstance(item, Group) and item.kind == "bare" else [item]
            return Group(kind, tuple(found))
        case Group("list", (Matrix() as matrix,)):
            return matrix
        case Group("bare", items):
            return _with_common_name(node, items)
    return node


def values_by_name(node: Group) -> tuple[Node, ...] | None:
    """The values of ``x = 1, y = 2`` where the names are single letters in alphabetical order."""
    found = [assignment(item) for item in node.items]
    pairs = [pair for pair in found if pair is not None and isinstance(pair[0], Symbol)]
    names = [name.name for name, _ in pairs if isinstance(name, Symbol)]
    if len(pairs) < len(node.items) or names != sorted(set(names)) or any(len(name) > 1 for name in names):
        return None
    return tuple(value for _, value in pairs)


def _with_common_name(node: Group, items: tuple[Node, ...]) -> Node:
    """``x = 1, x = 2`` and ``x = 1, 2`` as ``1, 2``."""
    found = [assignment(item) for item in items]
    if found[0] is None or found[0][0] is None:
        return node
    name, values = found[0][0], [found[0][1]]
    for item, one in zip(items[1:], found[1:], strict=True):
        if one is not None and one[0] == name:
            values.append(one[1])
        elif one is None and not isinstance(item, Relation):
            values.append(item)
        else:
            return node
    return Group("bare", tuple(values))


def _has_choice(node: Node) -> bool:
    return isinstance(node, Apply) and (node.op == "±" or any(map(_has_choice, node.args)))


def _choose(node: Node, way: int) -> Node:
    if not isinstance(node, Apply):
        return node
    args = tuple(_choose(arg, way) for arg in node.args)
    if node.op != "±":
        return Apply(node.op, args)
    offset = args[1] if way > 0 else minus(args[1])
    return offset if args[0] == Number(Fraction(0)) else Apply("+", (args[0], offset))


def _is_name(node: Node) -> bool:
    match node:
        case Symbol(name):
            return name not in ("π", "i", "∞")
        case Apply("*", (Symbol(function), Symbol())):  # f(x)
            return function in _FUNCTION_NAMES
        case Apply("*", (Apply("^", (Symbol(function), power)), Symbol())):  # f^{-1}(x)
            return function in _FUNCTION_NAMES and value_of(power) == -1
        case Group("tuple", items):  # (x, y) = (1, 2)
            return all(map(_is_name, items))
    return False


def _defined(name: Node) -> frozenset[str]:
    """The symbols that a name defines: in ``f(x)`` that is ``f`` alone."""
    return symbols(name.args[0]) if isinstance(name, Apply) else names_of(name)  # of f^{-1}, too


def names_of(node: Node) -> frozenset[str]:
    """Names of the symbols of any node that are not constants."""
    match node:
        case Group(_, items):
            return frozenset().union(*map(names_of, items))
        case Interval(low, high):
            return names_of(low) | names_of(high)
        case Matrix(rows):
            return frozenset().union(*(names_of(entry) for row in rows for entry in row))
        case Relation(sides):
            return frozenset().union(*map(names_of, sides))
        case Quantity(value):
            return names_of(value)
    return symbols(node)
