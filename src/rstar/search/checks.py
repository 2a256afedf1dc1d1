"""Validation of what user-supplied parts return: policy, value, search, sandbox, equivalence of answers.

An error names the part's class, what it returned, and what was expected. Nothing is converted or repaired.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from rstar.errors import ConfigError
from rstar.models.engine import Completion, Engine, Request
from rstar.problems import Problem
from rstar.search.choose import Equivalence, Votes
from rstar.search.value import Value
from rstar.trajectories import Trajectory

METHODS_OF = {
    "policy": ("context", "append", "complete", "__aenter__", "__aexit__"),
    "value": ("score",),
    "sandbox": ("start", "__aenter__", "__aexit__"),
    "search": ("__call__",),
    "equivalent": ("__call__",),
}
"""Methods that each part of a solver must have."""


def name_of(part: object) -> str:
    """A part's name in errors: its own for a function or class, else that of its class."""
    named = part if hasattr(part, "__qualname__") else type(part)
    return f"{named.__module__}.{getattr(named, '__qualname__', '')}"


def mistake(kind: str, part: object, got: object, expected: str) -> ConfigError:
    """The error for a part that returned something unexpected."""
    if inspect.iscoroutine(got):
        got.close()  # it will never be awaited
    return ConfigError(f"{kind} {name_of(part)} returned {type(got).__name__} ({repr(got)[:80]}), expected {expected}")


def check_parts(**parts: object) -> None:
    """Raise `ConfigError` for a part that lacks a method; None: not supplied."""
    for kind, part in parts.items():
        if part is None:
            continue
        if isinstance(part, type):
            raise ConfigError(f"{kind} {name_of(part)} is a class, expected an object: call it")
        if missing := [name for name in METHODS_OF[kind] if not callable(getattr(part, name, None))]:
            raise ConfigError(f"{kind} {name_of(part)} has no method {missing[0]!r}")


async def awaited(kind: str, part: object, got: Any) -> Any:
    """Await `got`, the result of an asynchronous method. Raises `ConfigError` if it is not awaitable."""
    if not inspect.isawaitable(got):
        raise mistake(kind, part, got, "an awaitable: define it with `async def`")
    return await got


async def grow_tree(search: Callable[[Any], Awaitable[None]], given: Any) -> None:
    """Run a search method. Raises `ConfigError` if it is not asynchronous."""
    await awaited("search", search, search(given))


async def completions(policy: Engine, request: Request) -> list[Completion]:
    """The `request.n` completions of a policy. Raises `ConfigError` for anything else."""
    found = await awaited("policy", policy, policy.complete(request))
    if not isinstance(found, Sequence) or not all(isinstance(one, Completion) for one in found):
        raise mistake("policy", policy, found, "a sequence of Completion")
    if len(found) != request.n:
        raise mistake("policy", policy, found, f"{request.n} completions, not {len(found)}")
    return list(found)


async def scores(
    value: Value, problem: Problem, trajectories: Sequence[Trajectory], votes: Votes
) -> Sequence[float | None]:
    """The value of each trajectory. Raises `ConfigError` unless each is a number in [-1, 1] or None."""
    expected = f"a sequence of {len(trajectories)} numbers in [-1, 1] or None, one for each trajectory"
    values = await awaited("value", value, value.score(problem, trajectories, votes))
    if isinstance(values, str) or not hasattr(values, "__len__") or not hasattr(values, "__iter__"):
        raise mistake("value", value, values, expected)
    if len(values) != len(trajectories):
        raise mistake("value", value, values, f"{expected}, not {len(values)}")
    return [_number(value, one) for one in values]


def _number(value: Value, given: Any) -> float | None:
    if given is None:
        return None
    try:
        number = float(given) if not isinstance(given, str | bool) else math.nan
    except (TypeError, ValueError):
        number = math.nan
    if not -1 - 1e-6 <= number <= 1 + 1e-6:
        raise mistake("value", value, given, "a number in [-1, 1] or None for each trajectory")
    return number


def checked_equivalence(equivalent: Equivalence) -> Equivalence:
    """Wrap a comparison so that any result but a bool raises `ConfigError`."""

    def compare(one: str, other: str) -> bool:
        same = equivalent(one, other)
        if not (same is True or same is False or type(same).__name__ == "bool"):
            raise mistake("equivalent", equivalent, same, "True or False from a plain function")
        return bool(same)

    return compare
