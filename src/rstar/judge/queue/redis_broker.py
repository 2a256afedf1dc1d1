"""The queue in Redis, for workers on many machines; jobs survive restarts of workers and Redis.

Jobs are entries of streams with one consumer group. A worker owns an entry it has read while it renews its claim every
few seconds; the other workers take over the entries of a dead one. One script writes the answer and removes the entry,
and only the first worker to finish gets through it, so every entry is answered once. Each API process reads its own
answer stream. It keeps its pending jobs, and after a Redis outage it adds missing entries again. With persistence
nothing is lost; without it, nothing that a caller still waits for.

Keys: see `rstar.judge.queue.redis_keys`. Bodies: see `rstar.judge.queue.jobs`.

A loop that waits keeps no job in its variables: jobs may be large.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Self

from redis.exceptions import ResponseError

from rstar.errors import SandboxError
from rstar.judge.queue.broker import BusyError, QueueStatus
from rstar.judge.queue.fair_queue import URGENT_SECONDS, FairQueue
from rstar.judge.queue.jobs import Answer, Job, failed_answer, pack_job, read_answer
from rstar.judge.queue.quotas import ClientQuotas
from rstar.judge.queue.redis_keys import (
    ALIVE_SECONDS,
    FAILURES,
    GROUP,
    HEARTBEAT_SECONDS,
    Keys,
    connect,
    is_permanent,
    read_worker,
)

_BLOCK_MS = 1_000
_RETRY_SECONDS = 0.25
_CHECK_SECONDS = 30.0
_PER_PIPELINE = 1_000
_WINDOW = 256
"""Maximum unread entries in Redis. Further jobs wait in this process, where clients take turns."""

_WINDOW_SECONDS = 0.02
_LOAD_SECONDS = 0.5
_MIN_RETRY_SECONDS = 10.0
"""Minimum new deadline, in seconds, of a job that Redis has lost, even if expired: it may have begun."""

_LARGEST_SHARE = 1 / 4
"""Share of Redis's ``maxmemory`` for one job. A larger one could leave no room for answers, and would never end."""

_SMALL = 1 << 20
"""A job of so many bytes waits in any case until Redis has room."""

_SWEEP_SECONDS = 1.0
_TRIM_BYTES = 1 << 16
"""Size of the answers already read that Redis may keep."""

