"""The limits hold, each with its own status."""

from __future__ import annotations

import asyncio
import os
import time
from dataclasses import replace
from pathlib import Path

import pytest

from rstar.sandbox import Limits, LocalSandbox, Result, State
from rstar.sandbox.levels import Level
from rstar.sandbox.parent import disk_watch

from .conftest import QUICK, Box

STRONG: tuple[Level, ...] = ("full", "no-namespaces")


def test_wall_time(box: Box) -> None:
    started = time.monotonic()
    result = box.run("print('begun')\nimport time\ntime.sleep(60)", limits=Limits(seconds=0.5))
    assert (result.status, result.stdout) == ("timeout", "begun\n")
    assert 0.5 <= result.seconds < 50
    assert time.monotonic() - started < 50


def test_processor_time(box: Box) -> None:
    result = box.run("while True: pass", limits=Limits(seconds=30, cpu_seconds=0.5))
    assert result.status == "timeout"
    assert result.seconds < 20


def test_processor_time_of_a_step(box: Box) -> None:
    async def step() -> str:
        state = box.sandbox.start()
        first, _ = await state.run("x = 1")
        assert first is not None
        after, result = await first.run("while True: pass", Limits(seconds=30, cpu_seconds=1))
        assert after is None
        state.release()
        first.release()
        return result.status

    assert box.do(step()) == "timeout"


@pytest.mark.parametrize("megabytes", [64, 256])
def test_memory(box: Box, megabytes: int) -> None:
    limits = replace(QUICK, memory_mb=megabytes)
    assert box.run(f"x = bytearray({megabytes // 2} << 20)\nlen(x) > 0", limits=limits).stdout == "True\n"
    result = box.run(f"y = 1\nx = bytearray({megabytes + 2} << 20)", limits=limits)
    assert result.status == "memory"
    assert result.error is not None
    assert (result.error.kind, result.error.line) == ("MemoryError", 2)


def test_memory_of_numpy(box: Box) -> None:
    result = box.run("import numpy as np\nx = np.ones((1 << 14, 1 << 14))")
    assert result.status == "memory"
    assert result.error is not None
    assert result.error.line == 2
    assert box.run("import numpy as np\nnp.ones((1 << 10, 1 << 10)).sum()").ok


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_output(box: Box, stream: str) -> None:
    def written(count: int) -> str:
        return f"import sys\nsys.{stream}.write('x' * {count})\nNone"

    limits = replace(QUICK, output_bytes=1000)
    result = box.run(written(1000), limits=limits)
    assert (result.status, result.truncated, getattr(result, stream)) == ("ok", False, "x" * 1000)
    result = box.run(written(1001), limits=limits)
    assert (result.status, result.truncated, getattr(result, stream)) == ("output_limit", True, "x" * 1000)
    result = box.run(f"import sys\nwhile True: sys.{stream}.write('x' * 100)", limits=limits)
    assert (result.status, result.truncated, getattr(result, stream)) == ("output_limit", True, "x" * 1000)


def test_much_output(box: Box) -> None:
    limits = replace(QUICK, output_bytes=3_000_000)
    result = box.run("for _ in range(20):\n    print('x' * 99_999)", limits=limits)
    assert (result.status, len(result.stdout)) == ("ok", 2_000_000)


def test_output_before_the_end_is_kept(box: Box) -> None:
    assert box.run("print('seen')\nimport os\nos._exit(1)").stdout == "seen\n"
    assert box.run("print('seen')\nwhile True: pass", limits=Limits(seconds=0.3)).stdout == "seen\n"


def test_signal(box: Box) -> None:
    result = box.run("import ctypes\nctypes.string_at(0)")
    assert (result.status, result.signal, result.exit_code) == ("killed", 11, None)


def test_scratch(box: Box) -> None:
    fill = "n = 0\nwith open('f', 'wb', buffering=0) as f:\n    while True:\n        n += f.write(bytes(1 << 18))\n"
    result = box.run(fill, limits=replace(QUICK, scratch_mb=2))
    assert result.error is not None
    assert result.error.kind == "OSError"
    assert box.run("open('f', 'wb').write(bytes(3 << 20))", limits=replace(QUICK, scratch_mb=8)).ok


def test_no_state_after_a_broken_limit(box: Box) -> None:
    async def ends(code: str) -> tuple[bool, str]:
        start = box.sandbox.start()
        state, result = await start.run(code, replace(QUICK, seconds=0.5, output_bytes=100))
        start.release()
        return state is None, result.status

    assert box.do(ends("while True: pass")) == (True, "timeout")
    assert box.do(ends("x = bytearray(1 << 30)")) == (True, "memory")
    assert box.do(ends("print('x' * 1000)")) == (True, "output_limit")
    assert box.do(ends("import os\nos._exit(0)")) == (True, "killed")


def test_more_than_before_rebuilds_the_state(box: Box) -> None:
    """Limits of a process only go down; a step that may have more runs on a rebuilt one."""

    async def steps() -> list[str]:
        start = box.sandbox.start()
        state, _ = await start.run("x = 20", replace(QUICK, memory_mb=32, scratch_mb=1))
        assert state is not None
        seen = []
        for megabytes in (16, 32, 200):
            after, result = await state.run(
                f"y = bytearray({megabytes - 12} << 20)\nx", replace(QUICK, memory_mb=megabytes)
            )
            seen.append(result.stdout or result.status)
            if after is not None:
                after.release()
        _, result = await state.run("y = bytearray(100 << 20)", replace(QUICK, memory_mb=50))
        seen.append(result.status)
        state.release()
        start.release()
        return seen

    assert box.do(steps()) == ["20\n", "20\n", "20\n", "memory"]


