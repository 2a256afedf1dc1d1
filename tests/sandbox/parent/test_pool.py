"""Keepers that die, tasks that are cancelled, many runs at once: nothing is lost, nothing is left."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from rstar.errors import SandboxError
from rstar.sandbox import Limits, LocalSandbox, Sandbox
from rstar.sandbox.levels import Level
from rstar.sandbox.parent import execution, pool
from rstar.sandbox.parent.execution import read_report
from rstar.sandbox.parent.local import LocalState
from tests.sandbox.conftest import QUICK, Box, descendants, settles

LEVELS: tuple[Level, ...] = ("full", "no-namespaces", "limits")


def session(work: Any, **options: Any) -> Any:
    """Run `work` with a sandbox of its own; afterwards no process and no descriptor is left."""

    async def run() -> Any:
        async with LocalSandbox(**{"limits": QUICK, "workers": 4, **options}) as sandbox:
            return await work(sandbox)

    before, handles = descendants(os.getpid()), _handles()
    result = asyncio.run(run())
    assert settles(lambda: descendants(os.getpid()) <= before)
    assert _handles() <= handles
    return result


def _handles() -> set[str]:
    return {name for name in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{name}")}


@pytest.mark.parametrize("level", LEVELS)
def test_closing_ends_everything(level: Level, tmp_path: Path) -> None:
    async def work(sandbox: LocalSandbox) -> None:
        await sandbox.run("1")
        await sandbox.run("import sympy")
        state, _ = await sandbox.start().run("x = 1\nopen('f', 'w').close()")
        assert state is not None
        after, _ = await state.run("x = 2")
        assert after is not None
        assert len(descendants(os.getpid())) >= 7

    tmp_path.chmod(0o755)
    session(work, level=level, folder=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_must_be_open() -> None:
    sandbox = LocalSandbox()
    with pytest.raises(SandboxError, match="not open"):
        asyncio.run(sandbox.run("1"))
    with pytest.raises(SandboxError, match="not open"):
        asyncio.run(sandbox.start().run("1"))


def test_can_be_opened_again() -> None:
    async def twice() -> list[str]:
        sandbox, seen = LocalSandbox(), []
        for _ in range(2):
            async with sandbox:
                seen.append((await sandbox.run("1 + 1")).stdout)
        return seen

    assert asyncio.run(twice()) == ["2\n", "2\n"]


def test_many_at_once(box: Box) -> None:
    async def many(sandbox: Sandbox) -> list[str]:
        results = await asyncio.gather(*(sandbox.run(f"print({n} * 2)") for n in range(100)))
        return [result.stdout for result in results]

    assert box.do(many(box.sandbox)) == [f"{n * 2}\n" for n in range(100)]


def test_many_trees_at_once(box: Box) -> None:
    async def walk(number: int) -> str:
        state: LocalState | None = box.sandbox.start()
        for step in range(4):
            assert state is not None
            after, _ = await state.run(f"x = globals().get('x', {number}) + {step}")
            state.release()
            state = after
        assert state is not None
        _, result = await state.run("x")
        state.release()
        return result.stdout

    async def walks() -> list[str]:
        return await asyncio.gather(*(walk(number) for number in range(20)))

    assert box.do(walks()) == [f"{number + 6}\n" for number in range(20)]


def test_no_more_than_workers_at_a_time() -> None:
    async def work(sandbox: LocalSandbox) -> None:
        code = "import time\nprint(time.monotonic())\ntime.sleep(0.2)\nprint(time.monotonic())"
        results = await asyncio.gather(*(sandbox.run(code) for _ in range(6)))
        spans = [tuple(map(float, result.stdout.split())) for result in results]
        for begin, _ in spans:
            assert sum(other <= begin < end for other, end in spans) <= 2

    session(work, workers=2, background_runs=0)


@pytest.mark.parametrize("level", LEVELS)
def test_a_killed_zygote_loses_nothing(level: Level) -> None:
    async def work(sandbox: LocalSandbox) -> None:
        start = sandbox.start()
        state, _ = await start.run("x = 20")
        assert state is not None
        slow = asyncio.gather(
            *(sandbox.run("import time\ntime.sleep(0.5)\nprint('done')") for _ in range(2)),
            state.run("import time\ntime.sleep(0.5)\nx + 1"),
        )
        await asyncio.sleep(0.2)
        os.kill(sandbox._zygotes["bare"].pid, signal.SIGKILL)
        one, two, (_, three) = await slow
        assert (one.stdout, two.stdout, three.stdout) == ("done\n", "done\n", "21\n")
        assert (await state.run("x"))[1].stdout == "20\n"
        assert (await sandbox.run("'again'")).stdout == "'again'\n"

    session(work, level=level)


def test_a_killed_keeper_or_template_loses_nothing() -> None:
    async def work(sandbox: LocalSandbox) -> None:
        state, _ = await sandbox.start().run("x = 20")
        assert state is not None
        for _ in range(3):
            for process in sorted(descendants(sandbox._zygotes["bare"].pid)):
                with suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
                assert (await state.run("x + 1"))[1].stdout == "21\n"
                assert (await sandbox.run("1 + 1")).stdout == "2\n"

    session(work)


def test_a_zygote_that_hangs_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "_PONG_SECONDS", 2.0)

    async def work(sandbox: LocalSandbox) -> str:
        await sandbox.run("1")
        os.kill(sandbox._zygotes["bare"].pid, signal.SIGSTOP)
        first = await sandbox.run("1 + 2", limits=Limits(seconds=0.5))
        assert first.stdout == "3\n", "a zygote that does not answer is not the code's fault"
        return (await sandbox.run("1 + 1")).stdout

    assert session(work) == "2\n"


@pytest.mark.parametrize("which", ["keeper", "template", "keeper of a tree"])
def test_who_is_stopped_is_replaced_and_its_runs_are_done_again(which: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """None of them is a timeout of the code, and none waits for ever."""
    monkeypatch.setattr(pool, "_PING_SECONDS", 0.2)
    monkeypatch.setattr(pool, "_PONG_SECONDS", 1.0)
    monkeypatch.setattr(execution, "_KEEPER_SECONDS", 1.0)

    async def work(sandbox: LocalSandbox) -> None:
        await sandbox.run("1")
        zygote = sandbox._zygotes["bare"].pid
        template = min(_children(zygote))
        start = sandbox.start()
        state, _ = await start.run("x = 20")
        assert state is not None
        (keeper,) = (child for child in _children(zygote) if _children(child))
        sleeps = "import time\ntime.sleep(0.3)\nprint('done')"
        tasks = [asyncio.create_task(run) for run in (sandbox.run(sleeps), state.run(sleeps, Limits(seconds=3.0)))]
        await asyncio.sleep(0.1)
        os.kill({"keeper": zygote, "template": template, "keeper of a tree": keeper}[which], signal.SIGSTOP)
        limits = Limits(seconds=0.5)
        fresh, (_, step), (_, first) = await asyncio.gather(
            sandbox.run("1 + 2", limits=limits), state.run("x + 1", limits), sandbox.start().run("5", limits)
        )
        assert (fresh.stdout, step.stdout, first.stdout) == ("3\n", "21\n", "5\n")
        program, (_, slow) = await asyncio.gather(*tasks)
        assert program.stdout == slow.stdout == "done\n"

    session(work)


def _children(process: int) -> set[int]:
    try:
        return {int(child) for child in Path(f"/proc/{process}/task/{process}/children").read_text().split()}
    except FileNotFoundError:  # it has ended since its parent was asked
        return set()


def test_a_zygote_that_always_dies_is_an_error() -> None:
    async def work(sandbox: LocalSandbox) -> None:
        async def assassin() -> None:
            while True:
                for zygote in list(sandbox._zygotes.values()):
                    zygote.kill()
                await asyncio.sleep(0.05)

        killer = asyncio.create_task(assassin())
        with pytest.raises(SandboxError, match="lost"):
            await sandbox.run("import time\ntime.sleep(5)")
        with pytest.raises(SandboxError, match="lost"):
            await sandbox.start().run("import time\ntime.sleep(5)")
        killer.cancel()

    session(work)


@pytest.mark.parametrize("level", LEVELS)
def test_cancelling_kills_the_run(level: Level) -> None:
    async def work(sandbox: LocalSandbox) -> None:
        start = sandbox.start()
        state, _ = await start.run("x = 1")
        assert state is not None
        await sandbox.run("1")
        at_rest = descendants(os.getpid())
        for delay in (0.0, 0.002, 0.004, 0.2):
            for run in (sandbox.run, start.run, state.run):
                task = asyncio.create_task(run("import time\ntime.sleep(30)"))
                await asyncio.sleep(delay)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
                assert (await state.run("x"))[1].stdout == "1\n"
        async with asyncio.timeout(10):
            while not descendants(os.getpid()) <= at_rest:
                await asyncio.sleep(0.02)
            results = await asyncio.gather(*(sandbox.run("1") for _ in range(20)))  # no slot was lost
        assert all(result.ok for result in results)

    session(work, level=level)


def test_closing_with_runs_under_way() -> None:
    async def work(sandbox: LocalSandbox) -> list[asyncio.Task[Any]]:
        start = sandbox.start()
        tasks = [
            asyncio.create_task(sandbox.run("import time\ntime.sleep(30)")),
            asyncio.create_task(start.run("import time\ntime.sleep(30)")),
        ]
        await asyncio.sleep(0.1)
        return tasks

    async def check() -> None:
        async with LocalSandbox() as sandbox:
            tasks = await work(sandbox)
        for task in tasks:
            with pytest.raises(SandboxError):
                await task

    before = descendants(os.getpid())
    asyncio.run(check())
    assert settles(lambda: descendants(os.getpid()) <= before)


@pytest.mark.parametrize("level", LEVELS)
def test_nothing_outlives_a_killed_parent(level: Level, tmp_path: Path) -> None:
    script = f"""
