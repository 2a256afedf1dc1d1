"""Many rollouts at once through a judge service: whether one is lost, and what a tool call costs the service.

The model is a script, so that only rollouts, client and service are measured. Each rollout keeps a number of its own in
a session, adds to it turn by turn, and answers with what the last call printed. A wrong sum means that a session was
lost, or mixed up with another.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

from rstar.agent.solver import AgentSolver
from rstar.config import Config
from rstar.judge.bench import bench_service, run_load, usage
from rstar.judge.settings import read_token
from rstar.models.engine import Request
from rstar.models.fake import FakeEngine
from rstar.problems import Problem
from rstar.prompts.code_steps import CODE, END_CODE, END_OUTPUT, OUTPUT, answer


@dataclass(frozen=True, slots=True)
class AgentLoad:
    """Result of the benchmark.

    Attributes:
        rollouts: number of rollouts, all under way at once.
        calls: tool calls that they should make.
        right: number of rollouts with the right sum.
        lost: what the others ended with, with their numbers.
        seconds: until the last rollout ended.
        cpu_ms: CPU time of the service per tool call, milliseconds; None if the service's process is unknown.
        single_cpu_ms: the same for programs sent one at a time, without a session.
    """

    rollouts: int
    calls: int
    right: int
    lost: dict[str, int]
    seconds: float
    cpu_ms: float | None
    single_cpu_ms: float | None


def script(turns: int) -> Callable[[Request, int], str]:
    """A model that takes this many turns: every turn but the last adds to a number, and the last answers with it."""

    def write(request: Request, number: int) -> str:
        text = request.context.text
        made = text.count(END_OUTPUT)
        if made == turns - 1:
            return answer(text.rpartition(OUTPUT)[2].partition(END_OUTPUT)[0].strip())
        start = re.search(r"\d+", text)
        assert start is not None  # the question names the rollout's number
        begin = f"total = {start[0]}" if made == 0 else f"total += {made}"
        return f"{CODE}\n{begin}\nprint(total)\n{END_CODE}"

    return write


async def bench_agent(
    url: str | None,
    rollouts: int,
    turns: int,
    *,
    pid: int = 0,
    token_file: Path | None = None,
    single_calls: int = 500,
) -> AgentLoad:
    """Make `rollouts` rollouts at once, of `turns` turns each.

    Args:
        url: of a running service; None: start one with a worker per processor.
        rollouts: number of rollouts.
        turns: turns of each, the answer included; > 1.
        pid: root process of the service given by `url`, to measure its CPU time; 0: unknown.
        token_file: file with the token of that service.
        single_calls: number of programs sent one at a time, without a session, for comparison.

    Raises:
        SandboxError: the service refuses or is unreachable.
    """
    async with AsyncExitStack() as stack:
        service, pid = (url, pid) if url is not None else await stack.enter_async_context(bench_service(None))
        config = Config.model_validate(
            {
                "policy": "fake:steps",
                "search": {"method": "agent", "concurrency": rollouts, "rollout_seconds": 3600},
                "sandbox": {"place": service, "token_file": token_file},
            }
        )
        token = None if token_file is None else read_token(token_file)
        single = await run_load(service, ["print"] * single_calls, concurrency=1, token=token, pid=pid)
        ended: Counter[str] = Counter()
        solver = AgentSolver(config, policy=FakeEngine(script=script(turns)))
        before, started = usage(pid), time.perf_counter()
        async for solution in solver.asolve(Problem(str(i), f"Start with {i}.") for i in range(rollouts)):
            wanted = solution.answer == str(int(solution.problem.id) + sum(range(1, turns - 1)))
            ended["right" if wanted else f"answer {solution.answer}, {solution.failures}"] += 1
        seconds, after = time.perf_counter() - started, usage(pid)
    calls = rollouts * (turns - 1)
    cpu = None if before is None or after is None else 1e3 * (after[0] - before[0]) / calls
    right = ended.pop("right", 0)
    return AgentLoad(rollouts, calls, right, dict(ended), seconds, cpu, single.cpu_ms)
