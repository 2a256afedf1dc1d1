"""What tool calls cost rollouts: the throughput with the tools, and with tools that take no time.

The same rollouts are made several times with the same seeds, so the engine generates the same tokens. The first round
records what each cell gives. Then rounds with the sandbox alternate with rounds in which the recorded results come back
at once. The best round of each kind counts, so other load on the machine affects both alike.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from rstar.agent.solver import AgentSolver
from rstar.config import Config
from rstar.errors import EngineError
from rstar.models.engine import Engine
from rstar.problems import Problem
from rstar.sandbox import LocalSandbox
from rstar.sandbox.api import Limits, Result, Sandbox, State


@dataclass(frozen=True, slots=True)
class ToolFigures:
    """Result of `bench_tools`.

    Attributes:
        rollouts: in a round.
        tokens: sampled in a round, each rollout's counted.
        calls: made in a round; a call that rollouts share counts once.
        with_tools: tokens per second with the tools.
        alone: tokens per second with tools that take no time: the engine's own throughput.
    """

    rollouts: int
    tokens: int
    calls: int
    with_tools: float
    alone: float

    @property
    def share(self) -> float:
        """Throughput with the tools, as a share of the engine's own."""
        return self.with_tools / self.alone


async def bench_tools(
    config: Config,
    problems: Sequence[Problem],
    *,
    policy: Engine | None = None,
    rounds: int = 2,
    done: Callable[[int], None] = lambda problems: None,
) -> ToolFigures:
    """Make the rollouts of `problems` in 1 + 2 × `rounds` rounds.

    Args:
        config: of method ``agent``.
        problems: at least one; their environment calls its tools in states of the sandbox.
        policy: generates the turns, instead of `config.policy`.
        rounds: of each kind.
        done: called with the number of problems that have ended since the last call.

    Raises:
        RstarError: a part is missing or failed, or the model does not repeat itself with the same seeds.
    """
    sandbox = ReplaySandbox(LocalSandbox(workers=config.sandbox.workers))
    best = {False: float("inf"), True: float("inf")}
    solver = AgentSolver(config, policy=policy, sandbox=sandbox)
    async with solver:
        for number in range(1 + 2 * rounds):
            sandbox.replays = number % 2 == 1
            started, tokens, calls = time.perf_counter(), 0, 0
            async for solution in solver.asolve(problems):
                tokens += solution.tokens_out
                calls += solution.steps
                done(1)
            if number:
                best[sandbox.replays] = min(best[sandbox.replays], time.perf_counter() - started)
    return ToolFigures(
        len(problems) * solver.settings.samples, tokens, calls, tokens / best[False], tokens / best[True]
    )


class ReplaySandbox:
    """A sandbox that records what cells give, and can give it again without running them.

    Args:
        sandbox: runs the cells while `replays` is False.
    """

    def __init__(self, sandbox: Sandbox) -> None:
        self.replays = False
        self.known: dict[tuple[str, ...], tuple[bool, Result]] = {}
        """Keyed by the cells since the start: whether the state survived the last one, and its result."""
        self._sandbox = sandbox

    def start(self) -> State:
        """See `Sandbox.start`."""
        return _ReplayState(self, (), None if self.replays else self._sandbox.start())

    async def run(self, code: str, stdin: str | None = None, limits: Limits | None = None) -> Result:
        """See `Sandbox.run`; never recorded."""
        return await self._sandbox.run(code, stdin, limits)

    async def __aenter__(self) -> Self:
        await self._sandbox.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._sandbox.__aexit__(kind, error, trace)


class _ReplayState:
    """The state after `cells`; `state` is None while results are replayed."""

    def __init__(self, sandbox: ReplaySandbox, cells: tuple[str, ...], state: State | None) -> None:
        self._sandbox, self._cells, self._state = sandbox, cells, state

    async def run(self, code: str, limits: Limits | None = None) -> tuple[State | None, Result]:
        """See `State.run`. Raises `EngineError` if cells are to be replayed that never ran."""
        cells, known = (*self._cells, code), self._sandbox.known
        after: State | None = None
        if self._state is None:
            if cells not in known:
                raise EngineError("with the same seeds, the model wrote other cells than before")
            survives, result = known[cells]
        else:
            after, result = await self._state.run(code, limits)
            survives = after is not None
            known[cells] = survives, result
        return _ReplayState(self._sandbox, cells, after) if survives else None, result

    def release(self) -> None:
        """See `State.release`."""
        if self._state is not None:
            self._state.release()
