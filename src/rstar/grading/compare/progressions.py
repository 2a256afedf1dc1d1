"""Periodic solutions: ``kπ + π/4`` and ``kπ − 3π/4`` are the same numbers for integer k, and ``kπ/2`` is ``kπ`` with
``kπ + π/2``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from rstar.grading.compare import numeric
from rstar.grading.compare.sets import as_interval
from rstar.grading.read.nodes import Apply, Node, Number, Symbol, difference, minus, names_of, renamed

_MAX_SHIFT = 10_000
_MAX_STEPS = 12
"""Maximum number of progressions with a common step."""
_SAME = Fraction(1, 10**20)
"""Approximations that differ by less may be equal; `numeric.same_function` then decides."""
_TEST_POINTS = (2, -3, 7)

_Progression = tuple[Node, Node]
"""Start and step."""


def same_values(ours: Sequence[Node], theirs: Sequence[Node], name: str) -> bool:
    """Whether two lists of expressions, linear in `name`, together take the same values over the integers.

    Intervals are values with the same parameter at both ends. Raises like `numeric.same_function`.
    """
    first, second = ([_progressions(node, name) for node in nodes] for nodes in (ours, theirs))
    mine = [progression for progression in first if progression is not None]
    rest = [progression for progression in second if progression is not None]
    if len(mine) < len(first) or len(rest) < len(second):
        return False
    other = list(rest)
    for progression in mine:
        match = next((candidate for candidate in other if _same(progression, candidate)), None)
        if match is None:
            return _same_unions(mine, rest)
        other.remove(match)
    return not other or _same_unions(mine, rest)


@dataclass(frozen=True, slots=True)
class _Values:
    """A progression, or those of the two ends of an interval, and which ends belong to it."""

    progressions: tuple[_Progression, ...]
    closed: tuple[bool, ...] = ()


def _progressions(node: Node, name: str) -> _Values | None:
    interval = as_interval(node)
    if interval is None:
        only = _start_and_step(node, name)
        return None if only is None else _Values((only,))
    low, high = _start_and_step(interval.low, name), _start_and_step(interval.high, name)
    if low is None or high is None:
        return None
    return _Values((low, high), (interval.low_closed, interval.high_closed))


def _same(first: _Values, second: _Values) -> bool:
    """Whether all progressions of one are those of the other, moved by the same number of steps."""
    if first.closed != second.closed:
        return False
    shift = _shift_between(first.progressions[0], second.progressions[0])
    pairs = zip(first.progressions[1:], second.progressions[1:], strict=True)
    return shift is not None and all(_shift_between(*pair) == shift for pair in pairs)


def _shift_between(first: _Progression, second: _Progression) -> tuple[int, int] | None:
    """The sign and the shift for which the first at k is the second at ±k + shift; None if they differ."""
    (start, step), (other, other_step) = first, second
    if numeric.same_function(step, other_step):
        sign = 1
    elif numeric.same_function(step, minus(other_step)):
        sign = -1
    else:
        return None
    shift = _steps_between(start, other, other_step)
    return None if shift is None else (sign, shift)


def _steps_between(start: Node, other: Node, step: Node) -> int | None:
    """How many steps lead from the other value to the first; None if it is not a whole number of them."""
    if numeric.same_function(start, other):
        return 0
    steps = numeric.approximation(Apply("*", (difference(start, other), Apply("inv", (step,)))))
    if steps is None or abs(steps) > _MAX_SHIFT or abs(steps - round(steps)) > _SAME:
        return None
    return round(steps) if numeric.same_function(start, _moved(other, step, Fraction(round(steps)))) else None


def _same_unions(ours: list[_Values], theirs: list[_Values]) -> bool:
    """Whether two unions of progressions are equal: as starting values modulo a common step."""
    if any(values.closed for values in (*ours, *theirs)) or not (ours and theirs):
        return False
    known = [[values.progressions[0] for values in row] for row in (ours, theirs)]
    unit = known[0][0][1]
    ratios = [ratio for row in known for _, step in row if (ratio := _ratio(step, unit)) is not None]
    if len(ratios) < sum(map(len, known)):
        return False
    common = Fraction(
        math.lcm(*(ratio.numerator for ratio in ratios)), math.gcd(*(ratio.denominator for ratio in ratios))
    )
    counts = iter([int(common / ratio) for ratio in ratios])
    starts = [[(start, step, next(counts)) for start, step in row] for row in known]
    if any(sum(count for *_, count in row) > _MAX_STEPS for row in starts):
        return False
    first, second = (
        [_moved(start, step, Fraction(place)) for start, step, count in row for place in range(count)] for row in starts
    )
    whole = Apply("*", (Number(common), unit))
    return all(
        any(_steps_between(start, other, whole) is not None for other in others)
        for some, others in ((first, second), (second, first))
        for start in some
    )


def _ratio(step: Node, unit: Node) -> Fraction | None:
    """The size of a step as a simple fraction of another; None if it is none."""
    ratio = numeric.approximation(Apply("*", (step, Apply("inv", (unit,)))))
    if ratio is None or not ratio or abs(ratio - (simple := ratio.limit_denominator(_MAX_STEPS))) > _SAME:
        return None
    return abs(simple) if numeric.same_function(step, Apply("*", (Number(simple), unit))) else None


def _moved(start: Node, step: Node, steps: Fraction) -> Node:
    return Apply("+", (start, Apply("*", (Number(steps), step))))


def _start_and_step(node: Node, name: str) -> _Progression | None:
    if not isinstance(node, Apply) or names_of(node) != {name}:
        return None

    def at(place: int) -> Node:
        return renamed(node, Symbol(name), Number(Fraction(place)))

    start, step = at(0), difference(at(1), at(0))
    if not all(numeric.same_function(at(place), _moved(start, step, Fraction(place))) for place in _TEST_POINTS):
        return None
    return start, step
