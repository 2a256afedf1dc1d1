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
from itertools import pairwise
from typing import TYPE_CHECKING

from rstar.grading import exact, numeric
from rstar.grading.checks import run_check
from rstar.grading.extract import LONGEST_ANSWER, answer_of, quick_answer
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
from rstar.grading.normal import normal, prose, squeezed, words
from rstar.grading.parser import parse
from rstar.grading.relations import as_set, assignment, expanded, same_name, values_by_name
from rstar.grading.spoken import spoken
from rstar.grading.units import PERCENT
from rstar.grading.verdict import Verdict

if TYPE_CHECKING:  # search may import this package, but never the module of gold answers
    from rstar.answers import AnswerKey

LONGEST_LITERAL = 60
MOST_SYMBOLIC_PAIRS = 16
"""How many pairs of elements of two sets may be compared as expressions."""
_TRIPLES = re.compile(r"(?<![\d,.])\d{3},\d{3}")
"""What may be a number of many digits or a list of short ones; ``1,234`` is no list."""
_INITIALS = re.compile(r"[A-Z]{2,}|(?![abc]{3}|[xyz]{3}|inf)[a-z]{3}")
"""Letters in a row that are a name, a numeral or a word rather than a product, when they are the whole answer."""
_CHOICE = re.compile(
    r"(?:\(?([A-H])[).:]\)?\s+|\(([A-H])\)(?![(+\-*/^=!])|\\(?:text[a-z]*|mathbf|mathrm)\{ ?\(([A-H])\) ?\} ?)"
    r"(?!\s*(?:[,;&]|(?:\\text\{\s*)?(?:and|or)\b|\(?[A-H]\)?(?![A-Za-z])))(\S.*)",
    re.DOTALL,
)
_LETTERS = re.compile(
    r"(?:\\(?P<mark>[a-z]+) ?)?(?:\\(?:text|mathrm)\b)?"
    r"(?P<letters>[({ ]*[A-Za-z](?:(?: |\\cdot ?)*[A-Za-z]){1,5}[)} ]*)"
)
_YES_OR_NO = re.compile(r"(?:\\text\{ ?)?(yes|no|true|false) ?[,.;:!]", re.IGNORECASE)
_HOURS = re.compile(r"(\d{1,2}):([0-5]\d)")
_REPEATING = re.compile(r"(-?\d+\.\d*)\((\d+)\)")
_LOGARITHM = re.compile(r"log(?![_A-Za-z])")
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
    quick = _grade_literals(gold, prediction)
    if quick is not None:
        return quick
    wanted, said = answer_of(gold), answer_of(prediction)
    if wanted is None:  # a gold that is prose stands for itself
        wanted = gold
    if _same_text(gold, prediction if said is None else said):
        return Verdict("correct", "the same text", gold, prediction if said is None else said)
    if said is None:
        return Verdict("unparseable", "no answer found", wanted[:LONGEST_ANSWER])
    if len(wanted) > LONGEST_ANSWER:
        return Verdict("unparseable", "the gold answer is too long", wanted[:LONGEST_ANSWER])
    return _decide(normal(wanted), normal(said))


def _same_text(gold: str, said: str) -> bool:
    """Whether a gold answer in prose, of which only a part is mathematics, has been said as it is."""
    if max(len(gold), len(said)) > LONGEST_ANSWER or not gold.strip():
        return False
    return squeezed(normal(gold)) == squeezed(normal(said))


def _grade_literals(gold: str, prediction: str) -> Verdict | None:
    """The verdict on two exact numbers; None where it takes more than a look to find or to compare them."""
    if len(gold) > LONGEST_LITERAL or (first := exact.literal(gold)) is None:
        return None
    said = prediction if len(prediction) <= LONGEST_LITERAL else None
    second = exact.literal(said) if said is not None else None
    if second is None:
        said = quick_answer(prediction)
        second = exact.literal(said) if said is not None and len(said) <= LONGEST_LITERAL else None
        if second is None:
            return None
    same = exact.same_literal(first, second)
    if same is None:
        return None
    return Verdict("correct" if same else "wrong", "exact numbers", gold, said or "")


