"""Tiers of warm interpreters, and which one suits a piece of code."""

from __future__ import annotations

import re
from typing import Literal

Tier = Literal["bare", "numpy", "math", "native"]
"""``bare``: the standard library; ``numpy``: that as well; ``math``: sympy as well; ``native``: may start programs, a
compiler and what it makes. The more an interpreter has loaded, the longer it takes to fork it."""

RANKS: tuple[Tier, ...] = ("bare", "numpy", "math")
"""Each of these has what the ones before it have."""

_SYMPY = re.compile(r"\b(?:sympy|mpmath)\b")
_NUMPY = re.compile(r"\b(?:numpy|scipy)\b")


def tier_of(code: str) -> Tier:
    """The tier for code, by the packages that it names.

    >>> tier_of("from sympy import solve"), tier_of("import numpy"), tier_of("print(1 + 1)")
    ('math', 'numpy', 'bare')
    """
    return "math" if _SYMPY.search(code) else "numpy" if _NUMPY.search(code) else "bare"


def covers(tier: Tier, wanted: Tier) -> bool:
    """Whether an interpreter of `tier` has what one of the tier `wanted` has."""
    return RANKS.index(tier) >= RANKS.index(wanted)
