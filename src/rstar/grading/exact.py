"""Exact values: what can be decided with `Fraction` alone, and how large a number may become.

No tolerance anywhere: 0.333 is not 1/3. The one concession is to answers that were printed by a program: a decimal of
at least `FLOAT_DIGITS` significant digits equals a value that no finite decimal can write, when it differs from it by
no more than a double's last digits (see `same_as_float`).

A power or factorial is only computed after its size has been bounded by `check_size`.
"""

from __future__ import annotations

import math
import re
from fractions import Fraction

from rstar.grading.lexer import TooLargeError, UnreadableError
from rstar.grading.nodes import Apply, Node, Number, Symbol

FLOAT_DIGITS = 15
MOST_BITS = 60_000
"""Size of the largest exact integer ever computed: 18 000 decimal digits."""
MOST_FLOAT_BITS = 1e7
"""Binary exponent of the largest inexact value, reached when variables stand in powers."""
_SYMBOL_BITS = 2.0  # variables are tried out with |x| < 4; e and π are smaller than that
_WHOLE = re.compile(r"[+-]?\d{1,30}")


def plain_number(text: str) -> int | None:
    """The value of a text that is nothing but a whole number of ordinary size: the fast path of grading."""
    return int(text) if _WHOLE.fullmatch(text) else None


def value_of(node: Node) -> Fraction | None:
    """The exact rational value; None when there is none or when it takes more than arithmetic to see it.

    The caller has checked the node with `check_size`.
    """
    if isinstance(node, Number):
        return node.value
    if not isinstance(node, Apply):
        return None
    values = [value_of(arg) for arg in node.args]
    known = [value for value in values if value is not None]
    if len(known) < len(values):
        return None
    return _apply(node.op, known)


def _apply(op: str, values: list[Fraction]) -> Fraction | None:
    match op, values:
        case "+", _:
            return sum(values, Fraction(0))
        case "*", _:
            return math.prod(values, start=Fraction(1))
        case "inv", [value]:
            return 1 / value if value else None
        case "^", [base, power] if power.denominator == 1 and (base or power > 0):
            return Fraction(base) ** int(power)
        case "abs", [value]:
            return abs(value)
        case "floor", [value]:
            return Fraction(math.floor(value))
        case "ceil", [value]:
            return Fraction(math.ceil(value))
        case "factorial", [value] if value.denominator == 1 and value >= 0:
            return Fraction(math.factorial(int(value)))
        case "binom", [n, k] if n.denominator == k.denominator == 1 and n >= 0 and k >= 0:
            return Fraction(math.comb(int(n), int(k)))
        case "root", [value, index] if index == 2 and value >= 0:
            return _square_root(value)
    return None


def _square_root(value: Fraction) -> Fraction | None:
    root = Fraction(math.isqrt(value.numerator), math.isqrt(value.denominator))
    return root if root * root == value else None


def same_as_float(decimal: Number, value: Fraction) -> bool:
    """Whether `decimal` is what a program prints for `value`, which has no finite decimal of its own.

    Args:
        decimal: a number as it was written.
        value: an exact value, or at least 30 correct digits of an irrational one.
    """
    if decimal.digits < FLOAT_DIGITS or not value:
        return False
    return abs(decimal.value / value - 1) < Fraction(5, 10**FLOAT_DIGITS)


def is_finite_decimal(value: Fraction) -> bool:
    """Whether a value can be written as a finite decimal."""
    rest = value.denominator
    for prime in (2, 5):
        while rest % prime == 0:
            rest //= prime
    return rest == 1


def check_size(node: Node) -> None:
    """Refuse arithmetic whose value could be too large to compute, or that has none.

    Raises:
        TooLargeError: a power, a factorial or a tower of them is out of bounds.
        UnreadableError: a division by zero.
    """
    _bits(node)


def _bits(node: Node) -> tuple[float, bool]:
    """An upper bound for the binary size (of numerator and denominator) and whether the value is one constant."""
    if isinstance(node, Number):
        return float(node.value.numerator.bit_length() + node.value.denominator.bit_length()), True
    if isinstance(node, Symbol):
        return _SYMBOL_BITS, node.name in ("e", "π")
    if not isinstance(node, Apply):
        return 0.0, True
    parts = [_bits(arg) for arg in node.args]
    sizes, constant = [size for size, _ in parts], all(fixed for _, fixed in parts)
    match node.op:
        case "inv" if value_of(node.args[0]) == 0:
            raise UnreadableError("divides by zero")
        case "+" | "*":
            size = sum(sizes) + len(sizes)
        case "^":
            size = sizes[0] * 2 ** min(_magnitude(node.args[1], sizes[1]), 64.0)
        case "factorial" | "binom":
            largest = 2 ** min(max(_magnitude(arg, bits) for arg, bits in zip(node.args, sizes, strict=True)), 64.0)
            size = largest * max(math.log2(largest), 1.0) if node.op == "factorial" else largest
        case "sinh" | "cosh" | "tanh" | "coth":
            size = 2 * 2 ** min(_magnitude(node.args[0], sizes[0]), 64.0)
        case _:
            size = sum(sizes) + 64
    if size > (MOST_BITS if constant else MOST_FLOAT_BITS):
        raise TooLargeError("too large to compute")
    return size, constant


def _magnitude(node: Node, bits: float) -> float:
    """Log2 of the absolute value, from above; `bits` counts a denominator too, which makes no value larger."""
    value = value_of(node)
    if value is None:
        return bits
    return math.log2(abs(value.numerator)) - math.log2(value.denominator) if value else 0.0
