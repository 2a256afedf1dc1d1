"""Validation of what user-supplied parts return: policy, value, search, sandbox, equivalence of answers.

An error names the part's class, what it returned, and what was expected. Nothing is converted or repaired.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Sequence
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


def invalid_return(kind: str, part: object, got: object, expected: str) -> ConfigError:
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


async def checked_await(kind: str, part: object, got: Any) -> Any:
    """Await `got`, what an asynchronous method returned. Raises `ConfigError` if it is not awaitable."""
    if not inspect.isawaitable(got):
        raise invalid_return(kind, part, got, "an awaitable: define it with `async def`")
    return await got


async def completions(policy: Engine, request: Request) -> list[Completion]:
    """The `request.n` completions of a policy. Raises `ConfigError` for anything else."""
    completed = await checked_await("policy", policy, policy.complete(request))
    if not isinstance(completed, Sequence) or not all(isinstance(completion, Completion) for completion in completed):
        raise invalid_return("policy", policy, completed, "a sequence of Completion")
    if len(completed) != request.n:
        raise invalid_return("policy", policy, completed, f"{request.n} completions, not {len(completed)}")
    return list(completed)


async def scores(
    value: Value, problem: Problem, trajectories: Sequence[Trajectory], votes: Votes
) -> Sequence[float | None]:
    """The value of each trajectory. Raises `ConfigError` unless each is a number in [-1, 1] or None."""
    expected = f"a sequence of {len(trajectories)} numbers in [-1, 1] or None, one for each trajectory"
    values = await checked_await("value", value, value.score(problem, trajectories, votes))
    if isinstance(values, str) or not hasattr(values, "__len__") or not hasattr(values, "__iter__"):
        raise invalid_return("value", value, values, expected)
    if len(values) != len(trajectories):
        raise invalid_return("value", value, values, f"{expected}, not {len(values)}")
    return [_number(value, number) for number in values]


def _number(value: Value, returned: Any) -> float | None:
    if returned is None:
        return None
    try:
        number = float(returned) if not isinstance(returned, str | bool) else math.nan
    except (TypeError, ValueError):
        number = math.nan
    if not -1 - 1e-6 <= number <= 1 + 1e-6:
        raise invalid_return("value", value, returned, "a number in [-1, 1] or None for each trajectory")
    return number


def checked_equivalence(equivalent: Equivalence) -> Equivalence:
    """Wrap a comparison so that any result but a bool raises `ConfigError`."""

    def compare(first: str, second: str) -> bool:
        same = equivalent(first, second)
        if not (same is True or same is False or type(same).__name__ == "bool"):
            raise invalid_return("equivalent", equivalent, same, "True or False from a plain function")
        return bool(same)

    return compare
