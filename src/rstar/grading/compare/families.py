r"""Families of values with a parameter: ``2k, k ∈ ℤ`` is ``2n + 4, n ∈ ℤ``, and ``2^k, k ≥ 0`` is ``2^{n-1}, n ≥ 1``.

A parameter that only one side states is ignored. Families over all integers are equal if they take the same values, as
progressions (`progressions`) or expression by expression; families from a first integer on, if their values are equal
one by one. Natural numbers start at 0 or at 1, so a family over them equals only another over them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from rstar.grading.compare.exact import value_of
from rstar.grading.compare.expansion import expanded
from rstar.grading.compare.progressions import same_values
from rstar.grading.compare.relations import assignment
from rstar.grading.compare.sets import as_set
from rstar.grading.read.nodes import (
    INFINITY,
    Apply,
    Group,
    Interval,
    Node,
    Number,
    Relation,
    Symbol,
    children,
    minus,
    names_of,
    renamed,
)

MAX_FINITE = 50
"""Maximum number of values of a family that is compared as a finite set."""
_INTEGERS = frozenset("jklmn")
"""Letters that usually stand for integers."""
_Equal = Callable[[Node, Node], bool]


@dataclass(frozen=True, slots=True)
class _Range:
    """What conditions say of a parameter: its domain (empty if unsaid), its least and greatest value, and the rest."""

    domain: str
    low: Fraction | None
    high: Fraction | None
    rest: frozenset[Node]

    @property
    def is_all_integers(self) -> bool:
        return self == _Range("ℤ", None, None, frozenset())


def is_family(node: Node) -> bool:
    """Whether a node is an expression with conditions on its parameters."""
    return isinstance(node, Group) and node.kind == "given"


def equal_families(a: Node, b: Node, equal: _Equal) -> bool:
    """Compare two nodes of which at least one is a family. Raises like `equal`, which compares the values."""
    (ours, *first), (theirs, *second) = (_parts(node) for node in (a, b))
    if bool(first) != bool(second):
        (family, conditions, bare) = (ours, first, theirs) if first else (theirs, second, ours)
        if (values := _finite_values(family, conditions)) is not None and names_of(bare) <= names_of(family):
            return equal(values, bare)
        letters = frozenset().union(*map(names_of, conditions)) - names_of(bare)
        others = names_of(bare) - names_of(family)
        if isinstance(bare, Symbol):  # a letter says nothing
            return False
        if len(letters) == len(others) == 1:  # 2^m, m ∈ ℕ equals 2^k
            family, name = renamed(family, Symbol(*letters), Symbol(*others)), min(others)
            everywhere = _range(conditions, min(letters), ours).is_all_integers
            return equal(family, bare) or (everywhere and same_values(_members(family), _members(bare), name))
        return equal(ours, theirs)
    old, new = (sorted(set().union(*map(names_of, conditions))) for conditions in (second, first))
    if len(old) != 1 or len(new) != 1:
        return set(first) == set(second) and equal(ours, theirs)
    name, letter = new[0], Symbol(new[0])
    mine, other = _range(first, name, ours), _range(second, old[0], theirs)
    theirs, rest = (
        renamed(theirs, Symbol(old[0]), letter),
        (renamed(node, Symbol(old[0]), letter) for node in other.rest),
    )
    other = replace(other, rest=frozenset(rest))
    if mine == other and mine.is_all_integers and same_values(_members(ours), _members(theirs), name):
        return True
    if mine == other:
        return equal(ours, theirs)
    shift = _shift(mine, other) if _is_named(ours, name) or _is_named(theirs, name) else None
    return shift is not None and equal(ours, renamed(theirs, Symbol(name), _moved(name, shift)))


def _parts(node: Node) -> tuple[Node, ...]:
    return node.items if isinstance(node, Group) and node.kind == "given" else (node,)


def _members(node: Node) -> list[Node]:
    """The expressions of a family, without their names."""
    node = expanded(node)
    if isinstance(node, Group) and node.kind in ("set", "bare", "union"):
        return [member for item in node.items for member in _members(item)]
    return [named[1] if (named := assignment(node)) is not None else node]


def _range(conditions: Sequence[Node], name: str, values: Node) -> _Range:
    """Read the conditions on a parameter. In an exponent, k is an integer if nothing else is said, but x is not."""
    domain, low, high, rest = "", [], [], set()
    letter = Symbol(name)
    for condition in conditions:
        match condition:
            case Relation((first, Symbol(numbers)), ("∈",)) if first == letter and not domain:
                domain = numbers
                continue
        bounds = _bounds(condition, letter)
        if bounds is None:
            rest.add(condition)
            continue
        low += [bounds[0]] if bounds[0] is not None else []
        high += [bounds[1]] if bounds[1] is not None else []
    if not domain and name in _INTEGERS and _is_exponent(values, name):
        domain = "ℤ"
    if domain == "ℕ" and low and max(low)[0] >= 1:
        domain = "ℤ"
    if domain != "ℤ":
        return _Range(domain, None, None, frozenset(conditions))
    least = max((math.floor(value) + 1 if strict else math.ceil(value) for value, strict in low), default=None)
    most = min((math.ceil(value) - 1 if strict else math.floor(value) for value, strict in high), default=None)
    return _Range(
        domain, None if least is None else Fraction(least), None if most is None else Fraction(most), frozenset(rest)
    )


_Bound = tuple[Fraction, bool] | None
"""A value, and whether it is excluded."""


def _bounds(condition: Node, letter: Symbol) -> tuple[_Bound, _Bound] | None:
    """The lower and the upper bound of ``k ≥ 0``, ``-2 < k ≤ 5``, ``|k| < 3``; None for any other condition."""
    if not isinstance(condition, Relation) or not set(condition.signs) <= {"<", "≤", ">", "≥"}:
        return None
    interval = as_set(condition)
    if names_of(condition) != {letter.name} or not isinstance(interval, Interval):
        return None
    ends: list[_Bound] = []
    for end, closed in ((interval.low, interval.low_closed), (interval.high, interval.high_closed)):
        value = value_of(end)
        if value is None and end not in (INFINITY, minus(INFINITY)):
            return None
        ends.append(None if value is None else (value, not closed))
    return ends[0], ends[1]


def _is_exponent(node: Node, name: str) -> bool:
    """Whether a name is in the exponent of a number."""
    match node:
        case Apply("^", (base, power)) if not names_of(base):
            return name in names_of(power)
    return any(_is_exponent(child, name) for child in children(node))


def _shift(mine: _Range, other: _Range) -> Fraction | None:
    """By how much another range of integers is moved; None if it is not the same range, moved."""
    if not mine.domain == other.domain == "ℤ" or mine.rest or other.rest or mine.low is None or other.low is None:
        return None
    shift = other.low - mine.low
    if mine.high is None or other.high is None:
        return shift if mine.high == other.high else None
    return shift if other.high - mine.high == shift else None


def _moved(name: str, shift: Fraction) -> Node:
    return Apply("+", (Symbol(name), Number(shift)))


def _is_named(node: Node, name: str) -> bool:
    """Whether the values of a family have a name without the parameter: not a sequence, ``a_n = 2^n``."""
    match node:
        case Relation((Symbol(letter), _), ("=",)):
            return name not in letter
    return False


def _finite_values(values: Node, conditions: Sequence[Node]) -> Group | None:
    """The values of a family over finitely many integers; None for any other family."""
    names = sorted(set().union(*map(names_of, conditions)))
    if len(names) != 1 or names_of(values) != set(names) or not isinstance(values, Apply | Symbol):
        return None
    found = _range(conditions, names[0], values)
    if found.domain != "ℤ" or found.low is None or found.high is None or found.rest:
        return None
    if found.high - found.low >= MAX_FINITE:
        return None
    places = range(int(found.low), int(found.high) + 1)
    return Group("set", tuple(renamed(values, Symbol(names[0]), Number(Fraction(place))) for place in places))
