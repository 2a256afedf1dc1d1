"""Numbers in questions and in programs. Digits in names (`x1`) do not count."""

from __future__ import annotations

import re
from decimal import Decimal

IN_TEXT = re.compile(r"(?<![\w.])(?:\d{1,3}(?:,\d{3})+(?!\d)|\d[\d_]*)(?:\.\d+)?|(?<![\w.])\.\d+")
"""In prose: 1,234 is one number."""
IN_CODE = re.compile(r"(?<![\w.])(?:\d[\d_]*(?:\.\d+)?|\.\d+)")
"""In code: a comma separates two numbers."""


def numbers(pattern: re.Pattern[str], text: str) -> list[Decimal]:
    """The numbers that `IN_TEXT` or `IN_CODE` finds, in order."""
    return [value(match.group()) for match in pattern.finditer(text)]


def value(written: str) -> Decimal:
    """The value of a match."""
    return Decimal(written.replace(",", "").replace("_", ""))
