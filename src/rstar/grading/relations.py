r"""Relations as what they say: the name of something, and its value."""

from __future__ import annotations

from rstar.grading.exact import value_of
from rstar.grading.nodes import Apply, Group, Matrix, Node, Number, Relation, Symbol, Text, names_of, symbols

_FUNCTION_NAMES = frozenset("fghnFGHPQpq")
_CAPITALS = frozenset("ABCDEFGHJKLMNOPQRSTUVWXYZ")


_SEGMENT = range(2, 5)
"""How many capital letters in a row name a thing: a line, a triangle, a square."""


def assignment(node: Node) -> tuple[Node | None, Node] | None:
    """Name and value of ``x = 5``, ``5 = x``, ``f(x) = x^2``, ``x ∈ S``; the name is None in ``2 + 3 = 5``."""
    if not isinstance(node, Relation) or not set(node.signs) <= {"=", "∈"}:
        return None
    first, last = node.sides[0], node.sides[-1]
    if is_name(first) and not any(_defined(first) & names_of(side) for side in node.sides[1:]):
        return first, last
    if node.signs == ("=",) and is_name(last) and not _defined(last) & names_of(first):
        return last, first
    if set(node.signs) == {"="} and not any(names_of(side) for side in node.sides):
        return None, last
    return None


def same_name(first: Node | None, second: Node | None) -> bool:
    """Whether two names may stand for the same thing: ``y`` is any function of x, and no name is any name."""
    if first == second or None in (first, second):
        return True
    if any(_without_index(one) == other for one, other in ((first, second), (second, first))):
        return True  # x_1 is an x
    for one, other in ((first, second), (second, first)):
        if isinstance(other, Apply) and one in (Symbol("y"), other.args[0]):
            return True
    return False


def _without_index(name: Node | None) -> Node | None:
    return Symbol(name.name.partition("_")[0]) if isinstance(name, Symbol) and "_" in name.name else None


def values_by_name(node: Group) -> tuple[Node, ...] | None:
    """The values of ``x = 1, y = 2`` in the alphabetical order of the names, which are single letters."""
    found = [assignment(item) for item in node.items]
    values = {pair[0].name: pair[1] for pair in found if pair is not None and isinstance(pair[0], Symbol)}
    if len(values) < len(node.items) or any(len(name) > 1 for name in values):
        return None
    return tuple(values[name] for name in sorted(values))


def is_name(node: Node) -> bool:
    """Whether this is what an answer may call the thing it gives the value of: ``x``, ``f(x)``, ``AB``, ``[ABC]``."""
    match node:
        case Text():
            return True
        case Matrix(rows):
            return all(isinstance(entry, Symbol) and is_name(entry) for row in rows for entry in row)
        case Apply("call", (_, *args)):
            return all(isinstance(arg, Symbol | Number) for arg in args)
        case Symbol(name):
            return name not in ("π", "i", "∞")
        case Apply("*", (Symbol("m"), Symbol(angle))) if angle.startswith("angle"):
            return True
        case Apply("*", (Symbol(function), Symbol() | Number())) if function.rstrip("'") in _FUNCTION_NAMES:
            return True  # f(x)
        case Apply("*", (Apply("^", (Symbol(function), power)), Symbol())):  # f^{-1}(x)
            return function in _FUNCTION_NAMES and value_of(power) == -1
        case Apply("*", args):  # AB
            return len(args) in _SEGMENT and all(isinstance(arg, Symbol) and arg.name in _CAPITALS for arg in args)
        case Apply("abs", (inner,)) | Group("list", (inner,)):  # |AB|, [ABC]
            return (isinstance(inner, Symbol) and inner.name in _CAPITALS) or (
                isinstance(inner, Apply) and is_name(inner)
            )
        case Group("tuple", items):  # (x, y) = (1, 2)
            names = [item.name for item in items if isinstance(item, Symbol)]
            turned = len(names) > 1 and names == sorted(names, reverse=True) and all(len(n) == 1 for n in names)
            return not turned and all(map(is_name, items))
    return False


def _defined(name: Node) -> frozenset[str]:
    """The symbols that a name defines: in ``f(x)`` that is ``f`` alone."""
    if isinstance(name, Apply) and name.op == "call":
        return names_of(name.args[0])
    if isinstance(name, Apply) and not (isinstance(name.args[-1], Symbol) and name.args[-1].name in _CAPITALS):
        return symbols(name.args[0])  # of f^{-1}, too
    return names_of(name)
