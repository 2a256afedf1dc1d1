"""Everything that can break does so while calls are under way: none is lost, none is answered wrongly."""

import asyncio
import contextlib
import os
import signal
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from rstar.judge.client import JudgeClient
from rstar.judge.wire import CallLimits, Report, Submission
from tests.judge.services import Redis, Service, children, serving

COUNT = 2_000
KINDS: list[tuple[str, Callable[[int], str], bool]] = [
    ("print({0})", "{0}\n".format, True),
    ("print(int(input()) + 1)", lambda number: f"{number + 1}\n", True),
    ("import time\ntime.sleep(0.02)\nprint({0})", "{0}\n".format, True),
    ("open('own', 'a').write('{0}')\nprint(open('own').read())", "{0}\n".format, True),
    ("import os\nprint({0}, len(os.listdir('.')))", "{0} 0\n".format, True),
    ("print({0})\nraise ValueError('äöü')", "{0}\n".format, False),
    ("import sys\nprint({0})\nsys.exit(3)", "{0}\n".format, False),
    ("print({0})\nimport numpy\nprint(numpy.arange(3).sum())", "{0}\n3\n".format, True),
]
LOOPS_EVERY = 200


async def ask(client: JudgeClient, number: int) -> None:
    """One call, and whether its answer is right."""
    if number % LOOPS_EVERY == 0:
        limits = CallLimits(seconds=0.5)
        report = await client.run(Submission(type="python", solution=f"print({number})\nwhile 1: 1", limits=limits))
        assert (report.reason, report.stdout) == ("worker_timeout", f"{number}\nSuicide from timeout.\n"), report
        return
    code, printed, ends_well = KINDS[number % len(KINDS)]
    report = await client.run(Submission(type="python", solution=code.format(number), input=str(number)))
    assert_right(report, printed(number), ends_well)


def assert_right(report: Report, printed: str, ends_well: bool) -> None:
    assert (report.reason, report.run_success, report.stdout) == ("", ends_well, printed), report


async def all_right(url: str, faults: list[Callable[[], Awaitable[None]]], count: int = COUNT) -> None:
    """Make the calls; one fault after the other comes while they are under way."""
    done = 0

    async def one(number: int) -> None:
        nonlocal done
        await ask(client, number)
        done += 1

    async with JudgeClient(url) as client:
        calls = asyncio.gather(*map(one, range(1, count + 1)))
        for place, fault in enumerate(faults):
            while done < count * (place + 1) // (len(faults) + 2) and not calls.done():
                await asyncio.sleep(0.02)
            assert not calls.done() or calls.exception() is None
            assert done < count, "the calls were over before everything had broken"
            await fault()
        await calls


def killer(service: Service, role: str) -> Callable[[], Awaitable[None]]:
    async def kill() -> None:
        for pid in service.children(role):
            os.kill(pid, signal.SIGKILL)

    return kill


def zygote_killer(service: Service) -> Callable[[], Awaitable[None]]:
    async def kill() -> None:
        """The processes right below the workers: the zygotes, and whatever else they keep."""
        for worker in service.children("worker"):
            for pid in children(worker):
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)

    return kill


@pytest.mark.soak
def test_processes_die(tmp_path: Path) -> None:
    with serving(tmp_path) as (url, service):
        faults = [killer(service, "worker"), zygote_killer(service), killer(service, "server"), zygote_killer(service)]
        asyncio.run(asyncio.wait_for(all_right(url, faults), 300))


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[Redis]:
    server = Redis(tmp_path)
    server.start()
    yield server
    server.stop()


@pytest.mark.soak
def test_processes_and_redis_die(tmp_path: Path, redis: Redis) -> None:
    async def restart() -> None:
        await asyncio.to_thread(redis.stop)
        await asyncio.sleep(1.0)
        await asyncio.to_thread(redis.start)

    with serving(tmp_path, "--redis", redis.url) as (url, service):
        faults = [
            killer(service, "worker"),
            restart,
            zygote_killer(service),
            killer(service, "server"),
            restart,
        ]
        asyncio.run(asyncio.wait_for(all_right(url, faults), 400))


@pytest.mark.parametrize("level", ["full", "limits"])
@pytest.mark.parametrize("count", [200, pytest.param(COUNT, marks=pytest.mark.soak)])
def test_the_disk_of_the_scratch_folders_is_full(tmp_path: Path, level: str, count: int) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    with serving(tmp_path, "--level", level, disk=disk) as (url, service):
        inside = Path(f"/proc/{service.process.pid}/root{disk}")
        assert os.statvfs(inside).f_blocks * os.statvfs(inside).f_frsize == 4 << 20

        async def fill() -> None:
            with contextlib.suppress(OSError), (inside / "other").open("wb", buffering=0) as file:
                while True:
                    file.write(bytes(1 << 16))
            assert os.statvfs(inside).f_bavail == 0
            await asyncio.sleep(3.0)
            (inside / "other").unlink()

        faults = [fill] * (2 if count == COUNT else 1)  # a few calls do not last for a second time
        asyncio.run(asyncio.wait_for(all_right(url, faults, count), 300))