_LOG = logging.getLogger("rstar.judge")


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
        self._largest = 0.0  # size of a job in bytes; 0: not known yet
        self._last_answer: bytes | str = "0"
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
        while running := [task for task in self._tasks if not task.done()]:
            for task in running:  # more than once: the client can lose a cancellation that comes with a reply
                task.cancel()
            await asyncio.wait(running, timeout=_RETRY_SECONDS)
        for pending in list(self._pending.values()):
            pending.future.cancel()
        with contextlib.suppress(*FAILURES):
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
            waiting += len(self._pending) - self._added  # jobs that wait in this process
            return QueueStatus(waiting, running, sum(slots for slots, _ in await self._workers()))
        except FAILURES as error:
            raise SandboxError(f"Redis: {error}") from error

    async def _counts(self) -> tuple[int, int]:
        """Number of unread and of read jobs."""
        waiting = running = 0
        for stream in (self._keys.short, self._keys.long):
            with contextlib.suppress(ResponseError):
                waiting += await self._client.xlen(stream)
                read = (await self._client.xpending(stream, GROUP))["pending"]  # fails before the first worker starts
                waiting, running = waiting - read, running + read
        return waiting, running

    async def _workers(self) -> list[tuple[int, int]]:
        """(slots, capacity) of the living workers."""
        names = [name async for name in self._client.scan_iter(match=self._keys.worker("*"), count=1_000)]
        values = await self._client.mget(names) if names else []
        return [worker for value in values if (worker := read_worker(value)) is not None]

    # ---- loops

    async def _forever(self, loop: Callable[[], Awaitable[None]]) -> None:
        while True:
            try:
                await loop()
            except FAILURES as error:
                if not self._disconnected:
                    _LOG.warning("Redis is unreachable: %s", error)
                self._disconnected = True
            except Exception:  # without this loop every call would wait forever
                _LOG.exception("queue loop failed")
            await asyncio.sleep(_RETRY_SECONDS)

    async def _add(self) -> None:
        while True:
            await self._has_work.wait()
            await self._add_batch()
            if not self._outbox and not self._to_worker:
                self._has_work.clear()

    async def _add_batch(self) -> None:
        """Add the jobs that can be added now. They are this call's alone, so none of them stays in memory here."""
        batch = await self._next_batch()
        if not batch:
            return
        try:
            if not self._largest:
                await self._find_largest()
            async with self._client.pipeline(transaction=False) as pipeline:
                # First: workers drop the jobs of a dead owner.
                pipeline.set(self._keys.owner(self._owner), 1, ex=ALIVE_SECONDS)
                for pending in batch.copy():
                    packed = pack_job(pending.job)
                    if len(packed) <= self._largest:
                        pipeline.xadd(pending.stream, {"j": packed})
                    else:
                        batch.remove(pending)
                        self._fail(pending, SandboxError("the call takes more than a quarter of its maxmemory"))
                _, *added = await pipeline.execute(raise_on_error=False)
                self._record_entries(batch, added)
        except BaseException:
            for pending in batch:
                self._enqueue(pending)
            raise

    async def _find_largest(self) -> None:
        most = (await self._client.info("memory")).get("maxmemory", 0)
        self._largest = max(most * _LARGEST_SHARE, _SMALL) if most else math.inf

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
            if isinstance(entry, Exception) and not is_permanent(entry):
                raise entry
        for pending, entry in zip(batch, entries, strict=True):
            if not isinstance(entry, ResponseError):
                pending.entry = entry
                if pending.future.cancelled():  # while being added
                    self._cancel(pending)
                elif not pending.future.done():
                    self._added += 1
            else:
                self._fail(pending, entry)

    async def _expire(self) -> None:
        """Answer jobs whose deadline passes before a worker has read them."""
        while True:
            await asyncio.sleep(_SWEEP_SECONDS)
            now = time.time() - _SWEEP_SECONDS
            for name in [name for name, pending in self._pending.items() if pending.job.expires < now]:
                await self._expire_job(name)

    async def _expire_job(self, name: str) -> None:
        """Answer a job whose deadline has passed, unless a worker has read it."""
        item = self._pending.get(name)
        if item is None or item.future.done():
            return
        if item.entry is None:
            self._resolve(Answer(item.job.id, "expired"))
        elif not item.read:
            try:
                begun = await self._client.xpending_range(item.stream, GROUP, item.entry, item.entry, 1)
                item.read = bool(begun)
                if not begun and await self._client.xdel(item.stream, item.entry):
                    self._resolve(Answer(item.job.id, "expired"))
            except ResponseError as error:
                if not is_permanent(error):
                    raise
                self._fail(item, error)

    async def _listen(self) -> None:
        """Read answers as they arrive, and trim them from the stream: many together, or after a second without any."""
        stream = self._keys.answers(self._owner)
        size = 0
        while True:
            read = await self._read_answers(stream)
            size += read
            if size and (not read or size > _TRIM_BYTES):
                await self._client.xtrim(stream, minid=self._last_answer, approximate=False)
                size = 0

    async def _read_answers(self, stream: str) -> int:
        """Wait for answers, and resolve them. One that cannot be read is skipped; others must not wait behind it.

        Returns their size in bytes.
        """
        last = {stream: self._last_answer}
        size = 0
        for _, entries in await self._client.xread(last, count=_PER_PIPELINE, block=_BLOCK_MS) or ():
            for entry, fields in entries:
                self._last_answer = entry
                data = fields.get(b"a", b"")
                size += len(data) + 1
                try:
                    self._resolve(read_answer(data))
                except ValueError as error:
                    _LOG.warning("entry %s of %s is not an answer: skipped: %s", entry, stream, error)
                    if (failed := failed_answer(data)) is not None:
                        self._resolve(failed)
        return size

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
            await self._find_largest()
            await self._redirect([pending for pending in self._pending.values() if pending.worker])
            await asyncio.sleep(HEARTBEAT_SECONDS)

    async def _find_lost(self, pending: Iterable[_Pending]) -> None:
        known = [item for item in pending if item.entry is not None]
        for start in range(0, len(known), _PER_PIPELINE):
            some = known[start : start + _PER_PIPELINE]
            pipeline = self._client.pipeline(transaction=False)
            for item in some:
                pipeline.xrange(item.stream, item.entry, item.entry)
            for item, found in zip(some, await pipeline.execute(raise_on_error=False), strict=True):
                if isinstance(found, Exception):
                    if not is_permanent(found):
                        raise found
                    self._fail(item, found)
                elif not found and not item.future.done():
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

    def _fail(self, pending: _Pending, error: Exception) -> None:
        self._resolve(Answer(pending.job.id, "failed", message=f"Redis: {error}"))

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
            count = min(len(self._cancelled), _PER_PIPELINE)
            async with self._client.pipeline(transaction=False) as pipeline:
                for pending in self._cancelled[:count]:
                    pipeline.xdel(pending.stream, pending.entry)
                    pipeline.publish(self._keys.cancel, pending.job.id)
                await pipeline.execute()
            del self._cancelled[:count]
            if not self._cancelled:
                self._cancelling.clear()

    def _run_in_background(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    async def _send_forget(self, states: list[str], worker: str) -> None:
        with contextlib.suppress(*FAILURES):
            if await self._client.exists(self._keys.worker(worker)):
                await self._client.xadd(self._keys.directed(worker), {"f": "\n".join(states)})