import asyncio, os
from rstar.sandbox import LocalSandbox
async def main():
    async with LocalSandbox({level!r}, workers=4) as sandbox:
        start = sandbox.start()
        state, _ = await start.run("x = 1")
        runs = [sandbox.run("while True: pass"), start.run("while True: pass"), state.run("while True: pass")]
        tasks = [asyncio.create_task(run) for run in runs]
        await asyncio.sleep(0.3)
        print("ready", flush=True)
        await asyncio.gather(*tasks)
asyncio.run(main())
"""
    environment = {"TMPDIR": str(tmp_path), "PATH": os.environ["PATH"]}
    tmp_path.chmod(0o755)
    parent = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, env=environment, text=True)
    assert parent.stdout is not None
    assert parent.stdout.readline() == "ready\n"
    below = descendants(parent.pid)
    assert len(below) >= 6
    parent.kill()
    parent.communicate()
    assert settles(lambda: not any(_alive(process) for process in below))


def _alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize(
    "text",
    ["", "x", "[]", "null", "1", "{}", '{"status": "fine"}', '{"status": "error"}', '{"status": ["ok"]}',
     '{"status": "ok", "exit_code": "0"}', "[" * 10_000, '{"status": "timeout"}', "9" * 10_000],
)  # fmt: skip
def test_reports_of_a_wrong_form_count_as_killed(text: str) -> None:
    assert read_report(text).status == "killed"


def test_a_keeper_that_goes_while_nobody_waits_is_no_error() -> None:
    """A watchdog may be cancelled before its answer comes."""

    async def run() -> list[Any]:
        told: list[Any] = []
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: told.append(context))
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        link = pool.Link(ours, lambda: None, None)
        link.expect(1)
        link.close()
        link.expect(2)
        theirs.close()
        gc.collect()
        return told

    assert asyncio.run(run()) == []
