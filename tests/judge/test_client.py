"""The client, at a real service: as a sandbox for search, through restarts, with a token."""

import asyncio
import itertools
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rstar.agent.environment import Mathematics
from rstar.answers import AnswerKey
from rstar.config import resolve
from rstar.errors import ConfigError, SandboxError
from rstar.judge.client import JudgeClient, JudgeError, JudgeSandbox, SessionGoneError
from rstar.judge.wire import Submission
from rstar.problems import Problem
from rstar.sandbox import Limits, LocalSandbox, Sandbox, State
from rstar.search.solver import Solver
from rstar.trajectories import Segment, Trajectory
from tests.judge.services import Service, serving


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Service]]:
    with serving(tmp_path_factory.mktemp("judge")) as found:
        yield found


def test_answers_are_verified_by_the_service(service: tuple[str, Service]) -> None:
    """Also as the reward of an agent whose tools run there: nothing is compared in the trainer's process."""

    async def verdicts() -> list[object]:
        async with JudgeSandbox(JudgeClient(service[0])) as sandbox:
            found: list[object] = [
                await sandbox.verify("1/2", text) for text in ("0.5", "The answer is 0.4.", "nothing")
            ]
            for answer in ("\\frac12", "2", None):
                trajectory = Trajectory(Segment("", "template"), (), "answer", answer)
                found.append(await Mathematics().reward(AnswerKey("1/2"), trajectory, sandbox, Limits()))
            return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("rstar.agent.environment.verify", None)
        assert asyncio.run(verdicts()) == [True, False, False, 1.0, 0.0, 0.0]


CELLS = [
    "x = [1]",
    "x.append(2)\nx",
    "import sys\nprint('to stderr', file=sys.stderr)\nlen(x)",
    "y = 1\n1/0",
    "print('é' * 3, y)",
    "raise SystemExit(2)",
    "import numpy as np\nnp.arange(3).sum()",
]


def test_states_are_those_of_the_local_sandbox(service: tuple[str, Service]) -> None:
    async def walk(sandbox: Sandbox) -> list[object]:
        seen: list[object] = []
        async with sandbox:
            state: State | None = sandbox.start()
            for code in CELLS:
                assert state is not None
                state, result = await state.run(code)
                seen.append((result.status, result.stdout, result.stderr, result.error, result.exit_code))
            assert state is not None
            after, result = await state.run("while True: pass", Limits(seconds=0.3))
            seen.append((after, result.status, result.stdout))
            seen.append((await sandbox.run("print(input())\n5", "in")).stdout)
            seen.append((await sandbox.run("print('x' * 9999)", limits=Limits(output_bytes=100))).status)
        return seen

    async def both() -> None:
        assert await walk(JudgeSandbox(JudgeClient(service[0]))) == await walk(LocalSandbox(workers=1))

    asyncio.run(both())


def test_search_finds_the_same_with_a_service(service: tuple[str, Service]) -> None:
    problems = [Problem(str(n), f"What is {n} + {n}?") for n in range(6)]
    base = ["policy=fake:steps", "search.rollouts=4"]

    def trees(more: list[str]) -> dict[str, Any]:
        solutions = Solver(resolve(overrides=[*base, *more])).solve(problems)
        return {s.problem.id: (s.answer, s.tree.to_json(tokens=True)) for s in solutions if s.tree is not None}

    found = [trees([]), trees([f"sandbox.place={service[0]}"])]
    assert found[0] == found[1]
    assert any(node.get("values") for _, tree in found[1].values() for node in tree["nodes"])


def test_calls_come_back_each_for_itself(service: tuple[str, Service]) -> None:
    """A slow call does not hold up those that travelled with it."""

    async def run() -> None:
        async with JudgeClient(service[0]) as client:
            order: list[str] = []

            async def call(name: str, code: str) -> str:
                report = await client.run(Submission(type="python", solution=code))
                order.append(name)
                return report.stdout or ""

            slow = call("slow", "import time; time.sleep(1.5); print('slow')")
            quick = [call(str(n), f"print({n})") for n in range(40)]
            said = await asyncio.gather(slow, *quick)
            assert said == ["slow\n", *(f"{n}\n" for n in range(40))]
            assert order[-1] == "slow"

    asyncio.run(run())


