"""A worker's side of the queue in Redis. See `rstar.judge.queue.redis_broker`."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from redis.exceptions import ResponseError

from rstar.judge.queue.broker import LAST_TRIAL_DEATHS, MAX_DEATHS, next_trial
from rstar.judge.queue.jobs import Answer, Job, pack_answer, read_job
from rstar.judge.queue.redis_keys import (
    ALIVE_SECONDS,
    FAILURES,
    GROUP,
    HEARTBEAT_SECONDS,
    Keys,
    connect,
    make_group,
)
from rstar.judge.worker.worker import AHEAD, Worker

_BLOCK_MS = 1_000
_RETRY_SECONDS = 0.25
_EXCLUSIVE_POLL_SECONDS = 0.1
_WARN_SECONDS = 10.0
_OWNER_SECONDS = 1.0
"""For this long after an API process was last seen alive, its jobs start without another look."""

_DIRECTED_SECONDS = 600
"""Seconds that a worker's own stream outlives it."""

_IDLE_MS = 6_000
"""A job whose worker has not renewed its claim for this long is taken over."""

_LOG = logging.getLogger("rstar.judge")

_FINISH = """
local answer = redis.call('XADD', KEYS[2], '*', 'a', ARGV[3])
redis.call('EXPIRE', KEYS[2], 600)
if redis.call('XACK', KEYS[1], ARGV[1], ARGV[2]) == 1 then
    redis.call('XDEL', KEYS[1], ARGV[2])
else
    redis.call('XDEL', KEYS[2], answer)
end
"""
"""Answers an entry unless another worker already has. Redis may lack memory for the answer: it is added first."""

_CONSUMER_IDLE_MS = 600_000
_DELETE_CONSUMERS = """
for _, fields in ipairs(redis.call('XINFO', 'CONSUMERS', KEYS[1], ARGV[1])) do
    local consumer = {}
    for place = 1, #fields, 2 do
        consumer[fields[place]] = fields[place + 1]
    end
    if consumer.pending == 0 and consumer.idle > tonumber(ARGV[2]) then
        redis.call('XGROUP', 'DELCONSUMER', KEYS[1], ARGV[1], consumer.name)
    end
end
"""
"""Deletes the consumers of workers that died long ago; one with entries is kept until they have been taken over."""


@dataclass(frozen=True, slots=True)
class _Entry:
    stream: str
    id: bytes
    owner: str


