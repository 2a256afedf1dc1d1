"""Tiers of warm interpreters and the choice of tier for a piece of code."""

from __future__ import annotations

import re
from typing import Literal

Tier = Literal["bare", "numpy", "math", "native"]
"""``bare``: the standard library; ``numpy``: numpy too; ``math``: sympy too; ``native``: may start programs (a compiler
and its output). The more an interpreter has loaded, the slower its fork."""

RANKS: tuple[Tier, ...] = ("bare", "numpy", "math")
"""Each tier includes the ones before it."""

_SYMPY = re.compile(r"\b(?:sympy|mpmath)\b")
_NUMPY = re.compile(r"\b(?:numpy|scipy)\b")


def tier_of(code: str) -> Tier:
    """The tier for code, by the packages it names.

    >>> tier_of("from sympy import solve"), tier_of("import numpy"), tier_of("print(1 + 1)")
    ('math', 'numpy', 'bare')
    """
    return "math" if _SYMPY.search(code) else "numpy" if _NUMPY.search(code) else "bare"


def covers(tier: Tier, wanted: Tier) -> bool:
    """Whether `tier` includes everything in `wanted`."""
    return RANKS.index(tier) >= RANKS.index(wanted)
