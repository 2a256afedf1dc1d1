r"""Sums and products over an index: ``\sum_{k=1}^{n} k^2``.

In the tree they are `Apply`: "sum" or "prod" of (index, first, last, body). The index is a private symbol that no text
can spell, so renaming it changes nothing. Other ranges have their own operations, because they are only comparable with
their own kind: "sum ∞" (from a first index on), "sum all" (over every k), "sum <" and the like (pairs). Infinite sums
are compared by their first `TERMS` terms: sums that agree there, as functions of everything else, are taken for the
same series; nothing else is known about them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from fractions import Fraction
from itertools import product

from rstar.grading.read.lexer import UnreadableError
from rstar.grading.read.nodes import INFINITY, Apply, Node, Number, Relation, Symbol, minus, renamed

TERMS = 37
"""Terms compared of an infinite sum; an unlikely length for a finite one."""
MAX_TERMS = 1_000
MAX_NESTING = 2
_LAST_PAIR_INDEX = 4
"""Indices of a sum over pairs run from 1 to this."""
_FIRST_INDEX = 11
"""First index of the terms compared of a sum over all k."""
_MAX_INDICES = 4
"""Maximum indices of one term; a longer subscript is a word."""
_INDEX = re.compile(r"[a-zA-Z]|\d+|(?:\d?[a-zA-Z]|\d+)(?:[+-](?:\d?[a-zA-Z]|\d+)){1,3}")
_INDEX_TERM = re.compile(r"([+-]?)(\d*)([a-zA-Z]?)")
_SIGNS = {"<": "<", "≤": "≤", ">": "<", "≥": "≤", "≠": "≠"}


def indexed_operation(name: str, below: Node | None, above: Node | None, body: Node) -> Node:
    """Build the tree of a sum or product from the range below and above its sign.

    Raises:
        UnreadableError: the range is of an unknown kind.
    """
    depth = nesting(body)
    if depth >= MAX_NESTING:
        raise UnreadableError("sums nested too deeply")
    index = Symbol(f"#{depth}")
    match below, above:
        case Relation((Symbol() as k, first), ("=",)), last if last is not None:
            return _over_range(name, k, index, first, last, body)
        case Relation((first, Symbol() as k, last), ("≤", "≤")), None:
            return _over_range(name, k, index, first, last, body)
        case Relation((Symbol() as k, first), ("≥",)), None:
            return _over_range(name, k, index, first, INFINITY, body)
        case Relation((Symbol() as i, Symbol() as j), (sign,)), None if sign in _SIGNS:
            if sign in (">", "≥"):
                i, j = j, i
            second = Symbol(f"#{depth}'")
            return Apply(f"{name} {_SIGNS[sign]}", (index, second, _bind(_bind(body, i, index), j, second)))
        case Relation((first, Symbol() as i, Symbol() as j, last), ("≤", "<" | "≤" as sign, "≤")), None:
            return _over_pairs(name, (i, j), sign, (first, last), body)
        case Symbol() as k, None:
            return Apply(f"{name} all", (index, _bind(body, k, index)))
    raise UnreadableError("a sum over something unknown")


def _over_range(name: str, k: Symbol, index: Symbol, first: Node, last: Node, body: Node) -> Node:
    bound = _bind(body, k, index)
    if last == INFINITY:
        return Apply(f"{name} ∞", (index, first, bound))
    return Apply(name, (index, first, last, bound))


def _over_pairs(name: str, pair: tuple[Symbol, Symbol], sign: str, ends: tuple[Node, Node], body: Node) -> Node:
    """Rewrite ``\\sum_{1 ≤ i < j ≤ n}`` as a sum over j of a sum over i."""
    (i, j), (first, last) = pair, ends
    before = j if sign == "≤" else Apply("+", (j, Number(Fraction(-1))))
    inner = indexed_operation(name, Relation((i, first), ("=",)), before, body)
    return indexed_operation(name, Relation((j, first), ("=",)), last, inner)


def _bind(body: Node, k: Symbol, index: Symbol) -> Node:
    """Bind the index in the body; ``a_k`` and ``a_{jk}`` become functions of it."""
    match body:
        case Symbol(name) if name == k.name:
            return index
        case Symbol(name) if "_" in name:
            letter, _, places = name.partition("_")
            at = _subscript_indices(places, k, index)
            return body if at is None else Apply("call", (Symbol(letter), *at))
        case Apply("call", (Symbol() as function, *args)):
            bound = tuple(_bind(arg, k, index) for arg in args)
            match _bind(function, k, index):
                case Apply("call", named):  # f_k(x)
                    return Apply("call", (*named, *bound))
            return Apply("call", (function, *bound))
        case Apply(op, args):
            return Apply(op, tuple(_bind(arg, k, index) for arg in args))
    return body


def _subscript_indices(text: str, k: Symbol, index: Symbol) -> list[Node] | None:
    """The indices of a subscript such as ``k``, ``k+1``, ``jk`` or ``j,k-1``; None if it does not depend on k.

    Raises:
        UnreadableError: it depends on k in another way.
    """
    if text == k.name:
        return [index]
    if k.name not in text:
        return None
    letters = text.isalnum() and len(text) <= _MAX_INDICES  # b_{ij}: an index per letter or digit
    return [_subscript_index(part, k, index) for part in (text if letters else text.split(","))]


def _subscript_index(text: str, k: Symbol, index: Symbol) -> Node:
    """Parse one index of a term, with the bound index for k."""
    if _INDEX.fullmatch(text) is None:
        raise UnreadableError("a subscript of unknown meaning")
    terms = [_subscript_term(match, k, index) for match in _INDEX_TERM.finditer(text) if match[0]]
    return terms[0] if len(terms) == 1 else Apply("+", tuple(terms))


def _subscript_term(match: re.Match[str], k: Symbol, index: Symbol) -> Node:
    """Parse one term of a subscript: ``2k`` in ``2k-1``."""
    sign, digits, letter = match.groups()
    value: Node = Number(Fraction(digits or 1))
    if letter:
        name = index if letter == k.name else Symbol(letter)
        value = Apply("*", (value, name)) if digits else name
    return minus(value) if sign == "-" else value


def nesting(node: Node) -> int:
    """Maximum nesting depth of sums."""
    if not isinstance(node, Apply):
        return 0
    return max(map(nesting, node.args), default=0) + is_indexed(node.op)


def is_indexed(op: str) -> bool:
    """Whether an operation is a sum or product over an index."""
    return op.partition(" ")[0] in ("sum", "prod")


def infinite_ranges(node: Node) -> frozenset[str]:
    """The operations in a tree whose range has no end; only trees with the same ones are comparable."""
    if not isinstance(node, Apply):
        return frozenset()
    own = {node.op} if " " in node.op and is_indexed(node.op) else set()
    return frozenset(own).union(*map(infinite_ranges, node.args))


def terms(node: Apply, value: Callable[[Node], Fraction | None]) -> list[Node] | None:
    """The terms of a sum or product; None if its index does not run over integers.

    Args:
        node: the sum or product.
        value: returns the value of an expression at the current point if it is rational.

    Raises:
        UnreadableError: there are too many terms.
    """
    match node.args:
        case (Symbol() as i, Symbol() as j, body):
            sign = node.op.partition(" ")[2]
            pairs = product(range(1, _LAST_PAIR_INDEX + 1), repeat=2)
            ranged = [(a, b) for a, b in pairs if a < b or (a == b and sign == "≤") or (a != b and sign == "≠")]
            return [renamed(renamed(body, i, Number(Fraction(a))), j, Number(Fraction(b))) for a, b in ranged]
        case (Symbol() as index, body):
            first: Fraction | None = Fraction(_FIRST_INDEX)
            last: Fraction | None = Fraction(_FIRST_INDEX + TERMS - 1)
        case (Symbol() as index, start, body):
            first = value(start)
            last = None if first is None else first + TERMS - 1
        case (Symbol() as index, start, end, body):
            first, last = value(start), value(end)
        case _:
            return None
    if first is None or last is None or first.denominator > 1 or last.denominator > 1:
        return None
    if last - first >= MAX_TERMS:
        raise UnreadableError("a sum of too many terms")
    return [renamed(body, index, Number(Fraction(k))) for k in range(int(first), int(last) + 1)]