def is_equivalent(gold: str, prediction: str | None) -> bool:
    """Whether `grade` finds a prediction correct."""
    return grade(gold, prediction).correct


def verify(key: AnswerKey, prediction: str | None) -> Verdict:
    """Grade a prediction by the key's own check where it has one, else by its answer.

    Raises:
        DataError: the check is of an unknown kind, or malformed.
    """
    return grade(key.answer, prediction) if key.check is None else run_check(key.check, prediction)


def read(answer: str) -> list[Node]:
    """The ways in which grading reads a bare answer, most likely first; none when it cannot be read."""
    try:
        return _readings(normal(answer))
    except (UnreadableError, RecursionError):
        return []


def _decide(gold: str, prediction: str) -> Verdict:
    forms = (squeezed(gold), squeezed(prediction))
    if not prediction:
        return Verdict("unparseable", "empty answer", *forms)
    if forms[0] == forms[1]:
        return Verdict("correct", "the same form", *forms)
    if _same_letters(gold, prediction) or _same_prose(gold, prediction):
        return Verdict("correct", "the same letters", *forms)
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


def _same_letters(gold: str, prediction: str) -> bool:
    """Whether both are the same letters in a row: ``pqr`` and ``p q r``, ``AB`` and ``\\overline{AB}``."""
    first, second = _LETTERS.fullmatch(gold), _LETTERS.fullmatch(prediction)
    if first is None or second is None or (first["mark"] and second["mark"] and first["mark"] != second["mark"]):
        return False
    ours, theirs = (re.sub("[^A-Za-z]", "", match["letters"]) for match in (first, second))
    return ours == theirs and len(ours) > 1


def _same_prose(gold: str, prediction: str) -> bool:
    """Whether both are the same words, whatever stands between them: some data sets have lost their spaces."""
    ours, theirs = prose(gold), prose(prediction)
    return ours is not None and len(ours) > 3 and ours == theirs


def _readings(form: str) -> list[Node]:
    """The ways to read a normal form, most likely first; a text that is not mathematics is read as words."""
    readings = _readings_in_words(form)
    if (choice := _CHOICE.fullmatch(form)) is not None:
        readings = [Symbol(choice[1] or choice[2] or choice[3]), *_readings(choice[4])]
    if not readings:
        readings = _readings_as_mathematics(form)
    for reading in readings:
        _check_sizes(reading)
    return readings


def _readings_in_words(form: str) -> list[Node]:
    """Times of day, names, and what is said in plain words; none where the form is anything else."""
    if (clock := _CLOCK.fullmatch(form)) is not None:
        return [Text(_time(int(clock[1]), int(clock[2] or 0), clock[3].lower()))]
    if _INITIALS.fullmatch(form):
        return [Text(words(form))]
    said = words(form)
    if not said.replace(" ", "").isalpha() or len(said) == 1:
        return []
    meant = spoken(said)
    if meant is None and (short := _YES_OR_NO.match(form)) is not None:
        return [Text(said), Text(short[1].lower())]
    return [] if meant is None else [Text(said), meant]


def _time(hour: int, minute: int, half: str) -> str:
    """A time of day by the 24-hour clock."""
    return f"{hour % 12 + 12 * (half == 'p')}:{minute:02}"


