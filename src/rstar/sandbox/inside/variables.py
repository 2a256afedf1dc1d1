"""New values of a step's variables, where they fit in a few characters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

MAX_LENGTH = 40
"""Longest reported name, and longest value, in characters."""
MAX_MESSAGE = 2_000
"""Longest reported exception message, in characters."""
MAX_VARIABLES = 16
"""Maximum number of reported variables: a report is one short message."""

_MAX_ELEMENTS = 8
_MAX_BITS = 128
_MISSING = object()
_NUMBERS = {"fractions", "decimal"}


def new_values(
    before: Mapping[str, Any], after: Mapping[str, Any], most: int, texts: Mapping[str, str | None] | None = None
) -> list[tuple[str, str]]:
    """(name, value) of the variables bound in `after` to another object than in `before`.

    With `texts`, the `shown_values` before, also of the variables whose object has changed.

    Only short ASCII values that can be formatted without calling the snippet's code: numbers (also sympy's and
    numpy's), strings, and flat lists and tuples of them. At most `most` and `MAX_VARIABLES`: the last ones, in
    the order in which the names were created.
    """
    found: list[tuple[str, str]] = []
    for name, value in list(after.items()):
        if type(name) is not str or name[:1] == "_":
            continue
        is_same = before.get(name, _MISSING) is value
        if is_same and texts is None:
            continue
        shown = _shown(value)
        if is_same and texts is not None and texts.get(name) == shown:
            continue
        if shown and all(text.isascii() and len(text) <= MAX_LENGTH for text in (name, shown)):
            found.append((name, shown))
    return found[-min(most, MAX_VARIABLES) :]


def shown_values(variables: Mapping[str, Any]) -> dict[str, str | None]:
    """The values as text; None where `new_values` reports none."""
    return {name: _shown(value) for name, value in list(variables.items())}


def _shown(value: Any) -> str | None:
    """The value as text; None if it is none of those that are reported."""
    try:
        return _list(value)
    except Exception:  # a snippet class posing as a number
        return None


def _list(value: Any) -> str | None:
    if type(value) in (list, tuple):
        if len(value) > _MAX_ELEMENTS or None in (parts := [_scalar(one) for one in value]):
            return None
        inside = ", ".join(map(str, parts))
        return f"[{inside}]" if type(value) is list else f"({inside})"
    return _scalar(value)


def _scalar(value: Any) -> str | None:
    """A number or string as text; None for anything else."""
    kind = type(value)
    if kind is int:
        return str(value) if value.bit_length() <= _MAX_BITS else None
    if kind in (bool, float):
        return str(value)
    if kind is str:
        return repr(value) if len(value) <= MAX_LENGTH else None
    home = kind.__module__.partition(".")[0]
    if home in _NUMBERS:
        return str(value)
    if home == "sympy":  # numbers only: formatting an expression may take long
        small = getattr(value, "is_Number", False) is True and value.is_Integer | value.is_Rational | value.is_Float
        return str(value) if small and abs(value) < 1 << _MAX_BITS else None
    return str(value.item()) if home == "numpy" and getattr(value, "shape", None) == () else None
