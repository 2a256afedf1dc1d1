"""The broker between API and workers: queueing, dispatch, and recovery from worker deaths.

`Broker` is the API's interface. `MemoryBroker` keeps the queue in the API process and connects to local workers over a
socket; `rstar.judge.queue.redis_broker` keeps it in Redis, for workers on many machines.

Invariants: every accepted job gets exactly one answer, or its caller cancels its future. Clients take turns (see
`fair_queue`), and no client may occupy all workers (see `quotas`).

When a worker dies, any of its jobs may have killed it, so all of them become suspects. Suspects are retried a few at a
time, then one by one if that kills another worker, and the last time on a worker without other jobs. Jobs that run
beside suspects are not blamed for the worker's death.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, Self

from rstar.errors import SandboxError
from rstar.judge.queue import frames
from rstar.judge.queue.fair_queue import FairQueue
from rstar.judge.queue.frames import Frames
from rstar.judge.queue.jobs import Answer, Job, pack_job, read_answer
from rstar.judge.queue.quotas import ClientQuotas

MAX_DEATHS = 3
"""Worker deaths after which a suspect is answered as ``failed``."""

FIRST_TRIAL_SIZE = 8
"""Suspects with one death that are tried together; suspects with more deaths are tried one by one."""

LAST_TRIAL_DEATHS = MAX_DEATHS - 1
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


def next_trial(suspects: Sequence[tuple[str, int]]) -> list[str]:
    """The suspects, given as (name, deaths), to try together: the first, or several with one death."""
    if not suspects or suspects[0][1] > 1:
        return [name for name, _ in suspects[:1]]
    return [name for name, deaths in suspects if deaths == 1][:FIRST_TRIAL_SIZE]


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

    async def __aexit__(self, *_: object) -> None: ...


@dataclass(slots=True, eq=False)
class _Worker:
    link: Frames
    name: str = ""
    slots: int = 0
    capacity: int = 0  # maximum jobs held, long ones included
    credit: int = 0
    jobs: dict[str, Job] = field(default_factory=dict)
    trial: set[str] = field(default_factory=set)
    exclusive: bool = False  # reserved for a last trial

    @property
    def free(self) -> int:
        """Number of jobs it can take now."""
        return 0 if self.exclusive else self.credit


class MemoryBroker:
    """The queue in this process; see the module docstring.

    Args:
        socket: path of the socket to which workers connect; its folder must be private.
        max_waiting: maximum number of unanswered jobs, shared fairly by the clients.
    """

    def __init__(self, socket: Path, max_waiting: int = 1_000_000) -> None:
        self._path, self._unanswered = socket, ClientQuotas(max_waiting)
        self._running = ClientQuotas(0)
        self._waiting = FairQueue(lambda client: not self._running.fits(client))
        self._suspects: dict[str, Job] = {}
        self._futures: dict[str, asyncio.Future[Answer]] = {}
        self._deaths: dict[str, int] = {}
        self._workers: dict[Frames, _Worker] = {}
        self._waking = False

    async def __aenter__(self) -> Self:
        """Open the socket."""
        loop = asyncio.get_running_loop()
        self._path.unlink(missing_ok=True)
        self._server = await loop.create_unix_server(lambda: Frames(self._on_frame, self._on_lost), str(self._path))
        self._sweeping = loop.create_task(self._sweep())
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close the socket and cancel all pending futures."""
        self._sweeping.cancel()
        self._server.close()
        for link in list(self._workers):
            link.close()
        for future in list(self._futures.values()):
            future.cancel()

    def submit(self, job: Job, prefer: str = "") -> asyncio.Future[Answer]:
        """See `Broker.submit`."""
        if not self._unanswered.take(job.client):
            raise BusyError(f"{len(self._futures)} calls are waiting already")
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._futures[job.id] = future
        future.add_done_callback(lambda done: self._on_done(job, done))
        is_there = prefer and any(worker.name == prefer for worker in self._workers.values())
        self._waiting.push(job, prefer if is_there else "")
        self._dispatch()
        return future

    def forget(self, states: list[str], worker: str) -> None:
        """See `Broker.forget`."""
        for link, known in self._workers.items():
            if known.name == worker:
                link.send(frames.FORGET, "\n".join(states).encode())

    async def load(self) -> QueueStatus:
        """See `Broker.load`."""
        workers = self._workers.values()
        running = sum(len(worker.jobs) for worker in workers)
        return QueueStatus(len(self._futures) - running, running, sum(worker.slots for worker in workers))

    # ---- dispatch

    def _dispatch(self) -> None:
        """Assign jobs to workers, the least busy first."""
        for worker in sorted(self._workers.values(), key=lambda worker: len(worker.jobs)):
            if worker.credit > 0 and self._suspects and not worker.trial:
                self._try_suspects(worker)
        able = list(self._workers.values())
        while self._waiting and able:
            freest = max(able, key=lambda worker: worker.free)
            if freest.free <= 0:
                return
            if (job := self._waiting.pop(freest.name)) is not None:
                self._assign(freest, job)
            else:
                able.remove(freest)  # others may have jobs of their own

    def _try_suspects(self, worker: _Worker) -> None:
        """Assign suspects to a worker; for a last trial, once it has no other jobs."""
        names = next_trial([(name, self._deaths[name]) for name in self._suspects])
        last = self._deaths[names[0]] >= LAST_TRIAL_DEATHS
        others = [other for other in self._workers.values() if other is not worker]
        if last and others and all(other.exclusive for other in others):  # keep one worker for the other jobs
            return
        worker.exclusive = last
        if last and worker.jobs:
            return
        for name in names:
            self._assign(worker, self._suspects.pop(name))
        worker.trial |= worker.jobs.keys() & set(names)  # cancelled ones were not given
        worker.exclusive = last and bool(worker.trial)

    def _assign(self, worker: _Worker, job: Job) -> None:
        future = self._futures.get(job.id)
        if future is None or future.done():  # cancelled or answered meanwhile
            return
        if job.expires < time.time() and job.id not in self._deaths:
            future.set_result(Answer(job.id, "expired"))
            return
        try:
            worker.link.send(frames.JOB, pack_job(job))
        except ValueError as error:
            future.set_result(Answer(job.id, "invalid", message=f"cannot send the call: {error}"))
            return
        worker.credit -= 1
        worker.jobs[job.id] = job
        self._running.add(job.client)

    def _unassign(self, worker: _Worker, name: str) -> bool:
        """Take a job off a worker. Returns whether the worker had it."""
        job = worker.jobs.pop(name, None)
        if job is not None:
            self._running.add(job.client, -1)
            self._wake()
        return job is not None

    def _update_capacity(self) -> None:
        self._running.total = sum(worker.capacity for worker in self._workers.values())
        self._wake()

    def _wake(self) -> None:
        """Dispatch skipped jobs on the next loop iteration."""
        if not self._waking:
            self._waking = True
            asyncio.get_running_loop().call_soon(self._dispatch_again)

    def _dispatch_again(self) -> None:
        self._waking = False
        self._waiting.resume()
        self._dispatch()

    async def _sweep(self) -> None:
        """Answer jobs whose deadline passes while all workers are busy."""
        while True:
            await asyncio.sleep(_SWEEP_SECONDS)
            for job in list(self._waiting.expired(time.time())):
                self._answer(Answer(job.id, "expired"))

    def _on_done(self, job: Job, future: asyncio.Future[Answer]) -> None:
        name = job.id
        self._unanswered.add(job.client, -1)
        self._futures.pop(name, None)
        self._deaths.pop(name, None)
        self._suspects.pop(name, None)
        if future.cancelled():
            self._waiting.discard(name)
        for worker in self._workers.values() if future.cancelled() else ():
            if self._unassign(worker, name):
                self._end_trial(worker, name)
                worker.link.send(frames.CANCEL, name.encode())
        if not self._suspects:
            for worker in self._workers.values():
                worker.exclusive &= bool(worker.trial)

    @staticmethod
    def _end_trial(worker: _Worker, name: str) -> None:
        if name in worker.trial:
            worker.trial.remove(name)
            worker.exclusive &= bool(worker.trial)

    # ---- messages from workers

    def _on_frame(self, link: Frames, tag: bytes, body: bytes) -> None:
        if tag == frames.HELLO:
            name, slots, capacity = body.decode().split("\n")
            self._workers[link] = _Worker(link, name, int(slots), int(capacity))
            self._update_capacity()
            return
        worker = self._workers[link]
        if tag == frames.READY:
            worker.credit += int(body)
            self._dispatch()
            return
        answer = read_answer(body)
        self._unassign(worker, answer.id)
        self._end_trial(worker, answer.id)
        self._answer(answer)

    def _answer(self, answer: Answer) -> None:
        future = self._futures.get(answer.id)
        if future is not None and not future.done():
            future.set_result(answer)

    def _on_lost(self, link: Frames) -> None:
        """Requeue the jobs of a lost worker."""
        worker = self._workers.pop(link, None)
        if worker is None:
            return
        self._waiting.release(worker.name)
        self._update_capacity()
        for name, job in list(worker.jobs.items()):
            self._unassign(worker, name)
            future = self._futures.get(name)
            if future is None or future.done():
                continue
            deaths = self._deaths.get(name, 0) + (not worker.trial or name in worker.trial)
            self._deaths[name] = max(deaths, 1)  # it had begun, so it no longer expires
            if deaths >= MAX_DEATHS:
                message = f"{MAX_DEATHS} workers died while running this call"
                future.set_result(Answer(name, "failed", worker.name, message=message))
            else:
                self._suspects[name] = job
        self._dispatch()
