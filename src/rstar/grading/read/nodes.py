"""The tree of an answer that has been read: small, immutable, compared by structure.

Arithmetic is `Number`, `Symbol` and `Apply`; the other nodes combine values. Sums and products are flat (``a/b`` is a
product with ``Apply("inv", …)``), so the depth of a tree is the nesting as written.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Literal

from rstar.grading.read import units

Kind = Literal["tuple", "list", "set", "bare", "both", "union", "without", "ratio", "given", "cases", "described"]
"""``(1, 2)``, ``[1, 2]``, ``{1, 2}``, ``1, 2`` without brackets, ``x > 1 and x < 2``, ``A ∪ B``, ``A ∖ B``, ``1:2``,
``2k, k ∈ ℤ`` (the expression, then its parameters), a piecewise function (pairs of value and condition),
``{x : x > 1}`` (the letter, then its condition)."""


@dataclass(frozen=True, slots=True)
class Number:
    """An exact rational. `places`: decimal places as written, 0 for an integer, -1 if not a literal."""

    value: Fraction
    places: int = field(default=-1, compare=False)


@dataclass(frozen=True, slots=True)
class Symbol:
    """A variable, a constant (``π``, ``e``, ``i``, ``∞``), an option letter, a named object such as a line ``CD``."""

    name: str


@dataclass(frozen=True, slots=True)
class Apply:
    """An operation: ``+``, ``*``, ``inv``, ``^``, ``±`` and ``∓`` (of base and offset) or a function's name."""

    op: str
    args: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Quantity:
    """A value with a unit, including percent signs and degrees."""

    value: Node
    unit: units.Unit


@dataclass(frozen=True, slots=True)
class Group:
    """Several values together."""

    kind: Kind
    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Interval:
    """A real interval with an end known to be closed, or written with half-open brackets."""

    low: Node
    high: Node
    low_closed: bool
    high_closed: bool


@dataclass(frozen=True, slots=True)
class Relation:
    """A chain ``a < b ≤ c`` with one more side than signs. Signs: ``= < > ≤ ≥ ≠ ∈ ≈``."""

    sides: tuple[Node, ...]
    signs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Matrix:
    """Rows of equal length."""

    rows: tuple[tuple[Node, ...], ...]


@dataclass(frozen=True, slots=True)
class Text:
    """Words, or notation beyond the parser, in normal form; equal only to the same text."""

    words: str


Node = Number | Symbol | Apply | Quantity | Group | Interval | Relation | Matrix | Text


_KIND_NAMES = {"list": "list in brackets", "bare": "list", "both": "conditions", "without": "set with gaps"}
_KIND_NAMES |= {"given": "family", "cases": "function in pieces", "described": "set by a condition"}
"""Names of group kinds in messages, where they differ."""


def described(node: Node) -> str:
    """A short name of the node's kind, for messages."""
    match node:
        case Number():
            return "number"
        case Apply():
            return "expression" if symbols(node) else "constant"
        case Group(kind):
            return _KIND_NAMES.get(kind, kind)
    return type(node).__name__.lower()


def minus(node: Node) -> Node:
    """The negative of a value; a number stays a number."""
    if isinstance(node, Number):
        return Number(-node.value, node.places)
    if isinstance(node, Quantity):
        return Quantity(minus(node.value), node.unit)
    return Apply("*", (Number(Fraction(-1)), node))


def difference(a: Node, b: Node) -> Node:
    """``a - b``."""
    return Apply("+", (a, minus(b)))


def children(node: Node) -> tuple[Node, ...]:
    """The nodes directly below a node."""
    match node:
        case Apply(_, nodes) | Group(_, nodes) | Relation(nodes, _):
            return nodes
        case Interval(low, high):
            return low, high
        case Matrix(rows):
            return tuple(entry for row in rows for entry in row)
        case Quantity(value):
            return (value,)
    return ()


def leaves(node: Node) -> Iterator[Node]:
    """The numbers and symbols of an arithmetic tree, left to right; other nodes are yielded unchanged."""
    if isinstance(node, Apply):
        for arg in node.args[node.op == "call" :]:  # the function's own name is not a value
            yield from leaves(arg)
    else:
        yield node


def symbols(node: Node) -> frozenset[str]:
    """Names of an arithmetic tree's symbols, without constants and sum indices (``#0``)."""
    found = (leaf.name for leaf in leaves(node) if isinstance(leaf, Symbol))
    return frozenset(name for name in found if name[0] != "#") - CONSTANTS


def plain(node: Node) -> Node:
    """Convert to an operand of arithmetic: unwrap a bracket around one value, percent to 1/100, degrees to radians."""
    match node:
        case Group("list", (only,)):
            return only
        case Quantity(value, units.PERCENT):
            return Apply("*", (value, Number(Fraction(1, 100))))
        case Quantity(value, units.DEGREE):
            return Apply("*", (value, Symbol("π"), Number(Fraction(1, 180))))
    return node


def renamed(node: Node, old: Node, new: Node) -> Node:
    """Replace a symbol throughout a node."""
    match node:
        case Symbol():
            return new if node == old else node
        case Apply(op, args):
            return Apply(op, tuple(renamed(arg, old, new) for arg in args))
        case Group(kind, items):
            return Group(kind, tuple(renamed(item, old, new) for item in items))
        case Relation(sides, signs):
            return Relation(tuple(renamed(side, old, new) for side in sides), signs)
        case Quantity(value, unit):
            return Quantity(renamed(value, old, new), unit)
        case Interval(low, high, low_closed, high_closed):
            return Interval(renamed(low, old, new), renamed(high, old, new), low_closed, high_closed)
    return node


def names_of(node: Node) -> frozenset[str]:
    """Names of the symbols of any node, without constants."""
    return symbols(node) if isinstance(node, Apply | Symbol) else frozenset().union(*map(names_of, children(node)))


INFINITY = Symbol("∞")
CONSTANTS = frozenset({"π", "e", "i", "∞", "ℝ", "ℤ", "ℕ", "ℚ", "ℂ"})
