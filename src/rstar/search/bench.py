"""Overhead of search: expansions per second with a model and a sandbox that take no time."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import Self

from rstar.config import Config, MctsConfig, MutualConfig
from rstar.models.fake import FakeEngine
from rstar.problems import Problem
from rstar.sandbox.api import Result, State
from rstar.search.mutual import MutualSolver
from rstar.search.solver import Solver
from rstar.specs import Fake

OK = Result("ok")


class NullSandbox:
    """A sandbox that runs nothing and always succeeds; it is its own state."""

    def start(self) -> State:
        """See `Sandbox.start`."""
        return self

    async def run(self, code: str, *_: object) -> tuple[State | None, Result]:
        """See `State.run`."""
        return self, OK

    def release(self) -> None:
        """See `State.release`."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        return None


@dataclass(frozen=True, slots=True)
class SearchFigures:
    """Result of one measurement."""

    expansions: int
    samples: int
    cpu_seconds: float
    expansions_per_cpu_second: float


def bench_search(expansions: int, samples: int = 4) -> SearchFigures:
    """Run MCTS on many problems until about `expansions` nodes are expanded, `samples` steps each."""
    config = Config(search=MctsConfig(rollouts=16, expansions=samples, keep_trees=False))
    done = 0

    async def run() -> None:
        nonlocal done
        solver = Solver(config, policy=FakeEngine(), sandbox=NullSandbox())  # type: ignore[arg-type]
        problems = (Problem(str(i), f"How much is {i} + {i}?") for i in range(expansions))
        async for solution in solver.asolve(problems):
            done += solution.expansions
            if done >= expansions:
                return

    asyncio.run(run())  # warm-up
    done, started = 0, time.process_time()
    asyncio.run(run())
    seconds = time.process_time() - started
    return SearchFigures(done, samples, seconds, done / seconds)


@dataclass(frozen=True, slots=True)
class MutualFigures:
    """Result of one measurement of mutual reasoning."""

    problems: int
    rollouts: int
    requests: int
    cpu_seconds: float


def bench_mutual(problems: int = 50, rollouts: int = 32) -> MutualFigures:
    """Solve problems by mutual reasoning, with models and a sandbox that take no time."""
    config = Config(search=MutualConfig(rollouts=rollouts, domain="word-problems", keep_trees=False))
    asked = [Problem(str(i), f"How much is {i} + {i + 3} + {2 * i}?") for i in range(problems)]

    async def run(some: list[Problem]) -> int:
        parts = {"policy": FakeEngine(), "peer": FakeEngine(Fake(seed=1)), "sandbox": NullSandbox()}
        solver = MutualSolver(config, **parts)  # type: ignore[arg-type]
        return sum([solution.expansions async for solution in solver.asolve(some)])

    asyncio.run(run(asked[:2]))  # warm-up
    started = time.process_time()
    requests = asyncio.run(run(asked))
    return MutualFigures(problems, rollouts, requests, time.process_time() - started)
