"""Sandbox benchmark: CPU time and calls per second by tier and level, and the cost of a step against a replay.

CPU time covers this process, which should be otherwise idle, and all sandbox processes, dead ones included. It hardly
depends on the machine's other load; calls per second do.
"""

from __future__ import annotations

import asyncio
import os
import resource
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from itertools import islice

from rstar.errors import SandboxError
from rstar.sandbox.api import Limits, Result
from rstar.sandbox.levels import Level, probe
from rstar.sandbox.parent.local import LocalSandbox, LocalState

PROGRAMS = {
    "print": "print(1 + 1)",
    "numpy": "import numpy as np\nprint(np.arange(10).sum())",
    "sympy": "from sympy import solve, symbols\nx = symbols('x')\nprint(solve(x**2 - 5*x + 6, x))",
}
"""Benchmark programs by name."""

DEPTH = 8
_WORK = "import time\n_end = time.process_time() + 0.005\nwhile time.process_time() < _end: pass\n"
_STEPS = [("import sympy\n" if depth == 0 else "") + _WORK + f"x{depth} = {depth}" for depth in range(DEPTH)]
_LIMITS = Limits(seconds=30)
_SETTLE_SECONDS = 0.06


@dataclass(frozen=True, slots=True)
class CallFigures:
    """One program at one level: CPU time per call in ms, and calls per second with all workers."""

    level: Level
    program: str
    calls: int
    cpu_ms: float
    per_second: float


@dataclass(frozen=True, slots=True)
class StepFigures:
    """The last of `DEPTH` steps of 5 ms work (rounded up to a clock tick); the first imports sympy.

    Attributes:
        cpu_ms: CPU time of the step run from the preceding state.
        replay_cpu_ms: CPU time of running all steps in a fresh, warm interpreter.
    """

    level: Level
    cpu_ms: float
    replay_cpu_ms: float

    @property
    def ratio(self) -> float:
        """Cost of the replay relative to the step."""
        return self.replay_cpu_ms / self.cpu_ms


@dataclass(frozen=True, slots=True)
class BenchReport:
    """All figures and the number of concurrent workers."""

    workers: int
    calls: tuple[CallFigures, ...]
    steps: tuple[StepFigures, ...]


async def measure(levels: Sequence[Level] | None = None, calls: int = 60, workers: int | None = None) -> BenchReport:
    """Run the benchmark (about 8 s per level on one free processor with the default number of calls).

    Args:
        levels: isolation levels; None for all that this machine supports.
        calls: calls per program.
        workers: concurrent runs; None for the number of processors.

    Raises:
        SandboxError: a program or the sandbox failed.
    """
    found, steps = [], []
    workers = workers or len(os.sched_getaffinity(0))
    for level in probe().levels if levels is None else levels:
        async with LocalSandbox(level, workers=workers, limits=_LIMITS) as sandbox:
            found += [await _calls(sandbox, name, calls) for name in PROGRAMS]
            steps.append(await _steps(sandbox, max(2, calls // 2)))
    return BenchReport(workers, tuple(found), tuple(steps))


async def _calls(sandbox: LocalSandbox, name: str, calls: int) -> CallFigures:
    async def call() -> None:
        _check(await sandbox.run(PROGRAMS[name]))

    async def one_after_the_other() -> None:
        for _ in range(calls):
            await call()

    await asyncio.gather(*(call() for _ in range(3)))
    cpu = await _cpu_of(sandbox, one_after_the_other)
    started = time.perf_counter()
    await asyncio.gather(*(call() for _ in range(calls)))
    return CallFigures(sandbox.level, name, calls, cpu / calls * 1e3, calls / (time.perf_counter() - started))


async def _steps(sandbox: LocalSandbox, rounds: int) -> StepFigures:
    states: list[LocalState] = [sandbox.start()]
    for code in islice(_STEPS, DEPTH - 1):
        state, result = await states[-1].run(code)
        _check(result)
        assert state is not None
        states.append(state)

    async def last_step() -> None:
        for _ in range(rounds):
            state, result = await states[-1].run(_STEPS[-1])
            _check(result)
            assert state is not None
            state.release()

    async def replay() -> None:
        for _ in range(rounds):
            _check(await sandbox.run("\n".join(_STEPS)))

    await last_step()
    step, replayed = await _cpu_of(sandbox, last_step), await _cpu_of(sandbox, replay)
    for state in states:
        state.release()
    return StepFigures(sandbox.level, step / rounds * 1e3, replayed / rounds * 1e3)


async def _cpu_of(sandbox: LocalSandbox, work: Callable[[], Awaitable[None]]) -> float:
    before = await _cpu_seconds(sandbox)
    await work()
    return await _cpu_seconds(sandbox) - before


async def _cpu_seconds(sandbox: LocalSandbox) -> float:
    await asyncio.sleep(_SETTLE_SECONDS)  # a process counts once its keeper has reaped it
    own = resource.getrusage(resource.RUSAGE_SELF)
    return own.ru_utime + own.ru_stime + await sandbox.cpu_seconds()


def _check(result: Result) -> None:
    if not result.ok:
        raise SandboxError(f"a program of the benchmark ended in '{result.status}': {result.stderr}")
