r"""Sums of geometric series: ``\sum_{k=0}^\infty 2^{-k}`` is 2. No other series is summed."""

from __future__ import annotations

from fractions import Fraction

from rstar.grading.compare import numeric
from rstar.grading.compare.exact import check_size, value_of
from rstar.grading.read.lexer import UnreadableError
from rstar.grading.read.nodes import Apply, Node, Number, Symbol, renamed, symbols

_MAX_START = 100
_ANY_INDEX = Symbol("k")


def with_geometric_sums(node: Node) -> Node:
    """Replace the convergent geometric series of rational numbers in a tree by their sums."""
    match node:
        case Apply("sum ∞", (Symbol() as index, first, body)):
            return _sum(index, first, body) or node
        case Apply(op, args):
            return Apply(op, tuple(map(with_geometric_sums, args)))
    return node


def _sum(index: Symbol, first: Node, body: Node) -> Number | None:
    start = value_of(first)
    if start is None or start.denominator > 1 or abs(start) > _MAX_START or symbols(body):
        return None

    def term(place: Fraction) -> Fraction | None:
        at = renamed(body, index, Number(place))
        check_size(at)
        return value_of(at)

    try:
        one, other = term(start), term(start + 1)
        ratio = other / one if one and other else None
        if one is None or ratio is None or not abs(ratio) < 1:
            return None
        following = renamed(body, index, Apply("+", (_ANY_INDEX, Number(Fraction(1)))))
        if not numeric.same_function(following, Apply("*", (Number(ratio), renamed(body, index, _ANY_INDEX)))):
            return None
    except UnreadableError:
        return None
    return Number(one / (1 - ratio))
