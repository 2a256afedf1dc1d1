"""Expansion of answers: ``±`` becomes two values, and matrix arithmetic is carried out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import product, repeat

from rstar.grading.compare.exact import value_of
from rstar.grading.compare.relations import assignment
from rstar.grading.read.lexer import TooLargeError
from rstar.grading.read.nodes import (
    Apply,
    Group,
    Matrix,
    Node,
    Number,
    Quantity,
    Relation,
    Symbol,
    children,
    minus,
    names_of,
)

_MAX_SIGNS = 3
_MAX_MATRIX_SIZE = 8


def expanded(node: Node) -> Node:
    """Expand every ``a ± b`` into its values (a bare list) and carry out matrix arithmetic."""
    match node:
        case Apply() | Group("tuple") if _signs(node):
            return Group("bare", tuple(_sign_choices(node)))
        case Apply("*", (*scalars, Group("tuple", items))) if scalars and not any(map(names_of, scalars)):
            return Group("tuple", tuple(Apply("*", (*scalars, item)) for item in items))
        case Apply():
            return _as_matrix(node) or node
        case Relation((first, second), ("=" | "≠" as sign,)) if _signs(second):
            relations = tuple(Relation((first, choice), (sign,)) for choice in _sign_choices(second))
            return Group("bare" if sign == "=" else "both", relations)
        case Group(kind, items) if kind in ("set", "bare") and any(map(_signs, items)):
            found: list[Node] = []
            for item in map(expanded, items):
                found += item.items if isinstance(item, Group) and item.kind == "bare" else [item]
            return Group(kind, tuple(found))
        case Group("list", (Matrix() | Number() | Symbol() | Apply() as only,)):
            return only
        case Group("list", rows) if (matrix := _matrix_from_rows(rows)) is not None:
            return matrix
        case Group("bare" | "set", (first, *others)) if others and _repeats_value(first, others):
            return first
        case Group("bare", items):
            return _with_common_name(node, items)
    return node


def _matrix_from_rows(rows: Sequence[Node]) -> Matrix | None:
    """Read ``[[1, 2], [3, 4]]`` as a matrix."""
    entries = [row.items for row in rows if isinstance(row, Group) and row.kind == "list" and row.items]
    alike = len(entries) == len(rows) > 1 and len({len(row) for row in entries}) == 1
    return Matrix(tuple(entries)) if alike else None


def _repeats_value(first: Node, others: Sequence[Node]) -> bool:
    """Whether a list repeats one number in several spellings: ``2/3 or 0.666…``, but not ``5, 5``."""
    value = value_of(first)
    return value is not None and all(value_of(other) == value and other != first for other in others)


def _with_common_name(node: Group, items: tuple[Node, ...]) -> Node:
    """Read ``x = 1, x = 2`` and ``x = 1, 2`` as ``1, 2``."""
    found = [assignment(item) for item in items]
    if found[0] is None or found[0][0] is None:
        return node
    name, values = found[0][0], [found[0][1]]
    for item, named in zip(items[1:], found[1:], strict=True):
        if named is not None and named[0] == name:
            values.append(named[1])
        elif named is None and not isinstance(item, Relation):
            values.append(item)
        else:
            return node
    return Group("set", tuple(values))


def _signs(node: Node) -> str:
    """The ``±`` and ``∓`` signs of a value, in order."""
    match node:
        case Apply(op, args):
            return "".join(map(_signs, args)) + (op if op in ("±", "∓") else "")
        case Group("tuple") | Quantity():
            return "".join(map(_signs, children(node)))
    return ""


def _sign_choices(node: Node) -> list[Node]:
    """The values of an expression with ``±``.

    Signs are chosen independently: ``±√(3 ± √5)`` is four numbers. With a ``∓`` all are chosen together: ``(±1, ∓2)``
    is two points.
    """
    signs = _signs(node)
    if "∓" in signs:
        return [_with_signs(node, repeat(1)), _with_signs(node, repeat(-1))]
    if len(signs) > _MAX_SIGNS:
        raise TooLargeError("too many signs to choose")
    return [_with_signs(node, iter(chosen)) for chosen in product((1, -1), repeat=len(signs))]


def _with_signs(node: Node, chosen: Iterator[int]) -> Node:
    match node:
        case Apply(op, args):
            args = tuple(_with_signs(arg, chosen) for arg in args)
            if op not in ("±", "∓"):
                return Apply(op, args)
            positive = next(chosen) > 0
            offset = args[1] if positive == (op == "±") else minus(args[1])
            return offset if args[0] == Number(Fraction(0)) else Apply("+", (args[0], offset))
        case Group(kind, items):
            return Group(kind, tuple(_with_signs(item, chosen) for item in items))
        case Quantity(value, unit):
            return Quantity(_with_signs(value, chosen), unit)
    return node


def _as_matrix(node: Node) -> Matrix | None:
    """Evaluate a sum, product, power or transpose of matrices as one matrix; None for anything else."""
    match node:
        case Matrix():
            return node
        case Apply("^", (Matrix(rows), Symbol("T"))):
            return Matrix(tuple(zip(*rows, strict=True)))
        case Apply("^", (Matrix() as base, Number(power))) if power.denominator == 1 and 0 < power <= _MAX_MATRIX_SIZE:
            return _as_matrix(Apply("*", (base,) * int(power))) if power > 1 else base
        case Apply("+", args):
            found: Matrix | None = None
            for arg in args:
                part = _as_matrix(arg)
                if part is None or (found is not None and _shape(part) != _shape(found)):
                    return None
                found = part if found is None else _added(found, part)
            return found
        case Apply("*", args):
            parts = [_as_matrix(arg) for arg in args]
            scalars = tuple(arg for arg, part in zip(args, parts, strict=True) if part is None)
            matrices = [part for part in parts if part is not None]
            if not matrices:
                return None
            found = matrices[0]
            for factor in matrices[1:]:
                if _shape(found)[1] != _shape(factor)[0] or max(*_shape(found), *_shape(factor)) > _MAX_MATRIX_SIZE:
                    return None
                found = _multiplied(found, factor)
            return Matrix(tuple(tuple(Apply("*", (*scalars, entry)) for entry in row) for row in found.rows))
    return None


def _shape(matrix: Matrix) -> tuple[int, int]:
    return len(matrix.rows), len(matrix.rows[0])


def _added(a: Matrix, b: Matrix) -> Matrix:
    rows = zip(a.rows, b.rows, strict=True)
    return Matrix(tuple(tuple(Apply("+", pair) for pair in zip(*both, strict=True)) for both in rows))


def _multiplied(a: Matrix, b: Matrix) -> Matrix:
    columns = list(zip(*b.rows, strict=True))

    def inner_product(row: tuple[Node, ...], column: tuple[Node, ...]) -> Node:
        return Apply("+", tuple(Apply("*", pair) for pair in zip(row, column, strict=True)))

    return Matrix(tuple(tuple(inner_product(row, column) for column in columns) for row in a.rows))
