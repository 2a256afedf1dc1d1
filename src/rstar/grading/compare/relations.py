r"""Relations as names with values."""

from __future__ import annotations

from rstar.grading.compare.exact import value_of
from rstar.grading.read.nodes import (
    Apply,
    Group,
    Matrix,
    Node,
    Number,
    Relation,
    Symbol,
    Text,
    leaves,
    names_of,
    symbols,
)

_FUNCTION_NAMES = frozenset("fghnFGHPQpq")
_CAPITALS = frozenset("ABCDEFGHJKLMNOPQRSTUVWXYZ")
_SEGMENT = range(2, 5)
"""Lengths of a run of capital letters that names a line, a triangle or a square."""


def assignment(node: Node) -> tuple[Node | None, Node] | None:
    """Name and value of ``x = 5``, ``5 = x``, ``f(x) = x^2``, ``x ∈ S``; the name is None in ``2 + 3 = 5``."""
    if not isinstance(node, Relation) or not set(node.signs) <= {"=", "∈"}:
        return None
    first, last = node.sides[0], node.sides[-1]
    if _is_formula_of_matrix(first, last):
        return first, last
    if is_name(first) and not any(_defined(first) & names_of(side) for side in node.sides[1:]):
        return first, last
    if set(node.signs) == {"="} and names_of(first) and not any(names_of(side) for side in node.sides[1:]):
        calculated = len(node.sides) > 2 and last != node.sides[-2]  # a^2 + b^2 = 9 - 4 = 5
        if calculated or is_measure(first):
            return first, last
    if node.signs == ("=",) and is_name(last) and not _defined(last) & names_of(first):
        return last, first
    if set(node.signs) == {"="} and not any(names_of(side) for side in node.sides):
        return None, last
    return None


def mirrored(relation: Relation) -> tuple[tuple[Node, ...], tuple[str, ...]]:
    """The sides and signs of a relation, read from right to left."""
    turned = {"<": ">", ">": "<", "≤": "≥", "≥": "≤"}
    return relation.sides[::-1], tuple(turned.get(sign, sign) for sign in reversed(relation.signs))


def rising(relation: Relation) -> tuple[tuple[Node, ...], tuple[str, ...]]:
    """The sides and signs of a relation, with < and ≤ only if all its signs point the same way."""
    return mirrored(relation) if relation.signs[0] in (">", "≥") else (relation.sides, relation.signs)


def _is_formula_of_matrix(formula: Node, value: Node) -> bool:
    """Whether a formula names a matrix or a vector: ``M^2``, ``A + B``, ``Ax``, but no multiple of one letter."""
    if not isinstance(formula, Apply) or names_of(formula) & names_of(value):
        return False
    if not all(isinstance(leaf, Symbol | Number) for leaf in leaves(formula)):
        return False
    match formula, value:
        case Apply("^", (Symbol(letter), Number())), Matrix() | Group("list", (Matrix() | Group("list"), *_)):
            return letter in _CAPITALS
        case Apply("+" | "*", parts), Matrix() | Group("list", (Matrix(),) | (Group("list"), *_)) | Group("tuple"):
            multiple = formula.op == "*" and any(not names_of(part) for part in parts)
            return len(names_of(formula)) > 1 and not multiple
    return False


def same_name(first: Node | None, second: Node | None) -> bool:
    """Whether two names may mean the same thing: ``y`` is any function of x, and a missing name is any name."""
    if first == second or None in (first, second):
        return True
    for name, other in ((first, second), (second, first)):
        if _without_index(name) == other:  # x_1 is an x
            return True
        if isinstance(other, Apply) and _is_called(other) and name in (Symbol("y"), other.args[0]):
            return True
    return False


def _is_called(name: Apply) -> bool:
    """Whether a name is an absolute value or a function with its argument, not a product of letters."""
    match name:
        case Apply("call" | "abs"):
            return True
        case Apply("*", (Symbol(function) | Apply("^", (Symbol(function), _)), *_)):
            return function.rstrip("'") in _FUNCTION_NAMES
    return False


def _without_index(name: Node | None) -> Node | None:
    return Symbol(name.name.partition("_")[0]) if isinstance(name, Symbol) and "_" in name.name else None


def values_by_name(node: Group) -> tuple[Node, ...] | None:
    """The values of ``x = 1, y = 2`` in name order; names are single letters, or one letter with several indices."""
    found = [assignment(item) for item in node.items]
    values = {pair[0].name: pair[1] for pair in found if pair is not None and isinstance(pair[0], Symbol)}
    order = sorted_names(list(values))
    return None if order is None or len(values) < len(node.items) else tuple(values[name] for name in order)