def _readings_as_mathematics(form: str) -> list[Node]:
    readings: list[Node] = []
    try:
        readings.append(parse(form))
        if _TRIPLES.search(form):
            readings.append(parse(form, thousands=False))
        if _LOGARITHM.search(form):
            readings.append(parse(form, decadic=True))
    except TooLargeError:
        raise
    except UnreadableError:
        if not _MEANING.search(form):
            raise UnreadableError("nothing that can be read") from None
        readings.append(Text(words(form)))
    if (clock := _HOURS.fullmatch(form)) is not None and int(clock[1]) < 24:
        hour, minute = int(clock[1]), int(clock[2])
        readings = [Text(f"{hour}:{minute:02}")]  # and no ratio: 3:30 is not 1:10
        if 0 < hour <= 12:
            readings += [Text(_time(hour, minute, half)) for half in "ap"]
    if (repeating := _REPEATING.fullmatch(form)) is not None:
        periodic = parse(rf"{repeating[1]}\overline{{{repeating[2]}}}")
        readings = [periodic] if repeating[1].endswith(".") else [*readings, periodic]
    return list(dict.fromkeys(readings))


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
        (ours, rounded), (theirs, other) = _exactly(a), _exactly(b)
        if rounded is not None or other is not None:
            return _equal(ours, theirs) and (rounded is None or other is None or _equal(rounded, other))
        return _equal_relations(a, b)
    if isinstance(a, Quantity) or isinstance(b, Quantity):
        return _equal_quantities(a, b)
    if isinstance(a, Matrix) or isinstance(b, Matrix):
        return _equal_matrices(a, b)
    if (wholes := [as_set(node) for node in (a, b)]) != [a, b] and None not in wholes:
        a, b = (node for node in wholes if node is not None)
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
            if value is not None and exact.is_rounding(decimal, value):
                return True
    if any(leaf == INFINITY for leaf in (*leaves(a), *leaves(b))):  # it has a sign and nothing else to compare
        return False
    return numeric.same_function(a, b)[0]


def _rounded(node: Node, value: Fraction) -> bool:
    return isinstance(node, Number) and exact.is_rounding(node, value)


def _equal_quantities(a: Node, b: Node) -> bool:
    if isinstance(a, Quantity) and isinstance(b, Quantity):
        if a.unit.powers != b.unit.powers:
            return False
        factor = a.unit.factor / b.unit.factor
        return _equal(a.value if factor == 1 else Apply("*", (a.value, Number(factor))), b.value)
    with_unit, other = (a, b) if isinstance(a, Quantity) else (b, a)
    assert isinstance(with_unit, Quantity)
    if _equal(with_unit.value, other):
        return True
    if with_unit.unit != PERCENT:
        return False
    return _equal(Apply("*", (with_unit.value, Number(Fraction(1, 100)))), other)


def _exactly(node: Node) -> tuple[Node, Node | None]:
    """What is said exactly, and the rounding that follows it: ``√2 ≈ 1.41``."""
    if not isinstance(node, Relation) or node.signs[-1] != "≈":
        return node, None
    if len(node.signs) == 1:
        return node.sides[0], node.sides[1]
    return Relation(node.sides[:-1], node.signs[:-1]), node.sides[-1]


def _equal_relations(a: Node, b: Node) -> bool:
    first, second = assignment(a), assignment(b)
    if isinstance(a, Relation) and isinstance(b, Relation) and len(a.sides) == len(b.sides):
        nameless = first is not None and second is not None and first[0] is None and second[0] is None
        if nameless or (len(a.sides) > 2 and set(a.signs) == set(b.signs) == {"="}):
            return _sides_equal(a.sides, a.signs, b)  # the same calculation, not only the same end of it
    if first is not None and second is not None and same_name(first[0], second[0]):
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
    if set(a.signs) == set(b.signs) == {"="} and len(a.signs) == 1:
        return _same_equation(a, b)
    return _same_inequality(a, b)


def _sides_equal(sides: Sequence[Node], signs: tuple[str, ...], b: Relation) -> bool:
    return signs == b.signs and all(_equal(x, y) for x, y in zip(sides, b.sides, strict=True))


def _mirrored(signs: tuple[str, ...]) -> tuple[str, ...]:
    turned = {"<": ">", ">": "<", "≤": "≥", "≥": "≤"}
    return tuple(turned.get(sign, sign) for sign in reversed(signs))


def _same_equation(a: Relation, b: Relation) -> bool:
    """Whether both say that the same expression is zero, up to a constant factor other than zero."""
    first, second = (_difference(r.sides[0], r.sides[1]) for r in (a, b))
    names = symbols(first)
    return bool(names) and names == symbols(second) and numeric.proportional(first, second)


