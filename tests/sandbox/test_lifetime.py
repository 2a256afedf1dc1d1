"""What a run has started ends with it, and its folder goes, whatever its processes do meanwhile."""

from __future__ import annotations

import asyncio
import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from rstar.sandbox import LocalSandbox
from rstar.sandbox.levels import Level

from .conftest import QUICK, settles

STRONG: tuple[Level, ...] = ("full", "no-namespaces")

FORKS = """
for _ in range(8):
    if os.fork() == 0:
        break
work()
"""
SLEEPS = "import os, time\ndef work():\n    time.sleep(60)\n"
MAKES_FOLDERS = """
import os, time
def work():
    end = time.monotonic() + 20
    number = 0
    while time.monotonic() < end:
        number += 1
        try:
            os.makedirs(f"{os.getpid()}-{number % 50}/removed 0/x")
        except OSError:
            pass
"""


def session_of(leader: int) -> set[int]:
    """The processes of a session, zombies left out."""
    found = set()
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            state, _, _, session, *_ = Path(f"/proc/{name}/stat").read_bytes().rpartition(b")")[2].split()
        except OSError:
            continue
        if int(session) == leader and state != b"Z":
            found.add(int(name))
    return found


@pytest.mark.parametrize("level", STRONG)
def test_processes_that_write_end_with_their_run_and_leave_nothing(level: Level, tmp_path: Path) -> None:
    tmp_path.chmod(0o755)

    async def work() -> None:
        file = os.memfd_create("file")
        async with LocalSandbox(level, workers=2, limits=QUICK, folder=tmp_path) as sandbox:
            await sandbox.run_driver("1", None, file, QUICK)
            (zygote,) = (zygote for tier, zygote in sandbox._zygotes.items() if tier == "native")
            before = session_of(zygote.pid)
            for _ in range(20):
                result = await sandbox.run_driver(
                    MAKES_FOLDERS + FORKS, None, file, replace(QUICK, seconds=0.5, scratch_mb=64)
                )
                if result.error is None or result.error.kind != "BlockingIOError":
                    break
                await asyncio.sleep(0.5)  # without namespaces, the kernel counts the processes of other tests, too
            assert result.status == "timeout", result
            assert await asyncio.to_thread(settles, lambda: session_of(zygote.pid) <= before)
            assert await asyncio.to_thread(settles, lambda: not [*tmp_path.glob("*/native-*/*")])
            assert (await sandbox.run_driver("print(1)", None, file, QUICK)).stdout == "1\n"
            assert zygote.link.open
        os.close(file)

    asyncio.run(work())


@pytest.mark.parametrize("level", STRONG)
def test_what_a_program_has_started_ends_with_the_zygote(level: Level) -> None:
    async def work() -> None:
        file = os.memfd_create("file")
        async with LocalSandbox(level, workers=2, limits=QUICK, attempts=1) as sandbox:
            await sandbox.run_driver("1", None, file, QUICK)
            (zygote,) = (zygote for tier, zygote in sandbox._zygotes.items() if tier == "native")
            before = session_of(zygote.pid)  # the first run may still be ending

            def started() -> bool:
                return len(session_of(zygote.pid) - before) >= 9

            for _ in range(20):
                run = asyncio.create_task(sandbox.run_driver(SLEEPS + FORKS, None, file, QUICK))
                assert await asyncio.to_thread(settles, lambda run=run: run.done() or started())
                if not run.done():
                    break
                await asyncio.sleep(0.5)  # without namespaces, the kernel counts the processes of other tests, too
            assert started()
            os.kill(zygote.pid, signal.SIGKILL)
            await asyncio.gather(run, return_exceptions=True)
            assert await asyncio.to_thread(settles, lambda: not session_of(zygote.pid))
        os.close(file)

    asyncio.run(work())


def test_the_folders_of_a_closed_tree_go(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)

    async def work() -> None:
        async with LocalSandbox("no-namespaces", workers=2, limits=QUICK, folder=tmp_path) as sandbox:
            for _ in range(3):
                start = sandbox.start()
                state, _ = await start.run("import os\nos.makedirs('removed 0/d')\nopen('removed 0/d/file', 'w')")
                assert state is not None
                state.release()
                start.release()
            assert await asyncio.to_thread(settles, lambda: not [*tmp_path.glob("*/*/*")])

    asyncio.run(work())