def values_by_word(node: Group) -> tuple[Node, ...] | None:
    """The values of "Ann = 1, Bob = 2" in the order given; None if a name is not in words."""
    pairs = [item.sides for item in node.items if isinstance(item, Relation) and isinstance(item.sides[0], Text)]
    return tuple(pair[1] for pair in pairs) if len(pairs) == len(node.items) else None


def sorted_names(names: list[str]) -> list[str] | None:
    """Sort names: ``x, y, z`` or ``x_1, x_2``; None if they have no order."""
    if all(len(name) == 1 for name in names):
        return sorted(names)
    if set(names) == {"r", "theta"}:  # polar coordinates
        return ["r", "theta"]
    letters, indices = {name.partition("_")[0] for name in names}, [name.partition("_")[2] for name in names]
    if len(letters) > 1 or not all(map(str.isdecimal, indices)):
        return None
    return sorted(names, key=lambda name: int(name.partition("_")[2]))


def split_tuple_equation(node: Node) -> Node:
    """Split ``(x, y) = (1, 2)`` into ``x = 1, y = 2``; return anything else unchanged."""
    match node:
        case Relation((Group("tuple", names), Group("tuple", values)), ("=",)) if len(names) == len(values):
            pairs = zip(names, values, strict=True)
            return Group("bare", tuple(Relation(pair, ("=",)) for pair in pairs)) if all(map(is_name, names)) else node
    return node


def is_name(node: Node) -> bool:
    """Whether an answer may use this as the name of its value: ``x``, ``f(x)``, ``AB``, ``[ABC]``."""
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
        case Apply("*", (Apply("^", (Symbol(function), power)), Symbol() | Number())):  # f^{-1}(x)
            return function in _FUNCTION_NAMES and value_of(power) == -1
        case Apply("*", args):  # AB
            return len(args) in _SEGMENT and all(isinstance(arg, Symbol) and arg.name in _CAPITALS for arg in args)
        case Apply("abs", (inner,)) | Group("list", (inner,)):  # |AB|, [ABC]
            return (isinstance(inner, Symbol) and inner.name in _CAPITALS) or (
                isinstance(inner, Apply) and is_name(inner)
            )
        case Group("tuple", items):  # (x, y) = (1, 2)
            names = [item.name for item in items if isinstance(item, Symbol)]
            order = sorted_names(names)
            turned = len(names) > 1 and order is not None and names == order[::-1]
            return not turned and all(map(is_name, items))
    return False


def is_measure(node: Node) -> bool:
    """Whether this has a value without being a name: ``sin A``, ``AB:CD``, ``AB + BC``, ``|z|``.

    Not ``x + y`` or ``x^2``: their value is only a step towards the answer.
    """
    match node:
        case Apply("sin" | "cos" | "tan" | "cot" | "sec" | "csc" | "ln" | "log", (Symbol(), *bases)):
            return not any(map(names_of, bases))
        case Apply("^", (Symbol(name), power)):  # A^{-1} = …, but not x^2 = 4
            return name in _CAPITALS and (value_of(power) == -1 or power == Symbol("T"))
        case Apply("abs", (Symbol(name),)):
            return name in ("z", "w") or name.startswith("vec ")
        case Group("ratio", items):
            return len(set(items)) == len(items) and all(map(is_name, items))
        case Apply("*", (top, Apply("inv", (bottom,)))):
            return top != bottom and is_name(top) and is_name(bottom)
        case Apply("+", items):
            return all(isinstance(item, Apply) and is_name(item) and names_of(item) <= _CAPITALS for item in items)
    return False


def reordered_ratio(names: Node | None, others: Node | None, values: Node) -> Node | None:
    """Reorder the parts of a ratio to match other names of the same parts; None if the names differ."""
    match names, others, values:
        case Group("ratio", wanted), Group("ratio", given), Group("ratio", parts) if len(given) == len(parts):
            if set(wanted) == set(given):
                by_name = dict(zip(given, parts, strict=True))
                return Group("ratio", tuple(by_name[name] for name in wanted))
    return None


def _defined(name: Node) -> frozenset[str]:
    """The symbols that a name defines: in ``f(x)`` only ``f``."""
    if isinstance(name, Apply) and name.op == "call":
        return names_of(name.args[0])
    if isinstance(name, Apply) and not (isinstance(name.args[-1], Symbol) and name.args[-1].name in _CAPITALS):
        return symbols(name.args[0])  # also in f^{-1}
    return names_of(name)
