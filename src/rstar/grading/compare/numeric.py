"""Equality of functions in ball arithmetic (Arb, Johansson 2017, through python-flint).

A value is a ball proven to contain it. *Different* is therefore a proof; *equal* means that two values could not be
told apart at a precision of some 270 digits (constants: 1,350). Constants are compared once, functions at fixed
rational points of several sizes and all signs. Two functions are equal when they agree wherever *both* are defined as
real functions, at `MIN_AGREEING_POINTS` or more: ``x^2/x`` is ``x``, ``2 ln x`` is ``ln x^2``, but ``sqrt(x^2)`` is not
``x``. Piecewise functions (roots, logarithms, ``|x - 10000|``) are also compared around their constants, floors and
ceilings also at integers. Functions that are real nowhere else are compared at integers (``(-1)^n``) and then as
complex functions; expressions with ``i`` are complex from the start.

Nothing runs long: precision bounds the time of each operation, and nothing is simplified. Nothing depends on signals or
processes. Threads take turns, because flint has one precision per process: code that uses python-flint in another
thread sees it change.
"""

from __future__ import annotations

import operator
import os
import random
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from fractions import Fraction
from functools import lru_cache, reduce
from typing import Any

import flint

from rstar.grading.compare import exact
from rstar.grading.read.lexer import UnreadableError
from rstar.grading.read.nodes import Apply, Node, Number, Symbol, leaves, symbols
from rstar.grading.read.series import infinite_ranges, is_indexed, terms
from rstar.grading.read.vocabulary import word_list

FUNCTION_BITS = (128, 1_100, 5_000)
CONSTANT_BITS = (128, 5_000, 20_000)
"""Precisions in bits, tried in order while two values cannot be told apart."""

MIN_AGREEING_POINTS = 3
_RELATIVE_TOLERANCE = Fraction(1, 2**900)
"""Tolerance, relative to values above 1."""
_CONSTANT_TOLERANCE = Fraction(1, 2**4_500)
"""Absolute tolerance for constants of any size, so that adding one always makes a difference."""

_PRIME = 97
_SIZES = (range(15, 290), range(400, 4_000), range(5_000, 500_000))
"""Numerators over `_PRIME`, none a multiple of it: points of magnitude 1, 10 and 1000."""
_SIGNS = (
    ((1,), (-1,), (1,), (-1,), (1, -1), (1,), (1, -1), (1, -1)),
    ((1,), (1,), (-1,), (1, -1)),
    ((1,), (1,), (1,), (-1,), (1, -1)),
)

_lock = threading.Lock()  # flint has one precision per process
os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release)

Point = Mapping[str, Fraction]
Value = Any
"""An `arb` or `acb`; a non-finite ball means "not defined"."""


class UndecidedError(Exception):
    """No difference was found, but the values are not precise enough to call them equal."""


def same_function(first: Node, second: Node) -> bool:
    """Whether two arithmetic expressions are equal, as the module docstring defines it.

    Raises:
        UnreadableError: an expression is more than arithmetic.
        UndecidedError: the values can be neither told apart nor called equal.
    """
    if infinite_ranges(first) != infinite_ranges(second):
        return False
    names = tuple(sorted(symbols(first) | symbols(second)))
    imaginary = any(leaf == Symbol("i") for side in (first, second) for leaf in leaves(side))
    fields = (flint.acb,) if imaginary else (flint.arb, flint.acb)
    points = (_test_points(first, second, len(names)), _integer_points(len(names))) if names else (((),),)
    comparison = _Comparison(first, second)
    for field in fields:
        for candidates in points:
            agreed = 0
            for place in candidates:
                point = dict(zip(names, place, strict=True))
                same = comparison.at(point, field)
                if same is False:
                    return False
                agreed += same is True
            if agreed >= (MIN_AGREEING_POINTS if names else 1):
                return True
    if comparison.undecided:
        raise UndecidedError("the values can neither be told apart nor be called equal")
    return False


def proportional(first: Node, second: Node, *, positive: bool = False) -> bool:
    """Whether one expression is a constant times the other, and neither is zero. Raises like `same_function`.

    With `positive`, the constant must be positive.
    """
    names = tuple(sorted(symbols(first) | symbols(second)))
    zero = Number(Fraction(0))
    for place in _real_points(len(names)):
        point = dict(zip(names, place, strict=True))
        ours, theirs = _substituted(first, point), _substituted(second, point)
        if not (_real_value(ours).is_finite() and _real_value(theirs).is_finite()):
            continue
        if same_function(ours, zero) or same_function(theirs, zero):
            return False  # a zero at such a point is a zero everywhere, or the other is nonzero there
        if positive and not _real_value(Apply("*", (ours, theirs))) > 0:
            return False
        return same_function(Apply("*", (first, theirs)), Apply("*", (second, ours)))
    return False


def agree_at(first: Node, second: Node, point: Point) -> bool:
    """Whether two expressions are defined and equal as real numbers at a point. Raises `UnreadableError`."""
    return _Comparison(first, second).at(point, flint.arb) is True


