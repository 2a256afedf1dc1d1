"""Equality of two readings, with separate rules for values, containers, relations and quantities."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

from rstar.grading.compare import exact, numeric
from rstar.grading.compare.expansion import expanded
from rstar.grading.compare.families import equal_families, is_family
from rstar.grading.compare.geometric import with_geometric_sums
from rstar.grading.compare.pieces import same_pieces
from rstar.grading.compare.relations import (
    assignment,
    mirrored,
    reordered_ratio,
    rising,
    same_name,
    split_tuple_equation,
    values_by_name,
    values_by_word,
)
from rstar.grading.compare.sets import as_interval, as_range, as_set, unknowns
from rstar.grading.read import units
from rstar.grading.read.lexer import TooLargeError
from rstar.grading.read.nodes import (
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
    Text,
    children,
    difference,
    leaves,
    names_of,
    plain,
    renamed,
    symbols,
)
from rstar.grading.read.series import infinite_ranges
from rstar.grading.read.units import DEGREE, PERCENT

_PERCENT_POWERS = (units.POINT.powers, *((*PERCENT.powers, (time, -1)) for time in ("s", "yr")))
"""Powers of units that may replace a percent sign: 6% is 6 percentage points and 6% per year."""
MAX_REWRITINGS = 6
"""Maximum number of forms of one expression in a chain of equalities."""
MAX_SYMBOLIC_PAIRS = 100
"""Maximum number of element pairs of two sets that are compared as expressions."""


def equal(a: Node, b: Node) -> bool:
    """Whether two readings are equal. Symmetric.

    Raises:
        UnreadableError: there is too much to compare.
        UndecidedError: two values can be neither told apart nor called equal.
    """
    if a == b:
        return True
    if isinstance(a, Group) or isinstance(b, Group):
        a, b = _conditions(a, b)
    if is_family(a) or is_family(b):
        return equal_families(a, b, equal)
    a, b = expanded(a), expanded(b)
    if isinstance(a, Text) or isinstance(b, Text):
        return a == b
    if isinstance(a, Relation) or isinstance(b, Relation):
        (ours, rounded), (theirs, other) = _split_rounding(a), _split_rounding(b)
        if rounded is not None or other is not None:
            return equal(ours, theirs) and (rounded is None or other is None or equal(rounded, other))
        return _equal_relations(a, b)
    if isinstance(a, Quantity) or isinstance(b, Quantity):
        return _equal_quantities(a, b)
    if isinstance(a, Matrix) or isinstance(b, Matrix):
        return _equal_matrices(a, b)
    if (wholes := [as_set(node) for node in (a, b)]) != [a, b] and None not in wholes:
        if unknowns(a) and unknowns(b) and unknowns(a) != unknowns(b):
            return False  # x > 3 says nothing about y
        a, b = (node for node in wholes if node is not None)
    if isinstance(a, Group | Interval) or isinstance(b, Group | Interval):
        return _equal_groups(a, b)
    return _equal_values(a, b)


def _conditions(a: Node, b: Node) -> tuple[Node, Node]:
    """The conditions of sets like ``{x : x > 3}``, in the letter of the first; other nodes unchanged."""
    match a, b:
        case Group("described", (Symbol() as x, first)), Group("described", (Symbol() as t, second)):
            free = x != t and x.name in names_of(second)
            return (a, b) if free else (first, renamed(second, t, x))
        case Group("described"), Relation((Text(), Group("described") as value), ("=",)):  # A ∩ B = {x : x > 3}
            return _conditions(a, value)
        case Relation((Text(), Group("described") as value), ("=",)), Group("described"):
            return _conditions(value, b)
    return _condition(a), _condition(b)


def _condition(node: Node) -> Node:
    return node.items[1] if isinstance(node, Group) and node.kind == "described" else node


def _equal_values(a: Node, b: Node) -> bool:
    first, second = exact.value_of(a), exact.value_of(b)
    if first is not None and second is not None:
        return first == second or exact.is_rounding(a, second) or exact.is_rounding(b, first)
    both = ((a, b), (b, a))
    if any(isinstance(node, Symbol) and isinstance(other, Symbol | Number) and symbols(node) for node, other in both):
        return False
    for decimal, other in both:
        if isinstance(decimal, Number) and decimal.places > 0 and not symbols(other):
            value = numeric.approximation(other)
            if value is not None and exact.is_rounding(decimal, value):
                return True
    if any(leaf == INFINITY for leaf in (*leaves(a), *leaves(b))):  # infinity has only a sign to compare
        return False
    if infinite_ranges(a) != infinite_ranges(b):
        a, b = with_geometric_sums(a), with_geometric_sums(b)
    return numeric.same_function(a, b)


def _equal_quantities(a: Node, b: Node) -> bool:
    if isinstance(a, Quantity) and isinstance(b, Quantity):
        if a.unit.powers != b.unit.powers:
            both = {a.unit.powers, b.unit.powers}
            if any(both == {PERCENT.powers, powers} for powers in _PERCENT_POWERS):
                return equal(a.value, b.value)
            angles = {DEGREE.powers, units.UNITS["rad"].powers}
            return both == angles and equal(_in_radians(a), _in_radians(b))
        factor = a.unit.factor / b.unit.factor
        return equal(a.value if factor == 1 else Apply("*", (a.value, Number(factor))), b.value)
    with_unit, other = (a, b) if isinstance(a, Quantity) else (b, a)
    assert isinstance(with_unit, Quantity)
    if with_unit.unit.powers in (PERCENT.powers, units.POINT.powers):
        return _same_notation(with_unit.value, other) or (with_unit.unit == PERCENT and equal(plain(with_unit), other))
    if equal(with_unit.value, other):
        return True
    is_angle = with_unit.unit.powers == DEGREE.powers
    return is_angle and Symbol("π") in leaves(other) and equal(_in_radians(with_unit), other)


def _in_radians(angle: Quantity) -> Node:
    if angle.unit.powers != DEGREE.powers:
        return angle.value
    return Apply("*", (plain(Quantity(angle.value, DEGREE)), Number(angle.unit.factor)))


def _same_notation(a: Node, b: Node) -> bool:
    """Whether two values are the same number in the same notation: 28 and 28.0, but not 0.6 and 3/5."""
    if isinstance(a, Number) and isinstance(b, Number) and a.value.denominator > 1:
        return a == b and (a.places > 0) == (b.places > 0)
    return a == b


def _split_rounding(node: Node) -> tuple[Node, Node | None]:
    """Split ``√2 ≈ 1.41`` into the exact part and the rounding that follows it."""
    if not isinstance(node, Relation) or node.signs[-1] != "≈":
        return node, None
    if len(node.signs) == 1:
        return node.sides[0], node.sides[1]
    return Relation(node.sides[:-1], node.signs[:-1]), node.sides[-1]


def _equal_relations(a: Node, b: Node) -> bool:
    for node, other in ((a, b), (b, a)):
        if isinstance(other, Group) and any(isinstance(item, Relation) for item in other.items):
            listed = split_tuple_equation(node)
            if listed != node:
                return equal(listed, other)
    first, second = assignment(a), assignment(b)
    match first, second:  # f(x) = x^2 is f(t) = t^2
        case (Apply("*" | "call", (f, Symbol() as x)), _), (Apply("*" | "call", (g, Symbol() as t)), _) if (
            f == g and x != t and x.name.islower() and t.name.islower() and not symbols(x) & names_of(b)
        ):
            return equal(a, renamed(b, t, x))
    if isinstance(a, Relation) and isinstance(b, Relation) and len(a.sides) == len(b.sides):
        nameless = first is not None and second is not None and first[0] is None and second[0] is None
        if nameless or (len(a.sides) > 2 and set(a.signs) == set(b.signs) == {"="}):
            return _sides_equal(a.sides, a.signs, b)  # the same calculation, not only the same result
    if first is not None and second is not None:
        if same_name(first[0], second[0]):
            return equal(first[1], second[1])
        if (turned := reordered_ratio(first[0], *second)) is not None:  # AB:CD = 2:3 is CD:AB = 3:2
            return equal(first[1], turned)
        if _is_turned_product(first[0], second[0]) and isinstance(first[1], Matrix | Group):  # AB is not BA
            return False
    for name, node, other in ((first, a, b), (second, b, a)):
        if name is not None and not isinstance(other, Relation):
            return equal(name[1], other)
        if isinstance(node, Relation) and not isinstance(other, Relation) and _is_rewritten(node):
            return equal(node.sides[-1], other)
        if isinstance(node, Relation) and isinstance(other, Apply | Number) and set(node.signs) == {"="}:
            return all(equal(side, other) for side in node.sides)  # a true identity: (x-1)^2 = x^2-2x+1
    if isinstance(a, Relation) and isinstance(b, Relation) and names_of(a) != names_of(b):
        return False  # x > 3 says nothing about y
    left, right = as_set(a), as_set(b)
    if isinstance(a, Relation) != isinstance(b, Relation):  # 0 < f(x) < 1 is (0, 1)
        left, right = left or as_range(a), right or as_range(b)
    if left is not None and right is not None:
        return equal(left, right)
    if not (isinstance(a, Relation) and isinstance(b, Relation)) or len(a.signs) != len(b.signs):
        return False
    if _sides_equal(a.sides, a.signs, b) or _sides_equal(*mirrored(a), b):
        return True
    if set(a.signs) == set(b.signs) == {"="} and len(a.signs) == 1:
        return _same_equation(a, b)
    return _same_inequality(a, b)


def _is_turned_product(name: Node | None, other: Node | None) -> bool:
    """Whether two names are the same letters multiplied in another order."""
    match name, other:
        case Apply("*", ours), Apply("*", theirs):
            return ours != theirs and Counter(ours) == Counter(theirs)
    return False


def _is_rewritten(node: Relation) -> bool:
    """Whether one expression in several letters is rewritten, then evaluated or given in other letters.

    ``r^2+s^2 = (r+s)^2-2rs = 13``, ``ln(ab^2) = ln a + 2 ln b = p + 2q``. The rewriting is verified.
    """
    names = names_of(node.sides[-1])
    if names and not any(names & names_of(side) for side in node.sides[:-1]):
        expressions = list(node.sides[:-1])
    else:
        expressions = [side for side in node.sides if len(names_of(side)) > 1]
        if any(map(names_of, node.sides[len(expressions) :])):
            return False
    if not 1 < len(expressions) <= min(MAX_REWRITINGS, len(node.sides) - 1) or set(node.signs) != {"="}:
        return False
    if not all(isinstance(side, Apply) for side in expressions):
        return False
    return all(numeric.same_function(expressions[0], side) for side in expressions[1:])


def _sides_equal(sides: Sequence[Node], signs: tuple[str, ...], b: Relation) -> bool:
    return signs == b.signs and all(equal(x, y) for x, y in zip(sides, b.sides, strict=True))


def _same_equation(a: Relation, b: Relation) -> bool:
    """Whether both set the same expression to zero, up to a nonzero constant factor."""
    first, second = (difference(*relation.sides) for relation in (a, b))
    names = symbols(first)
    return bool(names) and names == symbols(second) and numeric.proportional(first, second)


def _same_inequality(a: Relation, b: Relation) -> bool:
    """Whether two chains state, step by step, that the same expression is positive, up to a positive factor."""
    if not set(a.signs) | set(b.signs) <= {"<", "≤", ">", "≥"}:
        return False
    (first, ours), (second, theirs) = rising(a), rising(b)
    if ours != theirs:
        return False
    for steps in zip(pairwise(first), pairwise(second), strict=True):
        left, right = (difference(*step) for step in steps)
        if symbols(left) != symbols(right) or not numeric.proportional(left, right, positive=True):
            return False
    return True


def _equal_matrices(a: Node, b: Node) -> bool:
    """Compare entry by entry; a single row or column may also be a tuple."""
    if isinstance(a, Matrix) and isinstance(b, Matrix):
        same_shape = [len(row) for row in a.rows] == [len(row) for row in b.rows]
        return same_shape and all(map(equal, children(a), children(b)))
    matrix, other = (a, b) if isinstance(a, Matrix) else (b, a)
    assert isinstance(matrix, Matrix)
    entries = children(matrix)
    if isinstance(other, Group) and other.kind == "bare":
        other = Group("tuple", values_by_name(other) or ())
    if not isinstance(other, Group) or other.kind != "tuple" or len(other.items) != len(entries):
        return False
    return 1 in (len(matrix.rows), len(matrix.rows[0])) and all(map(equal, entries, other.items))


def _equal_groups(a: Node, b: Node) -> bool:
    if _is_in_pieces(a) or _is_in_pieces(b):
        in_order = isinstance(a, Group) and isinstance(b, Group) and a.kind == b.kind
        return (in_order and _equal_in_any_order(children(a), children(b))) or same_pieces(a, b)
    for node, other in ((a, b), (b, a)):
        if isinstance(node, Interval):
            if isinstance(other, Group):
                other = as_interval(other) or other
            if not isinstance(other, Interval) or node.low_closed != other.low_closed:
                return False
            return node.high_closed == other.high_closed and equal(node.low, other.low) and equal(node.high, other.high)
        only = _single_element(other)
        if only is not None and not (isinstance(node, Group) and node.kind == "set"):
            return equal(node, only)  # {5} is 5, but {∅} is not ∅
        if not isinstance(node, Group):  # one value against several
            match other:
                case Group("ratio", (first, second)):
                    return equal(Apply("*", (first, Apply("inv", (second,)))), node)
            return False
    assert isinstance(a, Group)
    assert isinstance(b, Group)
    kinds = {a.kind, b.kind}
    if kinds <= {"set", "bare"} and (by_names := _by_names(a, b)) is not None:
        return by_names
    only_relations = all(isinstance(item, Relation) for item in (*a.items, *b.items))
    if kinds <= {"both", "bare"} and "both" in kinds and only_relations:
        return _equal_in_any_order(a.items, b.items)
    if kinds == {"union"}:
        return _equal_in_any_order([as_interval(x) or x for x in a.items], [as_interval(x) or x for x in b.items])
    if kinds <= {"set", "bare"}:
        ours, theirs = (list(dict.fromkeys(x.items)) if "set" in kinds else list(x.items) for x in (a, b))
        return _equal_in_any_order(ours, theirs)
    if kinds == {"bare", "tuple"}:
        listed, other = (a, b) if a.kind == "bare" else (b, a)
        values = values_by_name(listed)
        return values is not None and _equal_groups(Group("tuple", values), other)
    if kinds == {"ratio"} and len(a.items) == len(b.items) > 1:
        terms = zip(a.items[1:], b.items[1:], strict=True)
        return all(equal(Apply("*", (a.items[0], y)), Apply("*", (b.items[0], x))) for x, y in terms)
    alike = len(kinds) == 1 or (kinds in ({"list", "bare"}, {"list", "tuple"}) and len(a.items) != 2)
    return alike and len(a.items) == len(b.items) and all(map(equal, a.items, b.items))


def _is_in_pieces(node: Node) -> bool:
    return isinstance(node, Group) and node.kind == "cases"


def _by_names(a: Group, b: Group) -> bool | None:
    """Compare named values, ``x = 3, y = -1``, with an unnamed list; None if the groups are not such a pair."""
    ours, theirs = (values_by_name(node) or values_by_word(node) for node in (a, b))
    if (ours is None) == (theirs is None):
        return None
    values, other = (ours, b) if ours is not None else (theirs, a)
    if values is None or len(values) < 2 or any(isinstance(item, Relation | Group) for item in other.items):
        return None
    if other.kind != "bare" or len(values) != len(other.items):
        return False
    named = a if ours is not None else b
    if any("_" in name for item in named.items for name in names_of(item)):  # x_1 and x_2 are the roots in any order
        return _equal_in_any_order(values, other.items)
    return all(map(equal, values, other.items))


def _single_element(node: Node) -> Node | None:
    """The element of a one-element set; None for anything else."""
    return node.items[0] if isinstance(node, Group) and node.kind == "set" and len(node.items) == 1 else None


def _equal_in_any_order(ours: Sequence[Node], theirs: Sequence[Node]) -> bool:
    """Compare sets or bare lists; a repeated solution in several unknowns counts once."""
    ours, theirs = _without_repeats(ours), _without_repeats(theirs)
    if len(ours) != len(theirs):
        return False
    left, right = Counter(map(_multiset_key, ours)), Counter(map(_multiset_key, theirs))
    left, right = left - right, right - left
    if left.total() ** 2 > MAX_SYMBOLIC_PAIRS and not all(isinstance(key, Number) for key in left):
        raise TooLargeError("too many elements to compare")
    rest = list(right.elements())
    for item in left.elements():
        match = next((other for other in rest if _is_set(item) == _is_set(other) and equal(item, other)), None)
        if match is None:
            return False
        rest.remove(match)
    return True


def _is_set(node: Node) -> bool:
    return isinstance(node, Group) and node.kind == "set"


def _without_repeats(items: Sequence[Node]) -> Sequence[Node]:
    return list(dict.fromkeys(items)) if all(isinstance(item, Group) for item in items) else items


def _multiset_key(node: Node) -> Node:
    """Equal keys mean equal values; the converse holds only for exact numbers."""
    value = exact.value_of(node)
    return node if value is None else Number(value)
