"""Parts of a solver that users bring: what is wrong with them is named."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from rstar.config import Config
from rstar.errors import ConfigError
from rstar.models.engine import Completion, Request
from rstar.models.fake import FakeEngine
from rstar.problems import Problem
from rstar.search.methods import greedy
from rstar.search.solver import Solution, Solver
from tests.search.plain import PlainSandbox

CONFIG = Config(policy="fake:steps", search={"rollouts": 3, "expansions": 3})


def solve(**parts: Any) -> list[Solution]:
    solver = Solver(CONFIG, **{"policy": FakeEngine(), "sandbox": PlainSandbox()} | parts)

    async def run() -> list[Solution]:
        return [solution async for solution in solver.asolve([Problem("1", "What is 1 + 1?")])]

    return asyncio.run(run())


class Values:
    """A value that returns what it was made with, for each trajectory or as it is."""

    name = "mine"

    def __init__(self, each: Any = None, whole: Any = None) -> None:
        self.each, self.whole = each, whole

    async def score(self, problem: Problem, trajectories: Sequence[Any], votes: Any) -> Any:
        return self.whole if self.whole is not None else [self.each] * len(trajectories)


class SyncValue(Values):
    def score(self, problem: Problem, trajectories: Sequence[Any], votes: Any) -> Any:  # type: ignore[override]
        return [0.5] * len(trajectories)


class FewCompletions(FakeEngine):
    async def complete(self, request: Request) -> Sequence[Completion]:
        return (await super().complete(request))[:-1]


class SyncEngine(FakeEngine):
    def complete(self, request: Request) -> Any:  # type: ignore[override]
        return []


def sync_search(search: Any) -> int:
    return 3


async def async_equivalent(one: str, other: str) -> bool:
    return False


def test_good_parts_are_taken() -> None:
    for each in (None, 0.5, -1, 1):
        assert solve(value=Values(each))
    assert solve(search=lambda search: greedy(search))
    assert solve(equivalent=lambda one, other: one == other)


@pytest.mark.parametrize(
    ("parts", "named", "got", "expected"),
    [
        ({"value": SyncValue()}, "SyncValue", "list", "async def"),
        ({"value": Values("high")}, "Values", "str", "a number in"),
        ({"value": Values(float("nan"))}, "Values", "float", "a number in"),
        ({"value": Values(7.0)}, "Values", "float", "a number in"),
        ({"value": Values(True)}, "Values", "bool", "a number in"),
        ({"value": Values(whole=[])}, "Values", "list", "one for each trajectory, not 0"),
        ({"value": Values(whole=0.5)}, "Values", "float", "one for each trajectory"),
        ({"policy": FewCompletions()}, "FewCompletions", "list", "completions, not"),
        ({"policy": SyncEngine()}, "SyncEngine", "list", "async def"),
        ({"search": sync_search}, "sync_search", "int", "async def"),
        ({"equivalent": async_equivalent}, "async_equivalent", "coroutine", "True or False"),
    ],
)
def test_a_part_that_returns_something_else_is_named(
    parts: dict[str, Any], named: str, got: str, expected: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        solve(**parts)
    message = str(caught.value)
    assert named in message
    assert f"returned {got} (" in message
    assert expected in message


@pytest.mark.parametrize(
    ("parts", "reason"),
    [
        ({"value": object()}, "value builtins.object has no method 'score'"),
        ({"value": Values}, "Values is a class, expected an object"),
        ({"policy": object()}, "policy builtins.object has no method 'context'"),
        ({"sandbox": object()}, "sandbox builtins.object has no method 'start'"),
        ({"search": 3}, "search builtins.int has no method '__call__'"),
        ({"equivalent": "=="}, "equivalent builtins.str has no method '__call__'"),
    ],
)
def test_a_part_without_its_methods_is_refused_at_once(parts: dict[str, Any], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason.replace("(", r"\(")):
        Solver(CONFIG, **parts)