def _same_inequality(a: Relation, b: Relation) -> bool:
    """Whether two chains say, step by step, that the same expression is positive, up to a positive factor."""
    if not set(a.signs) | set(b.signs) <= {"<", "≤", ">", "≥"}:
        return False
    first, second = (_rising(relation) for relation in (a, b))
    if first.signs != second.signs:
        return False
    for ours, theirs in zip(pairwise(first.sides), pairwise(second.sides), strict=True):
        if symbols(_difference(*ours)) != symbols(_difference(*theirs)):
            return False
        if not numeric.proportional(_difference(*ours), _difference(*theirs), positive=True):
            return False
    return True


def _rising(relation: Relation) -> Relation:
    """The same with < and ≤ only, where all signs point the same way."""
    if relation.signs[0] in (">", "≥"):
        return Relation(relation.sides[::-1], _mirrored(relation.signs))
    return relation


def _difference(a: Node, b: Node) -> Node:
    return Apply("+", (b, Apply("*", (Number(Fraction(-1)), a))))


def _equal_matrices(a: Node, b: Node) -> bool:
    """Entry by entry; a single row or column may also be written as a tuple."""
    if isinstance(a, Matrix) and isinstance(b, Matrix):
        ours, theirs = ([entry for row in matrix.rows for entry in row] for matrix in (a, b))
        return [len(row) for row in a.rows] == [len(row) for row in b.rows] and all(map(_equal, ours, theirs))
    matrix, other = (a, b) if isinstance(a, Matrix) else (b, a)
    assert isinstance(matrix, Matrix)
    entries = [entry for row in matrix.rows for entry in row]
    if not isinstance(other, Group) or other.kind != "tuple" or len(other.items) != len(entries):
        return False
    return 1 in (len(matrix.rows), len(matrix.rows[0])) and all(map(_equal, entries, other.items))


def _equal_groups(a: Node, b: Node) -> bool:
    for one, other in ((a, b), (b, a)):
        if isinstance(one, Interval):
            if isinstance(other, Group):
                other = _as_interval(other) or other
            return isinstance(other, Interval) and _equal_intervals(one, other)
        only = _only(other)
        if only is not None and not (isinstance(one, Group) and one.kind == "set"):
            return _equal(one, only)  # {5} is 5, but {∅} is not ∅
        if not isinstance(one, Group):  # one value against several
            return False
    assert isinstance(a, Group)
    assert isinstance(b, Group)
    kinds = {a.kind, b.kind}
    if kinds == {"union"}:
        return _equal_in_any_order([_as_interval(x) or x for x in a.items], [_as_interval(x) or x for x in b.items])
    if kinds <= {"set", "bare"}:
        ours, theirs = (list(dict.fromkeys(x.items)) if "set" in kinds else list(x.items) for x in (a, b))
        return _equal_in_any_order(ours, theirs)
    if kinds == {"bare", "tuple"}:
        listed, other = (a, b) if a.kind == "bare" else (b, a)
        values = values_by_name(listed)
        return values is not None and _equal_groups(Group("tuple", values), other)
    if kinds == {"ratio"} and len(a.items) == len(b.items) > 1:
        return all(_equal(_cross(a, b, place), _cross(b, a, place)) for place in range(1, len(a.items)))
    alike = len(kinds) == 1 or kinds == {"list", "bare"} or (kinds == {"list", "tuple"} and len(a.items) != 2)
    return alike and len(a.items) == len(b.items) and all(map(_equal, a.items, b.items))


def _only(node: Node) -> Node | None:
    """The element of a set that has one."""
    return node.items[0] if isinstance(node, Group) and node.kind == "set" and len(node.items) == 1 else None


def _cross(a: Group, b: Group, place: int) -> Node:
    """First of one ratio times another place of the other: the same for both, when the ratios are."""
    return Apply("*", (a.items[0], b.items[place]))


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