HIDES_FILES = """
import ctypes, os
call = ctypes.CDLL(None).mmap
call.restype, call.argtypes = ctypes.c_void_p, [ctypes.c_void_p, *[ctypes.c_long] * 5]
held = []
for number in range(40):
    with open("f", "w+b") as file:
        file.write(bytes(1 << 20))
        file.flush()
        held.append({hold})
    os.unlink("f")
import time
{then}
"""


@pytest.mark.parametrize("hold", ["os.dup(file.fileno())", "call(None, 4096, 1, 2, file.fileno(), 0)"])
@pytest.mark.parametrize("kind", ["program", "state"])
def test_files_without_a_name_take_room_too(hold: str, kind: str, tmp_path: Path) -> None:
    """Without a file system of its own, somebody must watch how much a run writes."""

    async def work() -> Result:
        async with LocalSandbox("no-namespaces", limits=QUICK, folder=tmp_path) as sandbox:
            if kind == "program":
                return await sandbox.run(HIDES_FILES.format(hold=hold, then="time.sleep(15)"))
            _, result = await sandbox.start().run(HIDES_FILES.format(hold=hold, then=""))
            return result

    assert asyncio.run(work()).status == "killed"


WRITES_BESIDE = """
import os, time
os.mkdir("../beside")
for number in range(40):
    open(f"../beside/{number}", "wb").write(bytes(1 << 20))
    time.sleep(0.05)
"""


def test_what_a_state_writes_beside_its_folder_takes_room_too(tmp_path: Path) -> None:
    async def work() -> tuple[Result, str]:
        async with LocalSandbox("no-namespaces", limits=QUICK, folder=tmp_path) as sandbox:
            state, _ = await sandbox.start().run("open('own', 'wb').write(bytes(3 << 20))")
            assert state is not None
            _, beside = await state.run(WRITES_BESIDE)
            well = [await sandbox.start().run("open('own', 'wb').write(bytes(3 << 20)); print(1)") for _ in range(3)]
            return beside, "".join(result.stdout for _, result in well)

    beside, well = asyncio.run(work())
    assert beside.status == "killed"
    assert well == "1\n" * 3


def test_a_step_too_short_to_be_looked_at_leaves_no_more_than_its_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk_watch, "_POLL_SECONDS", 60)

    async def work() -> list[str]:
        async with LocalSandbox("no-namespaces", limits=QUICK, folder=tmp_path) as sandbox:
            state: State | None = sandbox.start()
            found = []
            for name in ("a", "b"):
                assert state is not None
                state, result = await state.run(f"open({name!r}, 'wb').write(bytes(3 << 20))")
                found.append(result.status)
            assert state is None
            return found

    assert asyncio.run(work()) == ["ok", "killed"]


TAKES_MEMORY = """
import os, time
def fork():
    while True:
        try:
            return os.fork()
        except BlockingIOError:  # without namespaces, the processes of other tests count, too
            time.sleep(0.1)
def take():
    if fork() == 0:
        kept = bytearray(b"x" * (100 << 20))
        time.sleep(60)
"""
HIDES_MEMORY = {
    "behind a zombie": "if fork() == 0:\n    os._exit(0)\ntake(), take(), take()\ntime.sleep(60)",
    "in orphans": "for _ in range(3):\n    if fork() == 0:\n        take(), os._exit(0)\n    os.wait()\ntime.sleep(60)",
}


@pytest.mark.parametrize("level", STRONG)
@pytest.mark.parametrize("name", HIDES_MEMORY)
def test_no_process_of_a_program_hides_its_memory(level: Level, name: str) -> None:
    assert drive(level, TAKES_MEMORY + HIDES_MEMORY[name], replace(QUICK, memory_mb=200, seconds=30)).status == "memory"


TAKES_MAPS = """
import ctypes, os, time
call = ctypes.CDLL(None).mmap
call.restype, call.argtypes = ctypes.c_void_p, [ctypes.c_void_p, *[ctypes.c_long] * 5]
def take(path):
    file = os.open(path, os.O_RDWR | os.O_CREAT)
    os.write(file, bytes(8192))
    for number in range(60_000):
        call(None, 4096, 1, 2, file, 4096 * (number % 2))
"""
LONG_PATH = """
here = os.getcwd()
for _ in range(7):
    os.mkdir("d" * 250)
    os.chdir("d" * 250)
take("file")
os.chdir(here)
"""


@pytest.mark.parametrize("level", STRONG)
def test_a_run_with_too_many_maps_to_look_at_ends_alone(level: Level) -> None:
    """Nobody else waits while its maps are read, and what happens to it is a result."""

    async def work() -> tuple[Result, Result]:
        async with LocalSandbox(level, workers=2, limits=QUICK) as sandbox:
            start, _ = await sandbox.start().run("x = 1")
            assert start is not None
            _, crowded = await start.run(TAKES_MAPS + LONG_PATH)
            return crowded, (await start.run("print(x)"))[1]

    crowded, other = asyncio.run(work())
    assert (crowded.status, other.stdout) == ("killed", "1\n")
    forks = "if os.fork() == 0:\n    time.sleep(60)\ntime.sleep(60)"
    assert drive(level, f"{TAKES_MAPS}{LONG_PATH}{forks}", QUICK).status == "killed"


def drive(level: Level, driver: str, limits: Limits) -> Result:
    """How a program ends that may start others."""

    async def work() -> Result:
        file = os.memfd_create("file")
        try:
            async with LocalSandbox(level, workers=2) as sandbox:
                return await sandbox.run_driver(driver, None, file, limits)
        finally:
            os.close(file)

    return asyncio.run(work())
