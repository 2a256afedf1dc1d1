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
MOST_TERMS = 1_000
MOST_NESTED = 2
_PAIRS = 4
"""Indices of a sum over pairs run from 1 to this."""
_SOMEWHERE = 11
"""First index of the terms compared of a sum over all k."""
_MOST_INDICES = 4
"""Maximum indices of one term; a longer subscript is a word."""
_INDEX = re.compile(r"[a-zA-Z]|\d+|(?:\d?[a-zA-Z]|\d+)(?:[+-](?:\d?[a-zA-Z]|\d+)){1,3}")
_INDEX_TERM = re.compile(r"([+-]?)(\d*)([a-zA-Z]?)")
_SIGNS = {"<": "<", "≤": "≤", ">": "<", "≥": "≤", "≠": "≠"}


def big(name: str, below: Node | None, above: Node | None, body: Node) -> Node:
    """Build the tree of a sum or product from the range below and above its sign.

    Raises:
        UnreadableError: the range is of an unknown kind.
    """
    depth = nested(body)
    if depth >= MOST_NESTED:
        raise UnreadableError("sums nested too deeply")
    index = Symbol(f"#{depth}")
    match below, above:
        case Relation((Symbol() as k, first), ("=",)), last if last is not None:
            return _over(name, k, index, first, last, body)
        case Relation((first, Symbol() as k, last), ("≤", "≤")), None:
            return _over(name, k, index, first, last, body)
        case Relation((Symbol() as k, first), ("≥",)), None:
            return _over(name, k, index, first, INFINITY, body)
        case Relation((Symbol() as i, Symbol() as j), (sign,)), None if sign in _SIGNS:
            if sign in (">", "≥"):
                i, j = j, i
            second = Symbol(f"#{depth}'")
            return Apply(f"{name} {_SIGNS[sign]}", (index, second, _bound(_bound(body, i, index), j, second)))
        case Relation((first, Symbol() as i, Symbol() as j, last), ("≤", "<" | "≤" as sign, "≤")), None:
            return _over_pairs(name, (i, j), sign, (first, last), body)
        case Symbol() as k, None:
            return Apply(f"{name} all", (index, _bound(body, k, index)))
    raise UnreadableError("a sum over something unknown")


def _over(name: str, k: Symbol, index: Symbol, first: Node, last: Node, body: Node) -> Node:
    bound = _bound(body, k, index)
    if last == INFINITY:
        return Apply(f"{name} ∞", (index, first, bound))
    return Apply(name, (index, first, last, bound))


def _over_pairs(name: str, pair: tuple[Symbol, Symbol], sign: str, ends: tuple[Node, Node], body: Node) -> Node:
    """Rewrite ``\\sum_{1 ≤ i < j ≤ n}`` as a sum over j of a sum over i."""
    (i, j), (first, last) = pair, ends
    before = j if sign == "≤" else Apply("+", (j, Number(Fraction(-1))))
    inner = big(name, Relation((i, first), ("=",)), before, body)
    return big(name, Relation((j, first), ("=",)), last, inner)


def _bound(body: Node, k: Symbol, index: Symbol) -> Node:
    """Bind the index in the body; ``a_k`` and ``a_{jk}`` become functions of it."""
    match body:
        case Symbol(name) if name == k.name:
            return index
        case Symbol(name) if "_" in name:
            letter, _, places = name.partition("_")
            at = _places(places, k, index)
            return body if at is None else Apply("call", (Symbol(letter), *at))
        case Apply("call", (Symbol() as function, *args)):
            bound = tuple(_bound(arg, k, index) for arg in args)
            match _bound(function, k, index):
                case Apply("call", named):  # f_k(x)
                    return Apply("call", (*named, *bound))
            return Apply("call", (function, *bound))
        case Apply(op, args):
            return Apply(op, tuple(_bound(arg, k, index) for arg in args))
    return body


def _places(text: str, k: Symbol, index: Symbol) -> list[Node] | None:
    """The indices of a subscript such as ``k``, ``k+1``, ``jk`` or ``j,k-1``; None if it does not depend on k.

    Raises:
        UnreadableError: it depends on k in another way.
    """
    if text == k.name:
        return [index]
    if k.name not in text:
        return None
    parts = text.split(",") if "," in text else _letters(text)
    return [_place(part, k, index) for part in parts]


def _letters(text: str) -> list[str]:
    """Split ``b_{ij}`` into its letters and digits; any other subscript is one index."""
    return list(text) if text.isalnum() and len(text) <= _MOST_INDICES else [text]


def _place(text: str, k: Symbol, index: Symbol) -> Node:
    """Parse one index of a term, with the bound index for k."""
    if _INDEX.fullmatch(text) is None:
        raise UnreadableError("a subscript of unknown meaning")
    terms = [_term(match, k, index) for match in _INDEX_TERM.finditer(text) if match[0]]
    return terms[0] if len(terms) == 1 else Apply("+", tuple(terms))


def _term(match: re.Match[str], k: Symbol, index: Symbol) -> Node:
    """Parse one term of a subscript: ``2k`` in ``2k-1``."""
    sign, digits, letter = match.groups()
    value: Node = Number(Fraction(digits or 1))
    if letter:
        name = index if letter == k.name else Symbol(letter)
        value = Apply("*", (value, name)) if digits else name
    return minus(value) if sign == "-" else value


def nested(node: Node) -> int:
    """Maximum nesting depth of sums."""
    if not isinstance(node, Apply):
        return 0
    return max(map(nested, node.args), default=0) + is_big(node.op)


def is_big(op: str) -> bool:
    """Whether an operation is a sum or product over an index."""
    return op.partition(" ")[0] in ("sum", "prod")


def endless(node: Node) -> frozenset[str]:
    """The operations in a tree whose range has no end; only trees with the same ones are comparable."""
    if not isinstance(node, Apply):
        return frozenset()
    own = {node.op} if " " in node.op and is_big(node.op) else set()
    return frozenset(own).union(*map(endless, node.args))


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
            pairs = product(range(1, _PAIRS + 1), repeat=2)
            some = [(a, b) for a, b in pairs if a < b or (a == b and sign == "≤") or (a != b and sign == "≠")]
            return [renamed(renamed(body, i, Number(Fraction(a))), j, Number(Fraction(b))) for a, b in some]
        case (Symbol() as index, body):
            first: Fraction | None = Fraction(_SOMEWHERE)
            last: Fraction | None = Fraction(_SOMEWHERE + TERMS - 1)
        case (Symbol() as index, start, body):
            first = value(start)
            last = None if first is None else first + TERMS - 1
        case (Symbol() as index, start, end, body):
            first, last = value(start), value(end)
        case _:
            return None
    if first is None or last is None or first.denominator > 1 or last.denominator > 1:
        return None
    if last - first >= MOST_TERMS:
        raise UnreadableError("a sum of too many terms")
    return [renamed(body, index, Number(Fraction(k))) for k in range(int(first), int(last) + 1)]
