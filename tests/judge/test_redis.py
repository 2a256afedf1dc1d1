"""The queue in a real Redis: several machines, deaths of everything, Redis among them."""

import asyncio
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from redis import Redis as Client

from rstar.judge.client import JudgeClient, JudgeSandbox
from rstar.judge.queue import redis_broker
from rstar.judge.queue.broker import MAX_DEATHS, QueueStatus
from rstar.judge.queue.jobs import Job, read_job
from rstar.judge.queue.redis_broker import RedisBroker
from rstar.judge.queue.redis_keys import GROUP, Keys, make_group
from rstar.judge.wire import CallLimits, Submission
from tests.judge.services import Redis, Service, serving, wait_for


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
                role = "server" if victim == "api" else "worker"
                for pid in (second if victim == "other machine" else first).children(role):
                    os.kill(pid, signal.SIGKILL)
            return await under_way

    assert asyncio.run(asyncio.wait_for(run(), 120)) == [f"{n}\n" for n in range(count)]


DYING = """
import asyncio, os, sys
from rstar.judge.queue import redis_worker
from rstar.judge.queue.jobs import Answer
from rstar.judge.queue.redis_keys import Keys

redis_worker.HEARTBEAT_SECONDS, redis_worker._IDLE_MS, redis_worker._BLOCK_MS = 0.1, 400, 50


class Worker:
    slots = 4
    capacity = 1_000

    def start(self, job):
        if job.code == "bad":
            os._exit(1)
        asyncio.get_running_loop().call_later(0.2, self.end, job)

    def end(self, job):
        source.answer(Answer(job.id))
        source.ready(1)


async def work():
    global source
    source = redis_worker.RedisSource(sys.argv[1], str(os.getpid()), Keys(sys.argv[2]))
    await source.serve(Worker())

asyncio.run(work())
"""
"""A worker that does calls in a moment, and dies of ``bad`` with all that it has."""


def test_only_the_call_that_kills_workers_is_blamed(redis: Redis) -> None:
    keys = Keys("rstar:test:trials")

    async def work() -> None:
        for _ in range(MAX_DEATHS + 1):
            process = await asyncio.create_subprocess_exec(sys.executable, "-c", DYING, redis.url, keys.prefix)
            try:
                assert await process.wait() == 1
            finally:
                if process.returncode is None:
                    process.kill()
                    await process.wait()

    async def run() -> None:
        async with RedisBroker(redis.url, "owner", keys=keys) as broker:
            codes = ["good"] * 10 + ["bad"] + ["good"] * 10
            jobs = [Job(str(n), "owner", "python", code, expires=time.time() + 99) for n, code in enumerate(codes)]
            while not await broker._client.exists(keys.owner("owner")):  # calls of dead owners are not done
                await asyncio.sleep(0.02)
            working = asyncio.create_task(work())
            answers = await asyncio.gather(*map(broker.submit, jobs))
            assert not working.done()
            working.cancel()
            await asyncio.gather(working, return_exceptions=True)
            wanted = ["failed" if code == "bad" else "done" for code in codes]
            assert [answer.outcome for answer in answers] == wanted

    asyncio.run(asyncio.wait_for(run(), 60))


def test_many_calls_are_cancelled_at_once(redis: Redis) -> None:
    keys = Keys("rstar:test:cancelled")

    async def run() -> None:
        async with RedisBroker(redis.url, "owner", keys=keys) as broker:
            await make_group(broker._client, keys.long)
            jobs = [Job(str(n), "owner", "python", "", expires=time.time() + 99, client=str(n)) for n in range(1_000)]
            futures = [broker.submit(job) for job in jobs]
            while await broker._client.xlen(keys.long) < 200:  # the others are on their way, or wait
                await asyncio.sleep(0.01)
            for future in futures:
                future.cancel()
            for _ in range(100):
                left = await broker._client.xlen(keys.long)
                await asyncio.sleep(0.05)
            assert left == 0

    asyncio.run(asyncio.wait_for(run(), 60))


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
            await asyncio.wait_for(calls(client, 4, 0.0), 30)  # the abandoned calls would take a minute

    asyncio.run(run())


