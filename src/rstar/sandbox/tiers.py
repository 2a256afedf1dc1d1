"""Tiers of warm interpreters, and which one suits a piece of code."""

from __future__ import annotations

import re
from typing import Literal

Tier = Literal["bare", "math"]
"""``bare``: the standard library; ``math``: numpy and sympy as well."""

_MATH = re.compile(r"\b(?:numpy|sympy|mpmath|scipy)\b")


def tier_of(code: str) -> Tier:
    """The tier for code: ``math`` if it names numpy, sympy or what builds on them.

    >>> tier_of("from sympy import solve"), tier_of("print(1 + 1)")
    ('math', 'bare')
    """
    return "math" if _MATH.search(code) else "bare"
