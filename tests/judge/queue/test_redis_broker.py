"""The queue in a real Redis that holds what it should not, or refuses what it should take."""

import asyncio
import time
from dataclasses import replace

import pytest
from redis import Redis as Client
from redis.exceptions import BusyLoadingError, OutOfMemoryError, ReadOnlyError, ResponseError, TimeoutError

from rstar.judge.queue import redis_broker, redis_worker
from rstar.judge.queue.broker import QueueStatus
from rstar.judge.queue.jobs import Answer, Job, pack_answer
from rstar.judge.queue.redis_broker import RedisBroker
from rstar.judge.queue.redis_keys import GROUP, Keys, is_permanent, make_group, read_worker
from tests.judge.services import Redis

JOB = Job("1", "me", "python", "1")


def pending_job(life: float = 60.0) -> Job:
    return replace(JOB, expires=time.time() + life)


def test_an_answer_that_cannot_be_read_holds_up_no_other(redis: Redis) -> None:
    """Whoever wrote it. The call that it names fails; it is not run again and again."""
    keys = Keys("unreadable")

    async def run() -> list[str]:
        async with RedisBroker(redis.url, "me", keys=keys) as broker:
            calls = [broker.submit(replace(pending_job(), id=name)) for name in "123"]
            while broker._added < 3:
                await asyncio.sleep(0.01)
            unreadable = [
                b"garbage",
                b"",
                b"[]",
                b'{"id": "other", "outcome": "new"}',
                b'{"id": "1", "outcome": "new"}',
            ]
            for data in unreadable:
                await broker._client.xadd(keys.answers("me"), {"a": data})
            await broker._client.xadd(keys.answers("me"), {"b": "c"})
            for name in "23":
                await broker._client.xadd(keys.answers("me"), {"a": pack_answer(Answer(name))})
            answers = await asyncio.wait_for(asyncio.gather(*calls), 60)
            assert "another version" in answers[0].message
            while await broker._client.xlen(keys.answers("me")) > 1:  # the last one is kept
                await asyncio.sleep(0.01)
            assert not broker._disconnected
            assert await broker._client.xlen(keys.short) == 3  # none was added again
            return [answer.outcome for answer in answers]

    assert asyncio.run(run()) == ["failed", "done", "done"]


def test_calls_outlast_errors_that_pass(redis: Redis) -> None:
    """A lack of memory, a failover: the calls wait."""
    keys = Keys("passing")

    async def run() -> None:
        async with RedisBroker(redis.url, "me", keys=keys) as broker:
            client = broker._client
            while not await client.exists(keys.owner("me")):
                await asyncio.sleep(0.01)
            for begin, end in (
                (("config", "set", "maxmemory", "1"), ("config", "set", "maxmemory", "0")),
                (("replicaof", "127.0.0.1", "1"), ("replicaof", "no", "one")),
            ):
                await client.execute_command(*begin)
                try:
                    call = broker.submit(pending_job())
                    await asyncio.sleep(0.4)
                    assert not call.done()
                finally:
                    await client.execute_command(*end)
                while not await client.xlen(keys.short):
                    await asyncio.sleep(0.05)
                call.cancel()
                while await client.xlen(keys.short):
                    await asyncio.sleep(0.05)

    asyncio.run(asyncio.wait_for(run(), 100))


