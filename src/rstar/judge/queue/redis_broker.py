"""The queue in Redis, for workers on many machines; jobs survive restarts of workers and Redis.

Jobs are entries of streams with one consumer group. A worker owns an entry it has read while it renews its claim every
few seconds; the other workers take over the entries of a dead one. One script writes the answer and removes the entry,
and only the first worker to finish gets through it, so every entry is answered once. Each API process reads its own
answer stream. It keeps its pending jobs, and after a Redis outage it adds missing entries again. With persistence
nothing is lost; without it, nothing that a caller still waits for.

Keys: see `Keys`. See `rstar.judge.queue.jobs` for the bodies.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Self

from redis.asyncio import BlockingConnectionPool, Redis
from redis.exceptions import RedisError, ResponseError

from rstar.errors import ConfigError, SandboxError
from rstar.judge.queue.broker import BusyError, QueueStatus
from rstar.judge.queue.fair_queue import URGENT_SECONDS, FairQueue
from rstar.judge.queue.jobs import Answer, Job, pack_job, read_answer
from rstar.judge.queue.quotas import ClientQuotas

GROUP = "workers"
ALIVE_SECONDS = 10
"""A worker or API process without a heartbeat for this long is dead."""

HEARTBEAT_SECONDS = 2.0
_BLOCK_MS = 1_000
_RETRY_SECONDS = 0.25
_CHECK_SECONDS = 30.0
_ANSWERS_KEPT_SECONDS = 600
_PER_PIPELINE = 1_000
_WINDOW = 256
"""Maximum unread entries in Redis. Further jobs wait in this process, where clients take turns."""

_WINDOW_SECONDS = 0.02
_LOAD_SECONDS = 0.5
_MIN_RETRY_SECONDS = 10.0
"""Minimum new deadline, in seconds, of a job that Redis has lost, even if expired: it may have begun."""

_SWEEP_SECONDS = 1.0
_FAILURES = (RedisError, OSError)
_TEMPORARY = re.compile(r"OOM|LOADING|BUSY|READONLY|MISCONF|CLUSTERDOWN|TRYAGAIN|MASTERDOWN|NOREPLICAS")
"""Start of Redis errors that are temporary; permanent refusals start with other words."""
_LOG = logging.getLogger("rstar.judge")


class Keys:
    """The Redis keys of a service.

    Attributes:
        short, long: streams of urgent and of patient jobs.
        cancel: channel for the ids of cancelled jobs.
    """

    def __init__(self, prefix: str = "rstar:judge") -> None:
        self.prefix = prefix
        self.short, self.long, self.cancel = f"{prefix}:jobs:short", f"{prefix}:jobs:long", f"{prefix}:cancel"

    def directed(self, worker: str) -> str:
        """Stream of jobs for one worker and (field ``f``) of states it can forget."""
        return f"{self.prefix}:jobs:for:{worker}"

    def answers(self, owner: str) -> str:
        """Stream of the answers to one API process."""
        return f"{self.prefix}:answers:{owner}"

    def worker(self, name: str) -> str:
        """Slots and capacity of a worker; exists while it lives."""
        return f"{self.prefix}:worker:{name}"

    def owner(self, name: str) -> str:
        """Exists while the API process lives."""
        return f"{self.prefix}:owner:{name}"

    def trial(self, worker: str) -> str:
        """Ids of the suspects a worker is trying, one per line."""
        return f"{self.prefix}:trial:{worker}"

    def deaths(self, job: str) -> str:
        """Number of workers that died with a job."""
        return f"{self.prefix}:deaths:{job}"


def connect(url: str) -> Any:  # the client's types are unions over both of its protocols
    """A client with its own pool. Raises `ConfigError` for an invalid URL."""
    try:
        pool = BlockingConnectionPool.from_url(  # callers wait for a free connection
            url, max_connections=100, timeout=20, socket_connect_timeout=5, socket_timeout=30, health_check_interval=15
        )
        return Redis.from_pool(pool)
    except ValueError as error:
        raise ConfigError(f"the URL of Redis: {error}") from error


async def make_group(client: Any, stream: str) -> None:
    """Create the consumer group of a stream if it is missing."""
    try:
        await client.xgroup_create(stream, GROUP, id="0", mkstream=True)
    except ResponseError as error:
        if "BUSYGROUP" not in str(error):
            raise


@dataclass(slots=True)
class _Pending:
    """An unanswered job and, once added, its stream entry."""

    job: Job
    future: asyncio.Future[Answer]
    stream: str
    worker: str
    entry: bytes | None = None
    read: bool = False
    counted: bool = False


class RedisBroker:
    """The queue in Redis; see `rstar.judge.queue.broker.Broker` and the module docstring.

    Args:
        url: Redis URL.
        owner: unique name of this API process.
        max_waiting: maximum number of unanswered jobs of this process, shared fairly by the clients.
    """

    def __init__(self, url: str, owner: str, max_waiting: int = 1_000_000, keys: Keys | None = None) -> None:
        self._client, self._owner, self._unanswered = connect(url), owner, ClientQuotas(max_waiting)
        self._keys = keys or Keys()
        self._pending: dict[str, _Pending] = {}
        self._running = ClientQuotas(_WINDOW)
        self._outbox = FairQueue(lambda client: not self._running.fits(client))
        self._to_worker: list[_Pending] = []
        self._loading: asyncio.Task[QueueStatus] | None = None
        self._loaded = float("-inf")
        self._added = 0
        self._has_work = asyncio.Event()
        self._cancelled: list[_Pending] = []
        self._cancelling = asyncio.Event()
        self._disconnected = False
        self._tasks: list[asyncio.Task[None]] = []
        self._background: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        """Start the background loops; Redis may become available later."""
        loops: tuple[Callable[[], Awaitable[None]], ...]
        loops = (self._add, self._listen, self._maintain, self._expire, self._cancel_all)
        self._tasks = [asyncio.create_task(self._forever(loop)) for loop in loops]
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop the loops and cancel all pending futures."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for pending in list(self._pending.values()):
            pending.future.cancel()
        with contextlib.suppress(*_FAILURES):
            await self._client.delete(self._keys.owner(self._owner), self._keys.answers(self._owner))
        await self._client.aclose()

    def submit(self, job: Job, prefer: str = "") -> asyncio.Future[Answer]:
        """See `Broker.submit`."""
        if not self._unanswered.take(job.client):
            raise BusyError(f"{len(self._pending)} calls are waiting already")
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        urgent = job.expires - time.time() < URGENT_SECONDS
        stream = self._keys.directed(prefer) if prefer else self._keys.short if urgent else self._keys.long
        pending = self._pending[job.id] = _Pending(job, future, stream, prefer)
        future.add_done_callback(lambda done: self._on_done(pending, done))
        self._enqueue(pending)
        return future

    def forget(self, states: list[str], worker: str) -> None:
        """See `Broker.forget`."""
        self._run_in_background(self._send_forget(states, worker))

    async def load(self) -> QueueStatus:
        """See `Broker.load`. Raises `SandboxError` while Redis is down.

        The status is cached briefly, because each query takes connections that calls need.
        """
        now = time.monotonic()
        if self._loading is None or (self._loading.done() and now - self._loaded > _LOAD_SECONDS):
            self._loading, self._loaded = asyncio.create_task(self._load()), now
        return await asyncio.shield(self._loading)

    async def _load(self) -> QueueStatus:
        try:
            waiting, running = await self._counts()
            return QueueStatus(waiting, running, sum(slots for slots, _ in await self._workers()))
        except _FAILURES as error:
            raise SandboxError(f"Redis: {error}") from error

    async def _counts(self) -> tuple[int, int]:
        """Number of unread and of read jobs."""
        waiting = running = 0
        for stream in (self._keys.short, self._keys.long):
            with contextlib.suppress(ResponseError):
                entries = await self._client.xlen(stream)
                read = (await self._client.xpending(stream, GROUP))["pending"]
                waiting, running = waiting + entries - read, running + read
        return waiting, running

    async def _workers(self) -> list[tuple[int, int]]:
        """(slots, capacity) of the living workers."""
        names = [name async for name in self._client.scan_iter(match=self._keys.worker("*"), count=1_000)]
        values = await self._client.mget(names) if names else []
        pairs = [value.split() for value in values if value]
        return [(int(slots), int(capacity)) for slots, capacity in pairs]

    # ---- loops

    async def _forever(self, loop: Callable[[], Awaitable[None]]) -> None:
        while True:
            try:
                await loop()
            except _FAILURES as error:
                if not self._disconnected:
                    _LOG.warning("Redis is unreachable: %s", error)
            except Exception:  # without this loop every call would wait forever
                _LOG.exception("queue loop failed")
            self._disconnected = True
            await asyncio.sleep(_RETRY_SECONDS)

    async def _add(self) -> None:
        while True:
            await self._has_work.wait()
            if batch := await self._next_batch():
                try:
                    async with self._client.pipeline(transaction=False) as pipeline:
                        # First: workers drop the jobs of a dead owner.
                        pipeline.set(self._keys.owner(self._owner), 1, ex=ALIVE_SECONDS)
                        for pending in batch:
                            pipeline.xadd(pending.stream, {"j": pack_job(pending.job)})
                        _, *added = await pipeline.execute(raise_on_error=False)
                        self._record_entries(batch, added)
                except BaseException:
                    for pending in batch:
                        self._enqueue(pending)
                    raise
            if not self._outbox and not self._to_worker:
                self._has_work.clear()

    async def _next_batch(self) -> list[_Pending]:
        """Take the jobs that can be added now. Redis is queried first, so an outage loses no job."""
        room = _PER_PIPELINE
        if len(self._outbox) and self._added >= _WINDOW:
            room = _WINDOW - (await self._counts())[0]
            if room <= 0 and not self._to_worker:
                await asyncio.sleep(_WINDOW_SECONDS)
        batch, self._to_worker = self._to_worker, []
        while room > 0 and (job := self._outbox.pop()) is not None:
            room -= 1
            pending = self._pending.get(job.id)
            if pending is not None:
                batch.append(pending)
                self._running.add(job.client)
                pending.counted = True
        if room > 0 and not batch and len(self._outbox):  # all waiting clients have enough running
            await asyncio.sleep(_WINDOW_SECONDS)
        return [pending for pending in batch if not pending.future.done()]

    def _record_entries(self, batch: Sequence[_Pending], entries: Sequence[Any]) -> None:
        """Record the entry ids. A job that Redis rejects for its content fails alone; other errors are retried."""
        for entry in entries:
            if isinstance(entry, Exception) and (not isinstance(entry, ResponseError) or _TEMPORARY.match(str(entry))):
                raise entry
        for pending, entry in zip(batch, entries, strict=True):
            if not isinstance(entry, ResponseError):
                pending.entry = entry
                if pending.future.cancelled():  # while being added
                    self._cancel(pending)
                elif not pending.future.done():
                    self._added += 1
            elif not pending.future.done():
                pending.future.set_result(Answer(pending.job.id, "failed", message=f"Redis: {entry}"))

    async def _expire(self) -> None:
        """Answer jobs whose deadline passes before a worker has read them."""
        while True:
            await asyncio.sleep(_SWEEP_SECONDS)
            now = time.time() - _SWEEP_SECONDS
            late = [item for item in self._pending.values() if item.job.expires < now and not item.future.done()]
            for item in late:
                if item.entry is None:
                    item.future.set_result(Answer(item.job.id, "expired"))
                elif not item.read:
                    begun = await self._client.xpending_range(item.stream, GROUP, item.entry, item.entry, 1)
                    item.read = bool(begun)
                    if not begun and await self._client.xdel(item.stream, item.entry) and not item.future.done():
                        item.future.set_result(Answer(item.job.id, "expired"))

    async def _listen(self) -> None:
        """Read answers as they arrive and trim them from the stream."""
        stream = self._keys.answers(self._owner)
        last: bytes | str = "0"
        while True:
            for _, entries in await self._client.xread({stream: last}, count=_PER_PIPELINE, block=_BLOCK_MS) or ():
                for entry, fields in entries:
                    last = entry
                    self._resolve(read_answer(fields[b"a"]))
                await self._client.xtrim(stream, minid=last, approximate=False)

    async def _maintain(self) -> None:
        """Send heartbeats; recover entries lost with Redis or with the worker they were for."""
        checked = time.monotonic()
        while True:
            await self._client.set(self._keys.owner(self._owner), 1, ex=ALIVE_SECONDS)
            if self._disconnected or time.monotonic() - checked > _CHECK_SECONDS:
                await asyncio.sleep(2 * _RETRY_SECONDS)  # answers first
                await self._find_lost(list(self._pending.values()))
                self._disconnected, checked = False, time.monotonic()
            self._running.total = max(_WINDOW, sum(capacity for _, capacity in await self._workers()))
            self._outbox.resume()
            await self._redirect([pending for pending in self._pending.values() if pending.worker])
            await asyncio.sleep(HEARTBEAT_SECONDS)

    async def _find_lost(self, pending: Iterable[_Pending]) -> None:
        known = [item for item in pending if item.entry is not None]
        for start in range(0, len(known), _PER_PIPELINE):
            some = known[start : start + _PER_PIPELINE]
            pipeline = self._client.pipeline(transaction=False)
            for item in some:
                pipeline.xrange(item.stream, item.entry, item.entry)
            for item, found in zip(some, await pipeline.execute(), strict=True):
                if not found and not item.future.done():
                    item.job.expires = max(item.job.expires, time.time() + _MIN_RETRY_SECONDS)
                    self._enqueue(item)

    async def _redirect(self, pending: Iterable[_Pending]) -> None:
        for item in pending:
            if item.entry is not None and not await self._client.exists(self._keys.worker(item.worker)):
                await self._client.xdel(item.stream, item.entry)
                item.worker, item.stream = "", self._keys.short
                self._enqueue(item)

    # ---- one job

    def _enqueue(self, pending: _Pending) -> None:
        self._added -= pending.entry is not None
        pending.entry, pending.read = None, False
        self._stop_counting(pending)
        if pending.worker:
            self._to_worker.append(pending)
        else:
            self._outbox.push(pending.job)
        self._has_work.set()

    def _stop_counting(self, pending: _Pending) -> None:
        if pending.counted:
            pending.counted = False
            self._running.add(pending.job.client, -1)
            self._outbox.resume()

    def _resolve(self, answer: Answer) -> None:
        pending = self._pending.get(answer.id)
        if pending is not None and not pending.future.done():
            pending.future.set_result(answer)

    def _on_done(self, pending: _Pending, future: asyncio.Future[Answer]) -> None:
        self._unanswered.add(pending.job.client, -1)
        self._stop_counting(pending)
        if future.cancelled():
            self._outbox.discard(pending.job.id)
        if self._pending.pop(pending.job.id, None) is not None:
            self._added -= pending.entry is not None
        if future.cancelled() and pending.entry is not None:
            self._cancel(pending)

    def _cancel(self, pending: _Pending) -> None:
        self._cancelled.append(pending)
        self._cancelling.set()

    async def _cancel_all(self) -> None:
        """Delete cancelled entries and notify workers, with retries."""
        while True:
            await self._cancelling.wait()
            batch = self._cancelled[:_PER_PIPELINE]
            async with self._client.pipeline(transaction=False) as pipeline:
                for pending in batch:
                    pipeline.xdel(pending.stream, pending.entry)
                    pipeline.publish(self._keys.cancel, pending.job.id)
                await pipeline.execute()
            del self._cancelled[: len(batch)]
            if not self._cancelled:
                self._cancelling.clear()

    def _run_in_background(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    async def _send_forget(self, states: list[str], worker: str) -> None:
        with contextlib.suppress(*_FAILURES):
            if await self._client.exists(self._keys.worker(worker)):
                await self._client.xadd(self._keys.directed(worker), {"f": "\n".join(states)})
