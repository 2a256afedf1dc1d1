"""Jobs whose zygote dies: who kills it fails after three times, and the others are done. States of sessions."""

import asyncio
import time
from typing import Any

from rstar.judge.queue.jobs import Answer, Cell, Job
from rstar.judge.settings import JudgeSettings
from rstar.judge.worker.executor import MAX_LOSSES, Executor
from rstar.sandbox import LocalSandbox, Result, RunLostError


class Sandbox:
    """One zygote, which the program ``kill`` kills with all that runs there."""

    total = 1 << 40

    def __init__(self) -> None:
        self.ran: list[str] = []
        self._dead = asyncio.Event()

    async def run(self, code: str, *_: Any, **__: Any) -> Result:
        self.ran.append(code)
        zygote = self._dead
        if code.startswith("kill"):
            await asyncio.sleep(0.01)
            zygote.set()
            self._dead = asyncio.Event()
        try:
            await asyncio.wait_for(zygote.wait(), 0.05)
        except TimeoutError:
            return Result("ok")
        raise RunLostError("it died")


def answers(codes: list[str]) -> tuple[list[Answer], list[str]]:
    async def run() -> tuple[list[Answer], list[str]]:
        sandbox: Any = Sandbox()
        executor = Executor("w", sandbox, JudgeSettings())
        jobs = [Job(str(n), "me", "python", code, expires=time.time() + 60) for n, code in enumerate(codes)]
        return await asyncio.gather(*map(executor.execute, jobs)), sandbox.ran

    return asyncio.run(run())


def test_a_job_that_kills_zygotes_runs_three_times() -> None:
    (answer,), ran = answers(["kill"])
    assert ran == ["kill"] * MAX_LOSSES
    assert (answer.outcome, answer.message) == ("failed", "3 interpreters died while running this call")


def test_the_jobs_beside_it_are_done() -> None:
    codes = [*(f"good{n}" for n in range(10)), "kill", *(f"good{n}" for n in range(10, 20))]
    found, ran = answers(codes)
    assert [answer.outcome for answer in found] == ["failed" if code == "kill" else "done" for code in codes]
    assert ran.count("kill") == MAX_LOSSES
    assert max(map(ran.count, codes)) == MAX_LOSSES


def test_the_sandbox_of_a_worker_starts_a_lost_run_once() -> None:
    """So that the total is the executor's."""

    async def run() -> None:
        async with LocalSandbox(workers=1, attempts=1) as sandbox:
            for start in (sandbox.run, sandbox.start().run):
                await sandbox.run("1")  # a zygote is there
                before = await sandbox.cpu_seconds()
                running = asyncio.create_task(start("while True: pass"))
                while await sandbox.cpu_seconds() < before + 0.3:
                    await asyncio.sleep(0.02)
                for zygote in list(sandbox._zygotes.values()):
                    zygote.kill()
                assert isinstance((await asyncio.gather(running, return_exceptions=True))[0], RunLostError)

    asyncio.run(run())


def test_the_sessions_of_a_host_have_one_owner() -> None:
    """Of its states some are dropped before those of a host that has fewer."""

    async def run() -> None:
        async with LocalSandbox(workers=1) as sandbox:
            executor = Executor("w", sandbox, JudgeSettings())
            owners = []
            for number, client in enumerate(("10.0.0.1:80", "10.0.0.1:81", "10.0.0.2:80")):
                name = str(number)
                await executor.execute(Job(name, "me", "cell", "x = 1", expires=time.time() + 60, client=client))
                state: Any = executor._states[client.partition(":")[0]][name]
                owners.append(state._node.root.owner)
            assert owners[0] is owners[1]
            assert owners[0] is not owners[2]

    asyncio.run(run())


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
            found = [await executor.execute(cell("mine 2", "10.0.0.3:1", state)) for state in states]
            return [answer.outcome for answer in found]

    assert asyncio.run(work()) == ["done", "done", "lost", "lost", "lost", "done", "lost"]


def test_exit_code_0_is_success_however_a_program_ends() -> None:
    """As for Code Judge and for C++; a cell's process must live."""
    ends = ("os._exit(0)", "sys.exit(0)", "os._exit(3)")

    async def run() -> list[Answer]:
        async with LocalSandbox(workers=1, attempts=1) as sandbox:
            executor = Executor("w", sandbox, JudgeSettings())
            codes = [f"import os, sys\nprint(7, flush=True)\n{end}" for end in ends]
            jobs = [Job(code, "me", "python", code, expected="7", expires=time.time() + 60) for code in codes]
            cell = Job("cell", "me", "cell", codes[0], expires=time.time() + 60)
            return [await executor.execute(job) for job in (*jobs, cell)]

    found = [(answer.success, answer.status, answer.exit_code, answer.signal) for answer in asyncio.run(run())]
    assert found[:2] == [(True, "ok", 0, None)] * 2
    assert found[2] == (False, "killed", 3, None)
    assert found[3][:2] == (False, "killed")


def test_a_session_is_rebuilt_only_if_its_cells_end_as_before() -> None:
    cells = (Cell("x = 1"), Cell("x = 2\n1 / 0", status="error"))

    async def answer(history: tuple[Cell, ...]) -> Answer:
        async with LocalSandbox(workers=1) as sandbox:
            job = Job("new", "me", "cell", "x", expires=time.time() + 60, state="old", history=history)
            return await Executor("w", sandbox, JudgeSettings()).execute(job)

    same = asyncio.run(answer(cells))
    assert (same.status, same.stdout) == ("ok", "2\n")
    for other in ((Cell("1 / 0"), *cells), (*cells, Cell("x = 3", status="error"))):
        lost = asyncio.run(answer(other))
        assert (lost.status, lost.lives) == ("killed", False)
        assert lost.error is not None
        assert lost.error[0] == "StateLost"