class RedisSource:
    """Jobs from Redis, for one worker.

    Args:
        url: Redis URL.
        name: unique name of the worker.
    """

    def __init__(self, url: str, name: str, keys: Keys | None = None) -> None:
        self._client, self._name, self._keys = connect(url), name, keys or Keys()
        self._finish = self._client.register_script(_FINISH)
        self._delete_consumers = self._client.register_script(_DELETE_CONSUMERS)
        self._entries: dict[str, _Entry] = {}
        self._suspects: dict[str, tuple[Job, int]] = {}
        self._seen_alive: dict[str, float] = {}
        self._trial: set[str] = set()
        self._exclusive, self._reading = False, False  # no reads before and during a last trial
        self._claiming = asyncio.Lock()
        self._credit = 0
        self._credited = asyncio.Event()
        self._done: list[Answer] = []
        self._has_answers = asyncio.Event()
        self._warned_at = -_WARN_SECONDS

    async def serve(self, worker: Worker) -> None:
        """See `Source.serve`."""
        self.ready(AHEAD * worker.slots)
        loops = (self._read, self._heartbeat, self._listen, self._send_answers)
        try:
            await asyncio.gather(*(self._forever(loop, worker) for loop in loops))
        finally:
            with contextlib.suppress(*FAILURES):
                await self._client.delete(self._keys.worker(self._name))
            await self._client.aclose()

    def ready(self, count: int) -> None:
        """See `Source.ready`."""
        self._credit += count
        if self._credit > 0:
            self._credited.set()

    def answer(self, answer: Answer) -> None:
        """See `Source.answer`."""
        self._done.append(answer)
        self._has_answers.set()

    # ---- loops

    async def _forever(self, loop: Callable[[Worker], Awaitable[None]], worker: Worker) -> None:
        while True:
            try:
                await loop(worker)
            except ResponseError as error:
                if "NOGROUP" not in str(error):
                    _LOG.warning("Redis: %s", error)
                    await asyncio.sleep(_RETRY_SECONDS)
                with contextlib.suppress(*FAILURES):  # Redis lost its data
                    await self._make_groups()
            except FAILURES as error:
                if time.monotonic() - self._warned_at > _WARN_SECONDS:
                    self._warned_at = time.monotonic()
                    _LOG.warning("Redis is unreachable: %s", error)
                await asyncio.sleep(_RETRY_SECONDS)
            except Exception:  # a dead loop would stop all of this worker's calls
                _LOG.exception("queue loop failed")
                await asyncio.sleep(_RETRY_SECONDS)

    @property
    def _streams(self) -> tuple[str, ...]:
        return self._keys.directed(self._name), self._keys.short, self._keys.long

    async def _make_groups(self) -> None:
        for stream in self._streams:
            await make_group(self._client, stream)

    async def _read(self, worker: Worker) -> None:
        await self._make_groups()
        for stream in self._streams:
            await self._delete_consumers(keys=[stream], args=[GROUP, _CONSUMER_IDLE_MS])
            await self._read_again(worker, stream)
        while True:
            self._reading = False
            await self._credited.wait()
            self._reading = not self._exclusive
            if self._exclusive:
                await self._try_suspects(worker)
                await asyncio.sleep(_EXCLUSIVE_POLL_SECONDS)
                continue
            await self._read_new(worker)

    async def _read_again(self, worker: Worker, stream: str) -> None:
        """Start the jobs of entries that were assigned to this worker in a reply that was lost."""
        async with self._claiming:  # excludes entries being taken over, which must not begin at once
            for _, entries in await self._client.xreadgroup(GROUP, self._name, {stream: "0"}) or ():
                known = {entry.id for entry in self._entries.values()}
                await self._start_jobs(worker, stream, [entry for entry in entries if entry[0] not in known])

    async def _read_new(self, worker: Worker) -> None:
        """Wait for entries and start their jobs. No variable holds them during the next wait: jobs may be large."""
        streams = dict.fromkeys(self._streams, ">")
        found = await self._client.xreadgroup(GROUP, self._name, streams, count=self._credit, block=_BLOCK_MS)
        for stream, entries in found or ():
            await self._start_jobs(worker, stream.decode(), entries)

    async def _heartbeat(self, worker: Worker) -> None:
        """Send heartbeats, renew claims, and take over the jobs of dead workers."""
        while True:
            value = f"{worker.slots} {worker.capacity}"
            await self._client.set(self._keys.worker(self._name), value, ex=ALIVE_SECONDS)
            await self._client.expire(self._keys.directed(self._name), _DIRECTED_SECONDS)
            await self._cancel_orphans(worker)
            for stream in self._streams:
                mine = [entry.id for entry in self._entries.values() if entry.stream == stream]
                if mine:
                    await self._client.xclaim(stream, GROUP, self._name, 0, mine, justid=True)
            if self._credit > 0:
                for stream in self._streams[1:]:
                    async with self._claiming:
                        await self._take_over(stream, self._credit)
            await self._try_suspects(worker)
            await asyncio.sleep(HEARTBEAT_SECONDS)

    async def _cancel_orphans(self, worker: Worker) -> None:
        """Cancel the jobs of dead API processes, whose callers have lost the connection."""
        owners = {entry.owner for entry in self._entries.values()}
        dead = {owner for owner in owners if not await self._client.exists(self._keys.owner(owner))}
        for name, entry in list(self._entries.items()):
            if entry.owner in dead:
                self._cancel(worker, name)
                await self._delete(entry.stream, entry.id)

    async def _listen(self, worker: Worker) -> None:
        async with self._client.pubsub() as channel:
            await channel.subscribe(self._keys.cancel)
            while True:
                message = await channel.get_message(ignore_subscribe_messages=True, timeout=10)
                entry = self._cancel(worker, message["data"].decode()) if message is not None else None
                if entry is not None:
                    await self._client.xack(entry.stream, GROUP, entry.id)

    async def _send_answers(self, worker: Worker) -> None:
        """Write answers as they arrive, with retries."""
        while True:
            await self._has_answers.wait()
            await self._send_done()
            await self._try_suspects(worker)
            if not self._done:
                self._has_answers.clear()

    async def _send_done(self) -> None:
        batch = list(self._done)
        async with self._client.pipeline(transaction=False) as pipeline:
            for answer in batch:
                if (entry := self._entries.get(answer.id)) is not None:
                    keys = [entry.stream, self._keys.answers(entry.owner)]
                    await self._finish(keys=keys, args=[GROUP, entry.id, pack_answer(answer)], client=pipeline)
            if len(pipeline):
                await pipeline.execute()
        for answer in batch:
            self._entries.pop(answer.id, None)
            self._end_trial(answer.id)
        del self._done[: len(batch)]

    # ---- one entry

    async def _start_jobs(self, worker: Worker, stream: str, entries: list[tuple[bytes, dict[bytes, bytes]]]) -> None:
        """Start the jobs of entries with a living owner."""
        jobs: list[tuple[bytes, Job]] = []
        for entry, fields in entries:
            if fields and b"f" in fields:  # states to forget
                await self._delete(stream, entry)
                worker.forget(fields[b"f"].decode().split("\n"))
            elif (job := await self._read_job(stream, entry, fields)) is not None:
                jobs.append((entry, job))
        dead = {owner for owner in {job.owner for _, job in jobs} if not await self._is_alive(owner)}
        for entry, job in jobs:
            if job.owner in dead:
                await self._delete(stream, entry)
                continue
            known = self._entries.get(job.id)
            self._entries[job.id] = _Entry(stream, entry, job.owner)
            if known is not None:  # added again while running: answer the later entry
                await self._delete(known.stream, known.id)
                continue
            if job.expires < time.time():
                self.answer(Answer(job.id, "expired", self._name))
                continue
            self._use_credit()
            worker.start(job)

    async def _is_alive(self, owner: str) -> bool:
        now = time.monotonic()
        if now - self._seen_alive.get(owner, -_OWNER_SECONDS) < _OWNER_SECONDS:
            return True
        if await self._client.exists(self._keys.owner(owner)):
            self._seen_alive[owner] = now
            return True
        self._seen_alive.pop(owner, None)
        return False

    async def _read_job(self, stream: str, entry: bytes, fields: dict[bytes, bytes]) -> Job | None:
        """The job of an entry. An entry without one is deleted; without fields it was already deleted."""
        try:
            return read_job(fields[b"j"])
        except (ValueError, KeyError, TypeError):
            if fields:
                _LOG.warning("entry of %s is not a job: deleted", stream)
            await self._delete(stream, entry)
            return None

    async def _take_over(self, stream: str, count: int) -> None:
        """Claim the entries of dead workers; see `broker` for the blame rules."""
        found = await self._client.xpending_range(stream, GROUP, "-", "+", count, idle=_IDLE_MS)
        holders = {entry["message_id"]: entry["consumer"].decode() for entry in found}
        if not holders:
            return
        trials = {holder: await self._client.get(self._keys.trial(holder)) for holder in set(holders.values())}
        for entry, fields in await self._client.xclaim(stream, GROUP, self._name, _IDLE_MS, list(holders)):
            if (job := await self._read_job(stream, entry, fields)) is None:
                continue
            tried = trials[holders[entry]]
            blamed = tried is None or job.id in tried.decode().split("\n")
            key = self._keys.deaths(job.id)
            deaths = max(1, int(await (self._client.incr(key) if blamed else self._client.get(key)) or 0))
            await self._client.set(key, deaths, ex=3600)
            if deaths >= MAX_DEATHS:
                self._entries[job.id] = _Entry(stream, entry, job.owner)
                message = f"{MAX_DEATHS} workers died while running this call"
                self.answer(Answer(job.id, "failed", self._name, message=message))
            elif job.id not in self._entries:
                self._entries[job.id] = _Entry(stream, entry, job.owner)
                self._suspects[job.id] = job, deaths
                self._use_credit()

    async def _try_suspects(self, worker: Worker) -> None:
        """Start some taken-over jobs if none is on trial; first publish which, in case this worker dies."""
        if self._trial or not self._suspects:
            return
        names = next_trial([(name, deaths) for name, (_, deaths) in self._suspects.items()])
        self._exclusive = self._suspects[names[0]][1] >= LAST_TRIAL_DEATHS
        if self._exclusive and (self._reading or self._entries.keys() - self._suspects.keys()):
            return
        await self._client.set(self._keys.trial(self._name), "\n".join(names), ex=3600)
        if self._trial:  # another loop started one meanwhile
            return
        for name in names:
            if (suspect := self._suspects.pop(name, None)) is not None:
                self._trial.add(name)
                worker.start(suspect[0])

    def _cancel(self, worker: Worker, name: str) -> _Entry | None:
        """Cancel a job. Returns its entry if this worker has it."""
        entry = self._entries.pop(name, None)
        if entry is not None:
            worker.cancel(name)
            self._end_trial(name)
        return entry

    def _end_trial(self, name: str) -> None:
        if self._suspects.pop(name, None) is not None:
            self.ready(1)
        self._trial.discard(name)
        self._exclusive = self._exclusive and bool(self._trial or self._suspects)

    def _use_credit(self) -> None:
        self._credit -= 1
        if self._credit <= 0:
            self._credited.clear()

    async def _delete(self, stream: str, entry: bytes) -> None:
        await self._client.xack(stream, GROUP, entry)
        await self._client.xdel(stream, entry)
