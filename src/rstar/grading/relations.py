r"""Relations as what they say: a name and a value, or a set of numbers; and ``±`` as two values."""

from __future__ import annotations

from fractions import Fraction

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

_FUNCTION_NAMES = frozenset("fghFGHPQpq")
_LESS = {"<": False, "≤": True}
_MORE = {">": "<", "≥": "≤"}


def assignment(node: Node) -> tuple[Node | None, Node] | None:
    """Name and value of ``x = 5``, ``5 = x``, ``f(x) = x^2``, ``x ∈ S``; the name is None in ``2 + 3 = 5``."""
    if not isinstance(node, Relation) or not set(node.signs) <= {"=", "∈"}:
        return None
    first, last = node.sides[0], node.sides[-1]
    if _is_name(first) and not _defined(first) & _names(last):
        return first, last
    if node.signs == ("=",) and _is_name(last) and not _defined(last) & _names(first):
        return last, first
    if set(node.signs) == {"="} and not any(_names(side) for side in node.sides):
        return None, last
    return None


def as_set(node: Node) -> Node | None:
    """The numbers for which an inequality in one variable with constant bounds holds: an interval or a union."""
    if isinstance(node, Group):
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
        return node.sides[1]
    sides, signs = node.sides, node.signs
    if signs[0] in _MORE:
        sides, signs = sides[::-1], tuple(_MORE.get(sign, "") for sign in reversed(signs))
    if not all(sign in _LESS for sign in signs):
        return None
    closed = [_LESS[sign] for sign in signs]
    match sides:
        case (Symbol() as name, high) if not _names(high) and _is_name(name):
            return Interval(minus(INFINITY), high, False, closed[0])
        case (low, Symbol() as name) if not _names(low) and _is_name(name):
            return Interval(low, INFINITY, closed[0], False)
        case (low, Symbol() as name, high) if not _names(low) | _names(high) and _is_name(name):
            return Interval(low, high, closed[0], closed[1])
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
        case Group("bare", items):
            return _with_common_name(node, items)
    return node


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
        case Group("tuple", items):  # (x, y) = (1, 2)
            return all(map(_is_name, items))
    return False


def _defined(name: Node) -> frozenset[str]:
    """The symbols that a name defines: in ``f(x)`` that is ``f`` alone."""
    return symbols(name.args[0]) if isinstance(name, Apply) else _names(name)


def _names(node: Node) -> frozenset[str]:
    match node:
        case Group(_, items):
            return frozenset().union(*map(_names, items))
        case Interval(low, high):
            return _names(low) | _names(high)
        case Matrix(rows):
            return frozenset().union(*(_names(entry) for row in rows for entry in row))
        case Relation(sides):
            return frozenset().union(*map(_names, sides))
        case Quantity(value):
            return _names(value)
    return symbols(node)
