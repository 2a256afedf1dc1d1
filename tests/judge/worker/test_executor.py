"""An executor keeps the states of sessions, and those of no host at the cost of another."""

import asyncio
import time

from rstar.judge.queue.jobs import Job
from rstar.judge.settings import JudgeSettings
from rstar.judge.worker.executor import Executor
from rstar.sandbox import LocalSandbox


def cell(name: str, client: str, state: str = "") -> Job:
    return Job(name, "api", "cell", "x = 1", expires=time.time() + 60, state=state, client=client)


def test_a_host_with_many_states_loses_its_own() -> None:
    async def work() -> list[str]:
        async with LocalSandbox() as sandbox:
            executor = Executor("worker", sandbox, JudgeSettings(), max_states=4)
            for name in ("mine 1", "mine 2"):
                assert (await executor.execute(cell(name, "10.0.0.1:5"))).lives
            for number in range(5):
                assert (await executor.execute(cell(f"other {number}", f"10.0.0.2:{number}"))).lives
            executor.forget(["other 4", "unknown"])
            states = ["mine 1", "mine 2", *(f"other {number}" for number in range(5))]
            answers = [await executor.execute(cell("mine 2", "10.0.0.3:1", state)) for state in states]
            return [answer.outcome for answer in answers]

    assert asyncio.run(work()) == ["done", "done", "lost", "lost", "lost", "done", "lost"]
