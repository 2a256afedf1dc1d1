r"""Integrals of polynomials between rational ends: ``\int_0^1 x^2\,dx`` is 1/3. No other integral is evaluated."""

from __future__ import annotations

import re
from fractions import Fraction
from itertools import zip_longest

from rstar.grading.compare.exact import value_of
from rstar.grading.read.lexer import UnreadableError
from rstar.grading.read.nodes import Apply, Node, Number, Symbol
from rstar.grading.read.parser import parse

MAX_DEGREE = 20
_LARGE = 10**12
"""Bound on the numerators and denominators of coefficients and ends."""
_END = r"(\{(?:[^{}]|\{[^{}]*\})*\}|\d|[a-z])"
_INTEGRAL = re.compile(rf"\\int ?_ ?{_END} ?\^ ?{_END}(.+?)(?:\\mathrm ?\{{ ?d ?\}}|d) ?([a-z])")

Polynomial = list[Fraction]
"""Coefficients from the constant term on."""


def integral(form: str) -> Number | None:
    """The value of a form that is an integral of a polynomial; None for any other form."""
    match = _INTEGRAL.fullmatch(form)
    if match is None or len(match[3].strip()) == 0:
        return None
    try:
        low, high = (value_of(parse(match[place].strip("{}") or "x")) for place in (1, 2))
        coefficients = _polynomial(parse(match[3].strip()), match[4])
    except UnreadableError:
        return None
    if coefficients is None or low is None or high is None or not all(map(_is_small, (low, high, *coefficients))):
        return None
    powers = enumerate(coefficients, 1)
    return Number(sum((value * (high**power - low**power) / power for power, value in powers), Fraction(0)))


def _is_small(value: Fraction) -> bool:
    return abs(value.numerator) < _LARGE and value.denominator < _LARGE


def _polynomial(node: Node, name: str) -> Polynomial | None:
    """The coefficients of a polynomial in one letter; None for anything else."""
    match node:
        case Number(value):
            return [value]
        case Symbol(letter):
            return [Fraction(0), Fraction(1)] if letter == name else None
        case Apply("inv", (Number(value),)) if value:
            return [1 / value]
        case Apply("^", (base, Number(power))) if power.denominator == 1 and 0 <= power <= MAX_DEGREE:
            return _product([_polynomial(base, name)] * int(power))
        case Apply("*", factors):
            return _product([_polynomial(factor, name) for factor in factors])
        case Apply("+", terms):
            found = [_polynomial(term, name) for term in terms]
            known = [term for term in found if term is not None]
            return (
                [sum(values, Fraction(0)) for values in zip_longest(*known, fillvalue=Fraction(0))]
                if known == found
                else None
            )
    return None


def _product(factors: list[Polynomial | None]) -> Polynomial | None:
    total: Polynomial = [Fraction(1)]
    for factor in factors:
        if factor is None or len(total) + len(factor) > MAX_DEGREE + 2 or not all(map(_is_small, total)):
            return None
        product = [Fraction(0)] * (len(total) + len(factor) - 1)
        for i, a in enumerate(total):
            for j, b in enumerate(factor):
                product[i + j] += a * b
        total = product
    return total