def approximation(constant: Node) -> Fraction | None:
    """A real constant to at least 35 digits; None if it is not real. Raises `UnreadableError` like `same_function`."""
    with _precision(256):
        value = _Evaluation({}, flint.arb).value(constant)
        if not value.is_finite() or value.rel_accuracy_bits() < 120:
            return None
        middle = value.mid().fmpq()
    return Fraction(int(middle.p), int(middle.q))


class _Comparison:
    """Compares two expressions point by point."""

    def __init__(self, first: Node, second: Node) -> None:
        self._first, self._second = first, second
        self._alike = False  # agreed before: skip the precision that can only find differences
        self.undecided = False

    def at(self, point: Point, field: type[Value]) -> bool | None:
        """Whether both have the same value at a point; None if one is undefined or not precise enough."""
        precisions = FUNCTION_BITS if point else CONSTANT_BITS
        for bits in precisions[self._alike :]:
            with _precision(bits):
                evaluation = _Evaluation(point, field)
                ours, theirs = evaluation.value(self._first), evaluation.value(self._second)
                if not (ours.is_finite() and theirs.is_finite()):
                    if bits == precisions[0]:
                        continue  # perhaps a divisor not yet known to be nonzero
                    return None
                if not ours.overlaps(theirs):
                    return False
                enough = bits > precisions[0] if point else bits == precisions[-1]
                if enough and _within_tolerance(ours, theirs, constants=not point):
                    self._alike = True
                    return True
        self.undecided = True
        return None


def _within_tolerance(a: Value, b: Value, *, constants: bool) -> bool:
    if constants:
        return bool(abs(a - b) < _arb(_CONSTANT_TOLERANCE))
    return bool(abs(a - b) < flint.arb(1).max(abs(a)).max(abs(b)) * _arb(_RELATIVE_TOLERANCE))


def _real_value(constant: Node) -> Value:
    with _precision(FUNCTION_BITS[1]):
        return _Evaluation({}, flint.arb).value(constant)


@contextmanager
def _precision(bits: int) -> Iterator[None]:
    with _lock:
        before, flint.ctx.prec = flint.ctx.prec, bits
        try:
            yield
        finally:
            flint.ctx.prec = before


def _arb(value: Fraction) -> Value:
    return flint.arb(flint.fmpq(value.numerator, value.denominator))


class _Evaluation:
    """Evaluation at one point in reals (`flint.arb`) or complex numbers (`flint.acb`), at the current precision."""

    def __init__(self, point: Point, field: type[Value]) -> None:
        self._field = field
        self._point = point
        self._at: dict[str, Value] = {name: field(_arb(value)) for name, value in point.items()}

    def value(self, node: Node) -> Value:
        """The ball of a node. Raises `UnreadableError` for anything but arithmetic."""
        match node:
            case Number(value):
                return self._field(_arb(value))
            case Symbol(name):
                return self._symbol(name)
            case Apply("^", (base, power)):
                return self._power(self.value(base), power)
            case Apply("root", (radicand, index)):
                return self._power(self.value(radicand), Apply("inv", (index,)))
            case Apply("call", (Symbol(name), *args)):
                return _unknown_function(name, list(map(self.value, args)))
            case Apply(op, args) if op in _OPERATIONS:
                return _OPERATIONS[op](*map(self.value, args))
            case Apply(op) if is_indexed(op):
                return self._over_index(node)
        raise UnreadableError("not an arithmetic expression")

    def _over_index(self, node: Apply) -> Value:
        """Evaluate a sum or product; not defined if its index does not run over integers."""
        found = terms(node, lambda end: exact.value_of(_substituted(end, self._point)))
        if found is None:
            return self._field("nan")
        combine, empty = (_product, 1) if node.op.startswith("prod") else (_sum, 0)
        return combine(self._field(empty), *map(self.value, found))

    def _symbol(self, name: str) -> Value:
        if name in self._at:
            return self._at[name]
        if name == "π":
            return self._field(flint.arb.pi())
        if name == "e":
            return self._field(flint.arb.const_e())
        if name == "i" and self._field is flint.acb:
            return flint.acb(0, 1)
        raise UnreadableError(f"{name} is not a number")

    def _power(self, base: Value, exponent: Node) -> Value:
        """A power as taught in school: an odd root of a negative number is real."""
        power = exact.value_of(exponent)
        if power is None:
            return base ** self.value(exponent)
        whole, index = power.numerator, power.denominator
        if index > _MAX_ROOT_INDEX or whole.bit_length() > _MAX_POWER_BITS:
            return base ** self._field(_arb(power))
        return (base if index == 1 else _root(base, index)) ** whole


_MAX_ROOT_INDEX, _MAX_POWER_BITS = 1_000, 64