def test_a_wrong_url_is_said_so(tmp_path: Path) -> None:
    worker = Service("worker", "--redis", "nonsense", "--workers", "1", log=tmp_path / "log")
    try:
        assert worker.process.wait(100) == 2
        assert "redis" in (tmp_path / "log").read_text().lower()
    finally:
        worker.process.kill()


def test_calls_of_a_dead_api_end(redis: Redis, service: tuple[str, Service]) -> None:
    """Nobody can have their answers any more, and their places are wanted."""
    _, judge = service

    async def run() -> None:
        client = JudgeClient(service[0])
        code = "import time\ntime.sleep(300)"
        limits = CallLimits(seconds=400)
        async with client:
            call = asyncio.create_task(client.run(Submission(type="python", solution=code, limits=limits)))
            await asyncio.to_thread(wait_for, lambda: _running(redis) == 1)
            for process in judge.children("server"):
                os.kill(process, signal.SIGSTOP)  # its name in Redis runs out, and it is replaced
            call.cancel()
            await asyncio.gather(call, return_exceptions=True)
        await asyncio.to_thread(wait_for, lambda: _running(redis) == 0, 60)

    asyncio.run(run())


def _running(redis: Redis) -> int:
    with Client.from_url(redis.url) as client:
        keys = Keys()
        return sum(client.xpending(stream, GROUP)["pending"] for stream in (keys.short, keys.long))


def test_asking_how_much_there_is_costs_little(redis: Redis) -> None:
    """Those who ask often get one answer, and calls find connections."""
    looks = 0

    async def run() -> None:
        nonlocal looks
        async with RedisBroker(redis.url, "asks", keys=Keys("asks")) as broker:
            load = broker._load

            async def count() -> QueueStatus:
                nonlocal looks
                looks += 1
                return await load()

            broker._load = count  # type: ignore[method-assign]
            assert len(await asyncio.gather(*(broker.load() for _ in range(500)))) == 500
            await asyncio.sleep(0.6)
            await broker.load()

    asyncio.run(run())
    assert looks == 2


def test_a_call_that_redis_has_lost_is_not_too_late(redis: Redis) -> None:
    """It may have begun long ago: it is added again with time to begin."""

    async def run() -> float:
        keys = Keys("lost")
        async with RedisBroker(redis.url, "me", keys=keys) as broker:
            call = broker.submit(Job("1", "me", "python", "1", expires=time.time() + 2))
            (pending,) = broker._pending.values()
            while pending.entry is None:
                await asyncio.sleep(0.01)
            await asyncio.sleep(max(0.0, pending.job.expires - time.time()))
            pending.read = True
            await broker._client.delete(keys.short)
            await broker._find_lost([pending])
            assert pending.entry is None
            call.cancel()
            return pending.job.expires - time.time()

    assert asyncio.run(run()) > 5


def test_no_client_has_all_places_of_all_machines(redis: Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redis_broker, "_WINDOW", 20)

    async def added(keys: Keys, count: int) -> list[str]:
        """The jobs added, once there are `count`, and half a second later."""
        with Client.from_url(redis.url) as client:
            await asyncio.to_thread(wait_for, lambda: client.xlen(keys.short) >= count)
            await asyncio.sleep(0.5)
            return [read_job(fields[b"j"]).id for _, fields in client.xrange(keys.short)]

    async def run() -> tuple[list[str], list[str]]:
        keys = Keys("places")
        async with RedisBroker(redis.url, "me", keys=keys) as broker:
            expires = time.time() + 60
            calls = [
                broker.submit(Job(f"g{n}", "me", "python", "1", expires=expires, client="greedy")) for n in range(40)
            ]
            greedy = await added(keys, 10)
            calls.append(broker.submit(Job("m", "me", "python", "1", expires=expires, client="modest")))
            both = await added(keys, 11)
            for call in calls:
                call.cancel()
            return greedy, both

    greedy = [f"g{n}" for n in range(10)]
    assert asyncio.run(run()) == (greedy, [*greedy, "m"])
