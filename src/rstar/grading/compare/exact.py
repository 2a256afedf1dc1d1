"""Exact values: comparisons that `Fraction` alone can decide, and bounds on the size of numbers.

There is no tolerance: 0.333 is not 1/3. The one exception is for numbers printed by a program: a decimal with at least
`ROUNDED_DIGITS` significant digits equals a value that does not fit in its places if it is that value rounded or
truncated (see `is_rounding`).

Powers and factorials are computed only after `check_size` has bounded their size.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from rstar.grading.read.lexer import TooLargeError, UnreadableError
from rstar.grading.read.nodes import Apply, Node, Number

ROUNDED_DIGITS = 10
_DOUBLE_DIGITS, _DOUBLE_NOISE = range(16, 19), Fraction(5, 10**15)  # of printed doubles, whose last digits are noise
_MAX_LOGARITHM = 200
MAX_BITS = 100_000
"""Size of the largest exact integer computed: 30,000 decimal digits."""
_EXACT = frozenset({"+", "*", "inv", "^", "abs", "floor", "ceil", "factorial", "binom", "root"})
_LITERAL = re.compile(
    r"\s*\$?\s*([-+]?)(?:(\d{1,3}(?:,\d{3}){1,6}|\d{1,20})(?:\.(\d{1,20}))?"
    r"|\\[dt]?frac\{(\d{1,20})\}\{(\d{1,20})\}|(\d{1,20})/(\d{1,20}))\s*\$?\s*"
)


@dataclass(frozen=True, slots=True)
class Literal:
    """An exact number that is the whole text: `top` / `bottom`, not reduced. `rounded`: a long decimal."""

    top: int
    bottom: int
    rounded: bool

    def __str__(self) -> str:
        return str(self.top) if self.bottom == 1 else f"{self.top}/{self.bottom}"


@lru_cache(maxsize=8192)
def literal(text: str) -> Literal | None:
    """Parse a bare integer, decimal or fraction of ordinary size: the fast path of grading.

    >>> print(literal("1,250"), literal("-0.5"), literal(r"$\\frac{3}{4}$"), literal("5 cm"))
    1250 -5/10 3/4 None
    """
    match = _LITERAL.fullmatch(text)
    if match is None:
        return None
    sign, whole, decimals, *fraction = match.groups()
    if whole is None:
        top, bottom = (int(part) for part in fraction if part is not None)
        return Literal(-top if sign == "-" else top, bottom, False) if bottom else None
    digits = whole.replace(",", "") + (decimals or "")
    places = len(decimals) if decimals else 0
    value = int(digits)
    return Literal(-value if sign == "-" else value, 10**places, places > 0 and len(digits) >= ROUNDED_DIGITS)


def same_literal(first: Literal, second: Literal) -> bool | None:
    """Whether two literals are equal; None if one may be a rounding of the other."""
    if first.top * second.bottom == second.top * first.bottom:
        return True
    return None if first.rounded or second.rounded else False


def value_of(node: Node) -> Fraction | None:
    """The exact rational value; None if there is none or it takes more than arithmetic to find.

    The caller must have checked the node with `check_size`.
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
        case "log", [value, base] if value > 0 and base > 0 and base != 1:
            return _logarithm(value, base)
        case "root", [value, index] if index == 2 and value >= 0:
            return _square_root(value)
    return None


def _logarithm(value: Fraction, base: Fraction) -> Fraction | None:
    """The logarithm, if it is an integer of ordinary size."""
    power = round((_log2(value)) / _log2(base)) if _log2(base) else 0
    return Fraction(power) if abs(power) <= _MAX_LOGARITHM and base**power == value else None


def _log2(value: Fraction) -> float:
    return math.log2(value.numerator) - math.log2(value.denominator)


def _square_root(value: Fraction) -> Fraction | None:
    root = Fraction(math.isqrt(value.numerator), math.isqrt(value.denominator))
    return root if root * root == value else None


def is_rounding(decimal: Node, value: Fraction) -> bool:
    """Whether `decimal` is what a program prints for `value`, which needs more decimal places.

    Args:
        decimal: a number as written; any other node is no rounding.
        value: an exact value, or at least 30 correct digits of an irrational one.
    """
    if not isinstance(decimal, Number) or decimal.places < 1 or not value:
        return False
    scaled = value * 10**decimal.places
    digits = len(str(abs(int(decimal.value * 10**decimal.places))))
    if digits < ROUNDED_DIGITS or scaled.denominator == 1:
        return False
    written = decimal.value * 10**decimal.places
    off = abs(written - scaled)
    if off <= Fraction(1, 2) or (off < 1 and abs(written) < abs(scaled)):  # rounded or truncated
        return True
    return digits in _DOUBLE_DIGITS and off < abs(scaled) * _DOUBLE_NOISE


def check_size(node: Node) -> None:
    """Refuse exact arithmetic whose value is undefined or may be too large to compute.

    Raises:
        TooLargeError: a power, a factorial or a tower of them is out of bounds.
        UnreadableError: a division by zero.
    """
    _bits(node)


def _bits(node: Node) -> float | None:
    """Upper bound on the size of an exact value in bits (numerator plus denominator); None if not exact."""
    if isinstance(node, Number):
        return float(node.value.numerator.bit_length() + node.value.denominator.bit_length())
    if not isinstance(node, Apply):
        return None
    found = [_bits(arg) for arg in node.args]
    sizes = [size for size in found if size is not None]
    if node.op == "inv" and sizes and value_of(node.args[0]) == 0:
        raise UnreadableError("divides by zero")
    if len(sizes) < len(found) or node.op not in _EXACT:
        return None
    match node.op:
        case "+" | "*":
            size = sum(sizes) + len(sizes)
        case "^":
            size = sizes[0] * 2 ** min(_magnitude(node.args[1], sizes[1]), 64.0)
        case "factorial" | "binom":
            largest = 2 ** min(max(_magnitude(arg, bits) for arg, bits in zip(node.args, sizes, strict=True)), 64.0)
            size = largest * max(math.log2(largest), 1.0) if node.op == "factorial" else largest
        case _:
            size = sum(sizes)
    if size > MAX_BITS:
        raise TooLargeError("too large to compute")
    return size


def _magnitude(node: Node, bits: float) -> float:
    """Upper bound on log2 of the absolute value. `bits` is looser, because it also counts the denominator."""
    value = value_of(node)
    if value is None:
        return bits
    return math.log2(abs(value.numerator)) - math.log2(value.denominator) if value else 0.0
