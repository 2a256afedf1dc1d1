"""The queue in a real Redis: several machines, deaths of everything, Redis among them."""

import asyncio
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from rstar.judge.client import JudgeClient, JudgeSandbox
from rstar.judge.wire import Submission
from tests.judge.services import Redis, Service, serving, wait_for


@pytest.fixture(scope="module")
def redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Redis]:
    server = Redis(tmp_path_factory.mktemp("redis"))
    server.start()
    yield server
    server.stop()


@pytest.fixture(scope="module")
def service(redis: Redis, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Service]]:
    with serving(tmp_path_factory.mktemp("judge"), "--redis", redis.url, workers=1) as found:
        yield found


@pytest.fixture(scope="module")
def second(redis: Redis, service: object, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """Another machine's worker."""
    log = tmp_path_factory.mktemp("worker") / "log"
    worker = Service("worker", "--redis", redis.url, "--workers", "1", log=log)
    wait_for(lambda: bool(worker.children("worker")))
    yield worker
    worker.stop()


async def calls(client: JudgeClient, count: int, pause: float) -> list[str | None]:
    """Programs that say which they are and take a moment; every eighth ends in an error."""

    async def call(number: int) -> str | None:
        end = "1/0" if number % 8 == 0 else ""
        code = f"import time; time.sleep({pause})\nprint({number})\n{end}"
        report = await client.run(Submission(type="python", solution=code))
        assert report.run_success == (number % 8 != 0)
        return report.stdout

    return await asyncio.gather(*(call(number) for number in range(count)))


def test_calls_and_sessions(service: tuple[str, Service]) -> None:
    async def run() -> None:
        async with JudgeSandbox(JudgeClient(service[0])) as sandbox:
            state, _ = await sandbox.start().run("x = 5")
            assert state is not None
            after, result = await state.run("x += 1\nx")
            assert result.stdout == "6\n"
            state.release()
            assert after is not None
            assert (await after.run("x"))[1].stdout == "6\n"
        async with JudgeClient(service[0]) as client:
            assert await calls(client, 50, 0.0) == [f"{n}\n" for n in range(50)]

    asyncio.run(run())


@pytest.mark.parametrize("victim", ["worker", "other machine", "api", "redis"])
def test_nothing_is_lost_when_something_dies(
    redis: Redis, service: tuple[str, Service], second: Service, victim: str
) -> None:
    url, first = service
    count = 120

    async def run() -> list[str | None]:
        async with JudgeClient(url) as client:
            under_way = asyncio.create_task(calls(client, count, 0.05))
            await asyncio.sleep(1.0)
            if victim == "redis":
                await asyncio.to_thread(redis.stop)
                await asyncio.sleep(1.0)
                await asyncio.to_thread(redis.start)
            else:
                role = "api" if victim == "api" else "worker"
                for pid in (second if victim == "other machine" else first).children(role):
                    os.kill(pid, signal.SIGKILL)
            return await under_way

    assert asyncio.run(asyncio.wait_for(run(), 120)) == [f"{n}\n" for n in range(count)]


def test_nobody_s_calls_are_given_up(redis: Redis, service: tuple[str, Service]) -> None:
    """Who goes away takes the calls along, also those in Redis."""

    async def run() -> None:
        async with JudgeClient(service[0]) as client:
            endless = [
                asyncio.create_task(client.run(Submission(type="python", solution="import time; time.sleep(60)")))
                for _ in range(20)
            ]
            await asyncio.sleep(1.0)
            for task in endless:
                task.cancel()
        async with JudgeClient(service[0]) as client:
            started = time.monotonic()
            await calls(client, 4, 0.0)
            assert time.monotonic() - started < 8

    asyncio.run(run())


def test_a_wrong_url_is_said_so(tmp_path: Path) -> None:
    worker = Service("worker", "--redis", "nonsense", "--workers", "1", log=tmp_path / "log")
    try:
        assert worker.process.wait(20) == 2
        assert "redis" in (tmp_path / "log").read_text().lower()
    finally:
        worker.process.kill()