def test_a_call_too_large_for_redis_fails_alone(redis: Redis) -> None:
    """In a full Redis, no answer could be written, so neither this call nor any other would end."""
    keys = Keys("large")

    async def run(size: int) -> tuple[Answer, bool, int]:
        async with RedisBroker(redis.url, "me", keys=keys) as broker:
            large = broker.submit(replace(pending_job(), id="large", code="x" * size))
            small = broker.submit(replace(pending_job(), id="small", code="x" * (size // 2)))
            answer = await asyncio.wait_for(large, 60)
            while not await broker._client.xlen(keys.short):
                await asyncio.sleep(0.01)
            return answer, small.done(), await broker._client.xlen(keys.short)

    with Client.from_url(redis.url) as client:
        most = client.info("memory")["used_memory"] + (40 << 20)
        client.config_set("maxmemory", most)  # before the broker starts: it looks only every few seconds
        try:
            answer, small_ended, entries = asyncio.run(run(most // 4))
        finally:
            client.config_set("maxmemory", 0)
    assert (answer.outcome, small_ended, entries) == ("failed", False, 1)
    assert "a quarter of its maxmemory" in answer.message


def test_redis_s_errors_are_told_apart(redis: Redis) -> None:
    with Client.from_url(redis.url) as client:
        client.set("text", "1")
        errors = []
        for command in (("xlen", "text"), ("xgroup", "create", "none", "group", "0"), ("nonsense",)):
            with pytest.raises(ResponseError) as caught:
                client.execute_command(*command)
            errors.append(caught.value)
    assert all(map(is_permanent, errors))
    passing = [ResponseError(f"{code} …") for code in ("MISCONF", "BUSY", "NOREPLICAS", "NOGROUP")]
    passing += [OutOfMemoryError(), ReadOnlyError("You can't write"), BusyLoadingError(), TimeoutError(), OSError()]
    assert not any(map(is_permanent, passing))


def test_a_stream_that_is_none_fails_its_calls(redis: Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also those that were added before, and those whose time is over: nobody waits for ever."""
    monkeypatch.setattr(redis_broker, "_CHECK_SECONDS", 0.0)
    monkeypatch.setattr(redis_broker, "HEARTBEAT_SECONDS", 0.1)
    keys = Keys("wrong")

    async def run() -> None:
        async with RedisBroker(redis.url, "me", keys=keys) as broker:
            before = broker.submit(pending_job())
            while broker._added < 1:
                await asyncio.sleep(0.01)
            await broker._client.set(keys.short, "text")
            after = broker.submit(replace(pending_job(), id="2"))
            for answer in await asyncio.wait_for(asyncio.gather(before, after), 60):
                assert answer.outcome == "failed"
                assert "wrong kind of value" in answer.message

    asyncio.run(run())


def test_malformed_keys_of_workers_count_for_nothing(redis: Redis) -> None:
    keys = Keys("malformed")

    async def run() -> QueueStatus:
        async with RedisBroker(redis.url, "me", keys=keys) as broker:
            for name, value in (
                ("a", "2 30"),
                ("b", "notanumber"),
                ("c", ""),
                ("d", "1"),
                ("e", "3 40 new"),
                ("f", "-1 2"),
            ):
                await broker._client.set(keys.worker(name), value)
            await broker._client.rpush(keys.worker("list"), "1 2")
            return await broker.load()

    assert asyncio.run(run()).slots == 5
    assert read_worker(None) is None


def test_calls_that_wait_here_are_counted(redis: Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redis_broker, "_WINDOW", 20)

    async def run() -> list[int]:
        async with RedisBroker(redis.url, "me", keys=Keys("counted")) as broker:
            calls = [broker.submit(replace(pending_job(), id=str(n), client=str(n % 3))) for n in range(50)]
            while not broker._added:
                await asyncio.sleep(0.01)
            found = [(await broker.load()).waiting]
            for call in calls[10:]:
                call.cancel()
            while await broker._client.xlen(broker._keys.short) > 10:
                await asyncio.sleep(0.01)
            broker._loading = None
            return [*found, (await broker.load()).waiting]

    assert asyncio.run(run()) == [50, 10]


def test_consumers_of_the_dead_are_deleted_with_their_last_entry(redis: Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redis_worker, "_CONSUMER_IDLE_MS", 20)
    keys = Keys("consumers")

    async def run() -> set[bytes]:
        source = redis_worker.RedisSource(redis.url, "new", keys)
        client = source._client
        await make_group(client, keys.short)
        await client.xadd(keys.short, {"j": b""})
        for name in ("dead", "holding"):
            await client.xgroup_createconsumer(keys.short, GROUP, name)
        await client.xreadgroup(GROUP, "holding", {keys.short: ">"})
        await asyncio.sleep(0.1)
        await source._delete_consumers(keys=[keys.short], args=[GROUP, redis_worker._CONSUMER_IDLE_MS])
        found = await client.xinfo_consumers(keys.short, GROUP)
        await client.aclose()
        return {consumer["name"] for consumer in found}

    assert asyncio.run(run()) == {b"holding"}