@pytest.mark.parametrize("role", ["server", "worker"])
def test_killed_processes_cost_neither_calls_nor_states(service: tuple[str, Service], role: str) -> None:
    url, processes = service

    async def run() -> None:
        async with JudgeSandbox(JudgeClient(url)) as sandbox:
            start = sandbox.start()
            state, _ = await start.run("x = 20")
            assert state is not None
            calls = [asyncio.create_task(sandbox.run(f"import time; time.sleep(0.3); print({n})")) for n in range(30)]
            cell = asyncio.create_task(state.run("import time; time.sleep(0.5); x + 1"))
            await asyncio.sleep(0.4)
            for pid in processes.children(role):
                os.kill(pid, signal.SIGKILL)
            results = await asyncio.gather(*calls)
            assert [result.stdout for result in results] == [f"{n}\n" for n in range(30)]
            after, result = await cell
            assert result.stdout == "21\n"
            assert after is not None
            assert (await after.run("x"))[1].stdout == "20\n"
            assert (await state.run("x + 2"))[1].stdout == "22\n"

    asyncio.run(run())


def test_a_service_that_is_not_there(tmp_path: Path) -> None:
    async def run() -> None:
        async with JudgeClient("http://127.0.0.1:9", retries=1):
            pass

    with pytest.raises(JudgeError, match=r"127\.0\.0\.1:9.*4 attempts"):
        asyncio.run(run())


def test_tokens(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("secret-of-the-test\n")
    token.chmod(0o600)
    header = {"Authorization": "Bearer secret-of-the-test"}
    with serving(tmp_path, "--token-file", str(token), headers=header) as (url, service):

        async def run(secret: str | None) -> str | None:
            async with JudgeClient(url, secret) as client:
                return (await client.run(Submission(type="python", solution="print(1)"))).stdout

        assert asyncio.run(run("secret-of-the-test")) == "1\n"
        for wrong in (None, "other"):
            with pytest.raises(JudgeError, match="HTTP 401"):
                asyncio.run(run(wrong))
        config = resolve(overrides=["policy=fake:steps", f"sandbox.place={url}", f"sandbox.token_file={token}"])
        assert list(Solver(config).solve([Problem("1", "What is 1 + 1?")]))
        assert "secret" not in service.log.read_text()


def test_a_released_state_cannot_be_run_from(service: tuple[str, Service]) -> None:
    async def run() -> None:
        async with JudgeSandbox(JudgeClient(service[0])) as sandbox:
            state, _ = await sandbox.start().run("x = 1")
            assert state is not None
            after, _ = await state.run("x = 2")
            state.release(), state.release()
            with pytest.raises(SandboxError, match="released"):
                await state.run("x")
            assert after is not None
            assert (await after.run("x"))[1].stdout == "2\n"

    asyncio.run(run())


def test_places_that_are_none_are_refused() -> None:
    with pytest.raises(ConfigError, match="expected local or http"):
        resolve(overrides=["sandbox.place=here"])


class Forgetful:
    """A service in memory that adds up numbers, and may lose all its sessions."""

    def __init__(self) -> None:
        self.sums: dict[str, int] = {}
        self.status = "ok"
        self._names = itertools.count()

    async def request(self, method: str, path: str, body: Any = None) -> dict[str, Any]:
        before = path.split("/")[2] if body else None
        if before is not None and before not in self.sums:
            raise SessionGoneError(path)
        name = str(next(self._names))
        self.sums[name] = 0 if before is None else self.sums[before] + int(body["code"])
        if before is None:
            return {"session_id": name, "cells": 0}
        empty = {"stderr": "", "exit_code": None, "signal": None, "error": None, "truncated": False, "values": []}
        ran = {"status": self.status, "run_success": True, "seconds": 0.0, "stdout": str(self.sums[name])}
        return {"session_id": name, **empty, **ran}


def test_long_solutions_are_rebuilt() -> None:
    """Longer than Python's stack."""
    depth = 2 * sys.getrecursionlimit()

    async def work() -> list[str]:
        service: Any = Forgetful()
        state: State | None = JudgeSandbox(service).start()
        shown = []
        for _ in range(depth):
            assert state is not None
            state, _ = await state.run("1")
        assert state is not None
        for _ in range(2):
            shown.append((await state.run("1"))[1].stdout)
            service.sums.clear()
        return shown

    assert asyncio.run(work()) == [str(depth + 1)] * 2


def test_a_state_whose_code_now_ends_differently_is_not_rebuilt() -> None:
    async def work() -> None:
        service: Any = Forgetful()
        state, _ = await JudgeSandbox(service).start().run("1")
        assert state is not None
        service.sums.clear()
        service.status = "error"
        with pytest.raises(JudgeError, match="its code now ended in 'error'"):
            await state.run("1")

    asyncio.run(work())