def _root(value: Value, index: int) -> Value:
    """The real root of a real number if there is one, otherwise the principal root."""
    real = value.real
    if isinstance(value, flint.acb) and not (value.imag == 0 and (index % 2 or real >= 0)):
        return value.root(index)
    if real < 0 and index % 2:
        root = -((-real).root(index))
    elif real.contains(0) and not real.is_zero():  # possibly zero
        root = real.nonnegative_part().root(index)
        root = root.union(-root) if index % 2 else root
    else:
        root = real.root(index)
    return type(value)(root)


def _unknown_function(name: str, values: list[Value]) -> Value:
    """A fixed function per name, without any symmetry: an identity that holds for it holds for every function."""
    total = values[0] * 0
    for value, (slope, start, turn) in zip(values, _coefficients(name, len(values)), strict=True):
        total = total * _arb(turn) + (value * _arb(slope) + _arb(start)).sin() + value * value * _arb(turn)
    return total


@lru_cache(maxsize=256)
def _coefficients(name: str, count: int) -> tuple[tuple[Fraction, Fraction, Fraction], ...]:
    """Slope, start and turn of an unknown function, per argument."""
    draw = random.Random(name)

    def coefficient() -> Fraction:
        return Fraction(draw.randrange(100, 1_000), _PRIME * 100)

    return tuple((coefficient(), coefficient(), coefficient()) for _ in range(count))


def _floor(value: Value) -> Value:
    return value.floor() if isinstance(value, flint.arb) else value.real_floor()


def _sum(*values: Value) -> Value:
    return reduce(operator.add, values)


def _product(*values: Value) -> Value:
    return reduce(operator.mul, values)


_OPERATIONS: dict[str, Callable[..., Value]] = {
    "+": _sum,
    "*": _product,
    "inv": lambda x: 1 / x,
    "ln": operator.methodcaller("log"),
    "log": lambda x, base: x.log() / base.log(),
    "abs": lambda x: type(x)(abs(x)),
    "floor": _floor,
    "ceil": lambda x: -_floor(-x),
    "factorial": lambda n: (n + 1).gamma(),
    "binom": lambda n, k: (n + 1).gamma() * (k + 1).rgamma() * (n - k + 1).rgamma(),
    "arccot": lambda x: (1 / x).atan(),
}
_OPERATIONS |= {
    name: operator.methodcaller(name.replace("arc", "a"))
    for name in word_list("sin cos tan cot sec csc sinh cosh tanh coth arcsin arccos arctan")
}


def _substituted(node: Node, point: Point) -> Node:
    if isinstance(node, Symbol) and node.name in point:
        return Number(point[node.name])
    return Apply(node.op, tuple(_substituted(arg, point) for arg in node.args)) if isinstance(node, Apply) else node


@lru_cache(maxsize=64)
def _real_points(count: int) -> tuple[tuple[Fraction, ...], ...]:
    """Points of all signs and several sizes; no integers, where too much agrees by chance."""
    draw = random.Random(count)

    def coordinate(size: range, signs: tuple[int, ...]) -> Fraction:
        top = draw.choice(size)
        return Fraction(draw.choice(signs) * (top + (top % _PRIME == 0)), _PRIME)

    return tuple(
        tuple(coordinate(size, signs) for _ in range(count))
        for size, patterns in zip(_SIZES, _SIGNS, strict=True)
        for signs in patterns
    )


def _test_points(first: Node, second: Node, count: int) -> tuple[tuple[Fraction, ...], ...]:
    """The real points, plus points near the constants of piecewise functions, which may differ only there."""
    points = _real_points(count)
    operations = _operations(first) | _operations(second)
    if operations & {"floor", "ceil"}:
        points += _integer_points(count)
    if operations & _PIECEWISE:
        constants = {abs(leaf.value) for side in (first, second) for leaf in leaves(side) if isinstance(leaf, Number)}
        for constant in sorted(constants - {0, 1})[-_MAX_CONSTANTS:]:
            for factor in _FACTORS:
                for place in range(count):
                    near = constant * factor
                    points += (tuple(near if at == place else other for at, other in enumerate(points[0])),)
    return points


_PIECEWISE = frozenset({"abs", "floor", "ceil", "root", "^", "ln", "log"})
_MAX_CONSTANTS = 6
_FACTORS = tuple(Fraction(top, _PRIME) for top in (45, 96, 98, 205, -45, -98, -205))


def _operations(node: Node) -> frozenset[str]:
    """The operations in a tree; a power counts only if its exponent is not an integer."""
    if not isinstance(node, Apply):
        return frozenset()
    found = frozenset().union(*map(_operations, node.args))
    if node.op == "^" and isinstance(node.args[1], Number) and node.args[1].value.denominator == 1:
        return found
    return found | {node.op}


@lru_cache(maxsize=64)
def _integer_points(count: int) -> tuple[tuple[Fraction, ...], ...]:
    draw = random.Random(count)
    return tuple(
        tuple(Fraction(start + draw.randrange(3) * (position > 0)) for position in range(count))
        for start in range(1, 8)
    )
