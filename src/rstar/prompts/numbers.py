"""The numbers in questions and in programs. Digits in names (`x1`) are none."""

from __future__ import annotations

import re
from decimal import Decimal

IN_TEXT = re.compile(r"(?<![\w.])(?:\d{1,3}(?:,\d{3})+(?!\d)|\d[\d_]*)(?:\.\d+)?|(?<![\w.])\.\d+")
"""As people write them: 1,234 is one number."""
IN_CODE = re.compile(r"(?<![\w.])(?:\d[\d_]*(?:\.\d+)?|\.\d+)")
"""As programs have them: a comma separates two."""


def numbers(pattern: re.Pattern[str], text: str) -> list[Decimal]:
    """The numbers that `IN_TEXT` or `IN_CODE` finds, in order."""
    return [value(match.group()) for match in pattern.finditer(text)]


def value(written: str) -> Decimal:
    """What a match of the patterns says."""
    return Decimal(written.replace(",", "").replace("_", ""))
