"""The broker between API and workers: queueing, dispatch, and recovery from worker deaths.

`Broker` is the API's interface. `MemoryBroker` keeps the queue in the API process and connects to local workers over a
socket; `rstar.judge.queue.redis_broker` keeps it in Redis, for workers on many machines.

Invariants: every accepted job gets exactly one answer, or its caller cancels its future. Clients take turns (see
`fair`), and no client may occupy all workers (see `shares`).

When a worker dies, any of its jobs may have killed it, so all of them become suspects. Suspects are retried a few at a
time, then one by one if that kills another worker, and the last time on a worker without other jobs. Jobs that run
beside suspects are not blamed for the worker's death.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from rstar.errors import SandboxError
from rstar.judge.queue import frames
from rstar.judge.queue.fair import FairQueue
from rstar.judge.queue.frames import Frames
from rstar.judge.queue.jobs import Answer, Job, pack, read_answer
from rstar.judge.queue.shares import Shares

MOST_DEATHS = 3
"""Worker deaths after which a suspect is answered as ``failed``."""

FIRST_TRIAL = 8
"""Suspects with one death that are tried together; suspects with more deaths are tried one by one."""

LAST_TRIAL = MOST_DEATHS - 1
"""Deaths after which a suspect is tried alone on a worker. If that worker dies, the suspect killed it."""

_SWEEP_SECONDS = 0.25


class BusyError(SandboxError):
    """The queue is full; retry later."""


@dataclass(frozen=True, slots=True)
class QueueStatus:
    """Waiting jobs, running jobs, and slots for concurrent programs."""

    waiting: int
    running: int
    slots: int


def on_trial(suspects: Sequence[tuple[str, int]]) -> list[str]:
    """The suspects, given as (name, deaths), to try together: the first, or several with one death."""
    if not suspects or suspects[0][1] > 1:
        return [name for name, _ in suspects[:1]]
    return [name for name, deaths in suspects if deaths == 1][:FIRST_TRIAL]


class Broker(Protocol):
    """Takes jobs and returns answers. Used as ``async with broker:``."""

    def submit(self, job: Job, prefer: str = "") -> asyncio.Future[Answer]:
        """Queue a job, for the worker `prefer` if possible; cancelling the future cancels the job.

        Raises:
            BusyError: the queue is full.
        """
        ...

    def forget(self, states: list[str], worker: str) -> None:
        """Tell a worker to release these states."""
        ...

    async def load(self) -> QueueStatus:
        """The queue status."""
        ...

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


@dataclass(slots=True, eq=False)
class _Worker:
    link: Frames
    name: str = ""
    slots: int = 0
    places: int = 0  # maximum jobs held, long ones included
    credit: int = 0
    jobs: dict[str, Job] = field(default_factory=dict)
    trial: set[str] = field(default_factory=set)
    own: list[tuple[float, int, Job]] = field(default_factory=list)
    alone: bool = False  # reserved for a last trial

    @property
    def free(self) -> int:
        """Number of jobs it can take now."""
        return 0 if self.alone else self.credit


class MemoryBroker:
    """The queue in this process; see the module docstring.

    Args:
        socket: path of the socket to which workers connect; its folder must be private.
        most_waiting: maximum number of unanswered jobs.
    """

    def __init__(self, socket: Path, most_waiting: int = 1_000_000) -> None:
        self._path, self._most = socket, most_waiting
        self._under_way = Shares(0)
        self._waiting = FairQueue(lambda client: not self._under_way.fits(client))
        self._suspects: dict[str, Job] = {}
        self._futures: dict[str, asyncio.Future[Answer]] = {}
        self._deaths: dict[str, int] = {}
        self._workers: dict[Frames, _Worker] = {}
        self._numbers = itertools.count()
        self._waking = False

    async def __aenter__(self) -> Self:
        """Open the socket."""
        loop = asyncio.get_running_loop()
        self._path.unlink(missing_ok=True)
        self._server = await loop.create_unix_server(lambda: Frames(self._hear, self._lost), str(self._path))
        self._sweeping = loop.create_task(self._sweep())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the socket and cancel all pending futures."""
        self._sweeping.cancel()
        self._server.close()
        for link in list(self._workers):
            link.close()
        for future in list(self._futures.values()):
            future.cancel()

    def submit(self, job: Job, prefer: str = "") -> asyncio.Future[Answer]:
        """See `Broker.submit`."""
        if len(self._futures) >= self._most:
            raise BusyError(f"{len(self._futures)} calls are waiting already")
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._futures[job.id] = future
        future.add_done_callback(lambda done: self._done(job.id, done))
        own = next((worker.own for worker in self._workers.values() if worker.name == prefer), None) if prefer else None
        if own is None:
            self._waiting.push(job)
        else:
            heapq.heappush(own, (job.expires, next(self._numbers), job))
        self._dispatch()
        return future

    def forget(self, states: list[str], worker: str) -> None:
        """See `Broker.forget`."""
        for one in self._workers.values():
            if one.name == worker:
                one.link.send(frames.FORGET, "\n".join(states).encode())

    async def load(self) -> QueueStatus:
        """See `Broker.load`."""
        workers = self._workers.values()
        running = sum(len(worker.jobs) for worker in workers)
        return QueueStatus(len(self._futures) - running, running, sum(worker.slots for worker in workers))

    # ---- handing out

    def _dispatch(self) -> None:
        """Assign jobs to workers, the least busy first."""
        for worker in sorted(self._workers.values(), key=lambda one: len(one.jobs)):
            while worker.free > 0 and worker.own:
                self._give(worker, heapq.heappop(worker.own)[2])
            if worker.credit > 0 and self._suspects and not worker.trial:
                self._try_suspects(worker)
        while self._waiting:
            idlest = max(self._workers.values(), key=lambda one: one.free, default=None)
            if idlest is None or idlest.free <= 0 or (job := self._waiting.pop()) is None:
                return
            self._give(idlest, job)

    def _try_suspects(self, worker: _Worker) -> None:
        """Assign suspects to a worker; for a last trial, once it has no other jobs."""
        names = on_trial([(name, self._deaths[name]) for name in self._suspects])
        last = self._deaths[names[0]] >= LAST_TRIAL
        others = [other for other in self._workers.values() if other is not worker]
        if last and others and all(other.alone for other in others):  # keep one worker for the other jobs
            return
        worker.alone = last
        if last and worker.jobs:
            return
        for name in names:
            self._give(worker, self._suspects.pop(name))
        worker.trial |= worker.jobs.keys() & set(names)  # cancelled ones were not given
        worker.alone = last and bool(worker.trial)

    def _give(self, worker: _Worker, job: Job) -> None:
        future = self._futures.get(job.id)
        if future is None or future.done():  # cancelled or answered meanwhile
            return
        if job.expires < time.time() and job.id not in self._deaths:
            future.set_result(Answer(job.id, "expired"))
            return
        try:
            worker.link.send(frames.JOB, pack(job))
        except ValueError as error:
            future.set_result(Answer(job.id, "invalid", message=f"a call that cannot be sent: {error}"))
            return
        worker.credit -= 1
        worker.jobs[job.id] = job
        self._under_way.add(job.client)

    def _take_back(self, worker: _Worker, name: str) -> bool:
        """Take a job off a worker. Returns whether the worker had it."""
        job = worker.jobs.pop(name, None)
        if job is not None:
            self._under_way.add(job.client, -1)
            self._wake()
        return job is not None

    def _count_places(self) -> None:
        self._under_way.total = sum(worker.places for worker in self._workers.values())
        self._wake()

    def _wake(self) -> None:
        """Dispatch skipped jobs on the next loop iteration."""
        if not self._waking:
            self._waking = True
            asyncio.get_running_loop().call_soon(self._go_on)

    def _go_on(self) -> None:
        self._waking = False
        self._waiting.resume()
        self._dispatch()

    async def _sweep(self) -> None:
        """Answer jobs whose deadline passes while all workers are busy."""
        while True:
            await asyncio.sleep(_SWEEP_SECONDS)
            now = time.time()
            expired = list(self._waiting.expired(now))
            for heap in (worker.own for worker in self._workers.values()):
                while heap and heap[0][0] < now:
                    expired.append(heapq.heappop(heap)[2])
            for job in expired:
                future = self._futures.get(job.id)
                if future is not None and not future.done():
                    future.set_result(Answer(job.id, "expired"))

    def _done(self, name: str, future: asyncio.Future[Answer]) -> None:
        self._futures.pop(name, None)
        self._deaths.pop(name, None)
        self._suspects.pop(name, None)
        if future.cancelled():
            self._waiting.discard(name)
        for worker in self._workers.values() if future.cancelled() else ():
            if self._take_back(worker, name):
                self._acquit(worker, name)
                worker.link.send(frames.CANCEL, name.encode())
        if not self._suspects:
            for worker in self._workers.values():
                worker.alone = worker.alone and bool(worker.trial)

    @staticmethod
    def _acquit(worker: _Worker, name: str) -> None:
        """End the trial of a finished job."""
        if name in worker.trial:
            worker.trial.remove(name)
            worker.alone = worker.alone and bool(worker.trial)

    # ---- what workers say

    def _hear(self, link: Frames, tag: bytes, body: bytes) -> None:
        if tag == frames.HELLO:
            name, slots, places = body.decode().split("\n")
            self._workers[link] = _Worker(link, name, int(slots), int(places))
            self._count_places()
            return
        worker = self._workers[link]
        if tag == frames.READY:
            worker.credit += int(body)
            self._dispatch()
            return
        answer = read_answer(body)
        self._take_back(worker, answer.id)
        self._acquit(worker, answer.id)
        future = self._futures.get(answer.id)
        if future is not None and not future.done():
            future.set_result(answer)

    def _lost(self, link: Frames) -> None:
        """Requeue the jobs of a lost worker."""
        worker = self._workers.pop(link, None)
        if worker is None:
            return
        for _, _, job in worker.own:
            self._waiting.push(job)
        self._count_places()
        for name, job in list(worker.jobs.items()):
            self._take_back(worker, name)
            future = self._futures.get(name)
            if future is None or future.done():
                continue
            deaths = self._deaths.get(name, 0) + (not worker.trial or name in worker.trial)
            self._deaths[name] = max(deaths, 1)  # it had begun, so it no longer expires
            if deaths >= MOST_DEATHS:
                message = f"{MOST_DEATHS} workers died with this call"
                future.set_result(Answer(name, "failed", worker.name, message=message))
            else:
                self._suspects[name] = job
        self._dispatch()
