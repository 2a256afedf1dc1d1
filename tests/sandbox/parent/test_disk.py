"""Folders on a shared disk are looked through soon after something was written, and seldom otherwise."""

from __future__ import annotations

import asyncio
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from rstar.sandbox import Limits, LocalSandbox, Result
from rstar.sandbox.parent import disk
from rstar.sandbox.parent.disk import DiskWatch


class Run:
    def __init__(self, seconds: float = 0.0) -> None:
        self.looks, self._seconds = 0, seconds

    async def check_disk_use(self) -> None:
        self.looks += 1
        await asyncio.sleep(self._seconds)


def looks(monkeypatch: pytest.MonkeyPatch, *runs: Run, loss: int, seconds: float = 1.0) -> list[int]:
    """Looks per run while each question for the free space is told `loss` bytes less."""
    free = iter(range(1 << 50, 0, -loss)) if loss else None
    monkeypatch.setattr(disk, "free_space", lambda folder: next(free) if free else 1 << 50)

    async def work() -> None:
        watch = DiskWatch(Path("/"))
        with ExitStack() as stack:
            for run in runs:
                stack.enter_context(watch.watch(run))
            await asyncio.sleep(seconds)

    asyncio.run(work())
    return [run.looks for run in runs]


def test_looks_come_soon_after_writes_and_seldom_without(monkeypatch: pytest.MonkeyPatch) -> None:
    (quiet,) = looks(monkeypatch, Run(), loss=0)
    (busy,) = looks(monkeypatch, Run(), loss=8 << 20)
    assert 1 <= quiet <= 3
    assert busy > 8


def test_looks_that_take_long_are_rare_and_delay_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    slow, quick = looks(monkeypatch, Run(9.0), Run(), loss=8 << 20)
    assert slow == 1
    assert quick > 3


def test_watch_ends_with_the_last_run() -> None:
    async def work() -> bool:
        watch = DiskWatch(Path("/"))
        with watch.watch(Run()):
            assert watch._watcher is not None
        await asyncio.sleep(0.7)
        return watch._watcher is None

    assert asyncio.run(work())


FILLS_THE_DISK = """
import time
time.sleep(2)
start = time.monotonic()
for number in range(4):
    open(str(number), "wb").write(bytes(3 << 20))
    print(0, flush=True)
while True:
    print(time.monotonic() - start, flush=True)
    time.sleep(0.01)
"""

RESERVES_SPACE = """
import ctypes, os
handle = os.open("f", os.O_CREAT | os.O_RDWR)
for mode in (0, 1):
    print(ctypes.CDLL(None).fallocate(handle, mode, ctypes.c_long(0), ctypes.c_long(1 << 20)))
os.posix_fallocate(handle, 0, 1 << 20)
print(os.fstat(handle).st_size)
"""


def in_folder(code: str, folder: Path) -> Result:
    async def work() -> Result:
        async with LocalSandbox("no-namespaces", limits=Limits(seconds=20, scratch_mb=4), folder=folder) as sandbox:
            return await sandbox.run(code)

    return asyncio.run(work())


def test_a_program_that_fills_the_disk_is_killed_soon(tmp_path: Path) -> None:
    started = time.monotonic()
    result = in_folder(FILLS_THE_DISK, tmp_path)
    assert result.status == "killed"
    assert time.monotonic() - started < 15
    assert float(result.stdout.split()[-1]) < 1


def test_space_cannot_be_reserved_in_no_time(tmp_path: Path) -> None:
    """Nor can more be reserved than the size of the file shows."""
    assert in_folder(RESERVES_SPACE, tmp_path).stdout == f"-1\n-1\n{1 << 20}\n"
