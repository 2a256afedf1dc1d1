r"""When two answers are equal.

Both texts are treated alike: the answer is found (`extract`), brought to one spelling (`normal`), read (`parser`) and
compared. The first rule that decides wins:

1. the same normal form;
2. exact values: rationals are equal or they are not;
3. containers of the same kind element by element: sequences in order, sets and bare lists in any order; intervals by
   their ends and whether these belong to them; matrices by entry; relations side by side or as the set they describe;
4. other expressions: `numeric`.

What is granted: a name in front (``x = 5`` for ``5``), a unit or a currency on one side only, ``50%`` for ``50`` or
for ``1/2``, ``(C)`` and ``\text{C}`` for ``C``, ``{5}`` for ``5``, ``(a, b)`` as an open interval where the other side
is one, a choice letter before its text. What is refused, on purpose: 0.5 for 50 without a percent sign; any tolerance
(0.333 for 1/3; 1234568 for 1234567); a list where one value is asked ("3 or 5" for 3, ``\{3, 4\}`` for 3); ``1, 2, 3``
for 123; a tuple for a set; ``[0, 9)`` for ``(0, 9)``; a missing ``\pm``; different units; 3:30 p.m. for 3:30 a.m. The
value of ``log`` without a base is the natural logarithm.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

from rstar.grading import exact, numeric
from rstar.grading.checks import run_check
from rstar.grading.extract import LONGEST_ANSWER, answer_of
from rstar.grading.lexer import TooLargeError, UnreadableError
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
    Text,
    leaves,
    symbols,
)
from rstar.grading.normal import normal, squeezed, words
from rstar.grading.parser import parse
from rstar.grading.relations import as_set, assignment, expanded
from rstar.grading.verdict import Verdict

if TYPE_CHECKING:  # search may import this package, but never the module of gold answers
    from rstar.answers import AnswerKey

MOST_SYMBOLIC_PAIRS = 16
"""How many pairs of elements of two sets may be compared as expressions."""
_TRIPLES = re.compile(r"(?<![\d,.])\d{3},\d{3}")
"""What may be a number of many digits or a list of short ones; ``1,234`` is no list."""
_INITIALS = re.compile(r"[A-Z]{2,}|(?![abc]{3}|[xyz]{3})[a-z]{3}")
"""Letters in a row that are a name, a numeral or a word rather than a product, when they are the whole answer."""
_CHOICE = re.compile(
    r"(?:\(?([A-H])[).:]\)?\s+|\(([A-H])\)(?![(+\-*/^=!]))"
    r"(?!\s*(?:[,;&]|(?:\\text\{\s*)?(?:and|or)\b|\(?[A-H]\)?(?![A-Za-z])))(\S.*)",
    re.DOTALL,
)
_MEANING = re.compile(r"[^\W_]")
_CLOCK = re.compile(r"(\d{1,2})(?::(\d{2}))?\s*(?:\\text\{\s*)?([aApP])\s*\.?\s*[mM]\s*\.?\s*\}?")


def grade(gold: str, prediction: str | None) -> Verdict:
    """Compare a prediction with the gold answer.

    Args:
        gold: the right answer: bare, in LaTeX, or in a text as a prediction is.
        prediction: what the model wrote, or the answer found in it; None when there is none.

    Returns:
        The verdict. Nothing is raised for anything that stands in the two texts.
    """
    if prediction is None:
        return Verdict("unparseable", "no prediction", gold)
    first, second = exact.plain_number(gold), exact.plain_number(prediction)
    if first is not None and second is not None:
        same = first == second
        return Verdict("correct" if same else "wrong", "whole numbers", str(first), str(second))
    wanted, said = answer_of(gold), answer_of(prediction)
    if wanted is None:  # a gold that is prose stands for itself
        wanted = gold
    if said is None:
        if prediction.strip() and prediction.strip() == gold.strip():
            return Verdict("correct", "the same text", gold, prediction)
        return Verdict("unparseable", "no answer found", wanted[:LONGEST_ANSWER])
    if len(wanted) > LONGEST_ANSWER:
        return Verdict("unparseable", "the gold answer is too long", wanted[:LONGEST_ANSWER])
    return _decide(normal(wanted), normal(said))


def is_equivalent(gold: str, prediction: str | None) -> bool:
    """Whether `grade` finds a prediction correct."""
    return grade(gold, prediction).correct


def verify(key: AnswerKey, prediction: str | None) -> Verdict:
    """Grade a prediction by the key's own check where it has one, else by its answer.

    Raises:
        DataError: the check is of an unknown kind, or malformed.
    """
    return grade(key.answer, prediction) if key.check is None else run_check(key.check, prediction)


def _decide(gold: str, prediction: str) -> Verdict:
    forms = (squeezed(gold), squeezed(prediction))
    if not prediction:
        return Verdict("unparseable", "empty answer", *forms)
    if forms[0] == forms[1]:
        return Verdict("correct", "the same form", *forms)
    try:
        theirs = _readings(prediction)
        for ours in _readings(gold):
            for other in theirs:
                if _equal(ours, other):
                    return Verdict("correct", "equal", *forms)
    except numeric.UndecidedError as error:
        return Verdict("timeout", str(error), *forms)
    except RecursionError as error:
        return Verdict("error", str(error), *forms)
    except UnreadableError as error:
        return Verdict("unparseable", str(error), *forms)
    return Verdict("wrong", "not equal", *forms)


def _readings(form: str) -> list[Node]:
    """The ways to read a normal form, most likely first; a text that is not mathematics is read as words."""
    if (clock := _CLOCK.fullmatch(form)) is not None:
        return [Text(f"{int(clock[1])}:{clock[2] or '00'} {clock[3].lower()}m")]
    if _INITIALS.fullmatch(form):
        return [Text(words(form))]
    readings: list[Node] = []
    if (choice := _CHOICE.fullmatch(form)) is not None:
        readings = [Symbol(choice[1] or choice[2]), *_readings(choice[3])]
    try:
        readings.append(parse(form))
        if _TRIPLES.search(form) and (separate := parse(form, thousands=False)) != readings[-1]:
            readings.append(separate)
    except TooLargeError:
        raise
    except UnreadableError:
        if not _MEANING.search(form):
            raise UnreadableError("nothing that can be read") from None
        readings.append(Text(words(form)))
    for reading in readings:
        _check_sizes(reading)
    return readings


def _check_sizes(node: Node) -> None:
    match node:
        case Apply():
            exact.check_size(node)
        case Quantity(value):
            _check_sizes(value)
        case Group(_, items) | Relation(items, _):
            for item in items:
                _check_sizes(item)
        case Interval(low, high):
            _check_sizes(low)
            _check_sizes(high)
        case Matrix(rows):
            for row in rows:
                for entry in row:
                    _check_sizes(entry)


def _equal(a: Node, b: Node) -> bool:
    """Whether two readings are equal. Symmetric."""
    if a == b:
        return True
    a, b = expanded(a), expanded(b)
    if isinstance(a, Text) or isinstance(b, Text):
        return a == b
    if isinstance(a, Relation) or isinstance(b, Relation):
        return _equal_relations(a, b)
    if isinstance(a, Quantity) or isinstance(b, Quantity):
        return _equal_quantities(a, b)
    if isinstance(a, Matrix) or isinstance(b, Matrix):
        return isinstance(a, Matrix) and isinstance(b, Matrix) and _equal_matrices(a, b)
    if isinstance(a, Group | Interval) or isinstance(b, Group | Interval):
        return _equal_groups(a, b)
    return _equal_values(a, b)


def _equal_values(a: Node, b: Node) -> bool:
    first, second = exact.value_of(a), exact.value_of(b)
    if first is not None and second is not None:
        return first == second or _rounded(a, second) or _rounded(b, first)
    both = ((a, b), (b, a))
    if any(isinstance(one, Symbol) and isinstance(other, Symbol | Number) for one, other in both):
        return False
    for decimal, other in both:
        if isinstance(decimal, Number) and decimal.places > 0 and not symbols(other):
            value = numeric.approximation(other)
            return value is not None and exact.is_rounding(decimal, value)
    if any(leaf == INFINITY for leaf in (*leaves(a), *leaves(b))):  # it has a sign and nothing else to compare
        return False
    return numeric.same_function(a, b)[0]


def _rounded(node: Node, value: Fraction) -> bool:
    return isinstance(node, Number) and exact.is_rounding(node, value)


def _equal_quantities(a: Node, b: Node) -> bool:
    one = a if isinstance(a, Quantity) else Quantity(a, "")
    two = b if isinstance(b, Quantity) else Quantity(b, "")
    if one.unit and two.unit:
        return one.unit == two.unit and _equal(one.value, two.value)
    if _equal(one.value, two.value):
        return True
    if "%" not in (one.unit, two.unit):
        return False
    with_sign, without = (one.value, two.value) if one.unit else (two.value, one.value)
    return _equal(Apply("*", (with_sign, Number(Fraction(1, 100)))), without)


def _equal_relations(a: Node, b: Node) -> bool:
    first, second = assignment(a), assignment(b)
    if first is not None and second is not None and (first[0] == second[0] or None in (first[0], second[0])):
        return _equal(first[1], second[1])
    if first is not None and not isinstance(b, Relation):
        return _equal(first[1], b)
    if second is not None and not isinstance(a, Relation):
        return _equal(a, second[1])
    left, right = as_set(a), as_set(b)
    if left is not None and right is not None:
        return _equal(left, right)
    if not (isinstance(a, Relation) and isinstance(b, Relation)) or len(a.signs) != len(b.signs):
        return False
    if _sides_equal(a.sides, a.signs, b) or _sides_equal(a.sides[::-1], _mirrored(a.signs), b):
        return True
    if a.signs == b.signs and set(a.signs) <= {"="} and len(a.signs) == 1:
        return _same_equation(a, b)
    return False


def _sides_equal(sides: Sequence[Node], signs: tuple[str, ...], b: Relation) -> bool:
    return signs == b.signs and all(_equal(x, y) for x, y in zip(sides, b.sides, strict=True))


def _mirrored(signs: tuple[str, ...]) -> tuple[str, ...]:
    turned = {"<": ">", ">": "<", "≤": "≥", "≥": "≤"}
    return tuple(turned.get(sign, sign) for sign in reversed(signs))


def _same_equation(a: Relation, b: Relation) -> bool:
    """Whether both say that the same expression is zero, up to a constant factor other than zero."""
    names = symbols(Apply("+", a.sides))
    if not names or names != symbols(Apply("+", b.sides)):
        return False
    first, second = (Apply("+", (r.sides[0], Apply("*", (Number(Fraction(-1)), r.sides[1])))) for r in (a, b))
    return numeric.proportional(first, second)


def _equal_matrices(a: Matrix, b: Matrix) -> bool:
    if [len(row) for row in a.rows] != [len(row) for row in b.rows]:
        return False
    return all(
        _equal(x, y) for left, right in zip(a.rows, b.rows, strict=True) for x, y in zip(left, right, strict=True)
    )


def _equal_groups(a: Node, b: Node) -> bool:
    for one, other in ((a, b), (b, a)):
        if isinstance(one, Interval):
            if isinstance(other, Group):
                other = _as_interval(other) or other
            return isinstance(other, Interval) and _equal_intervals(one, other)
        if not isinstance(one, Group):  # one value against several
            return (
                isinstance(other, Group)
                and other.kind == "set"
                and len(other.items) == 1
                and _equal(one, other.items[0])
            )
    assert isinstance(a, Group)
    assert isinstance(b, Group)
    kinds = {a.kind, b.kind}
    if kinds == {"union"}:
        return _equal_in_any_order([_as_interval(x) or x for x in a.items], [_as_interval(x) or x for x in b.items])
    if kinds <= {"set", "bare"}:
        ours, theirs = (list(dict.fromkeys(x.items)) if "set" in kinds else list(x.items) for x in (a, b))
        return _equal_in_any_order(ours, theirs)
    alike = len(kinds) == 1 or kinds == {"list", "bare"} or (kinds == {"list", "tuple"} and len(a.items) != 2)
    return alike and len(a.items) == len(b.items) and all(map(_equal, a.items, b.items))


def _as_interval(node: Node) -> Interval | None:
    """A pair in round or square brackets as the interval that it may stand for."""
    if isinstance(node, Group) and node.kind in ("tuple", "list") and len(node.items) == 2:
        closed = node.kind == "list"
        return Interval(node.items[0], node.items[1], closed, closed)
    return node if isinstance(node, Interval) else None


def _equal_intervals(a: Interval, b: Interval) -> bool:
    if (a.low_closed, a.high_closed) != (b.low_closed, b.high_closed):
        return False
    return _equal(a.low, b.low) and _equal(a.high, b.high)


def _equal_in_any_order(ours: Sequence[Node], theirs: Sequence[Node]) -> bool:
    """Elements of two sets or bare lists; a solution of several unknowns that is listed twice counts once."""
    ours, theirs = _without_repeats(ours), _without_repeats(theirs)
    if len(ours) != len(theirs):
        return False
    left, right = Counter(map(_key, ours)), Counter(map(_key, theirs))
    left, right = left - right, right - left
    if left.total() ** 2 > MOST_SYMBOLIC_PAIRS and not all(isinstance(key, Number) for key in left):
        raise TooLargeError("too many elements to compare")
    rest = list(right.elements())
    for item in left.elements():
        twin = next((other for other in rest if _equal(item, other)), None)
        if twin is None:
            return False
        rest.remove(twin)
    return True


def _without_repeats(items: Sequence[Node]) -> Sequence[Node]:
    return list(dict.fromkeys(items)) if all(isinstance(item, Group) for item in items) else items


def _key(node: Node) -> Node:
    """Equal keys mean equal values; the reverse holds for exact numbers only."""
    value = exact.value_of(node)
    return node if value is None else Number(value)
