"""Worker: takes jobs from a source, runs them in its own sandbox, returns the answers.

It requests enough jobs to keep its processors busy. A long job stops counting, up to a bound, because the sandbox runs
it beside the others (see `rstar.sandbox.parent.scheduler`).
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import Protocol

from rstar.judge.queue import frames
from rstar.judge.queue.frames import Frames
from rstar.judge.queue.jobs import Answer, Job, pack_answer, read_job, unsent
from rstar.judge.worker.executor import Executor
from rstar.sandbox import FOREGROUND_SECONDS

AHEAD = 2
"""Jobs requested per slot, so the next job is ready when one ends."""

_RECONNECT_SECONDS = 0.1
_LOG = logging.getLogger("rstar.judge")


class Source(Protocol):
    """Source of a worker's jobs."""

    async def serve(self, worker: Worker) -> None:
        """Call `worker.start`, `cancel` and `forget` as messages arrive, until cancelled."""
        ...

    def ready(self, count: int) -> None:
        """The worker can take `count` more jobs."""
        ...

    def answer(self, answer: Answer) -> None:
        """Return the answer to a job."""
        ...


class Worker:
    """Runs the jobs of a source.

    Args:
        source: source of jobs.
        executor: runs one job.
        slots: concurrent programs.
        background: long programs allowed beside them.

    Attributes:
        capacity: maximum jobs held, prefetched ones included.
    """

    def __init__(self, source: Source, executor: Executor, slots: int, background: int) -> None:
        self._source, self._executor = source, executor
        self.slots, self._free_background = slots, background
        self.capacity = AHEAD * slots + background
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._background: set[str] = set()  # names of long jobs, which have given their slots back
        self._waiting_for_background: dict[str, None] = {}  # names of long jobs that still hold theirs, in order

    async def run(self) -> None:
        """Work until cancelled."""
        try:
            await self._source.serve(self)
        finally:
            await self.cancel_all()

    def start(self, job: Job) -> None:
        """Start a job."""
        if job.id not in self._tasks:
            self._tasks[job.id] = asyncio.create_task(self._run_job(job))

    def cancel(self, name: str) -> None:
        """Cancel a job."""
        if (task := self._tasks.get(name)) is not None:
            # Deferred until the task has begun: a task that never begins would not free its slot.
            asyncio.get_running_loop().call_soon(task.cancel)

    def forget(self, states: list[str]) -> None:
        """Release these states."""
        self._executor.forget(states)

    async def cancel_all(self) -> None:
        """Cancel all jobs and wait until they have ended."""
        await asyncio.sleep(0)  # lets all tasks begin
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _run_job(self, job: Job) -> None:
        # The alarm knows only the name: a job in a reference cycle would stay in memory until a garbage collection.
        alarm = asyncio.get_running_loop().call_later(2 * FOREGROUND_SECONDS, self._move_to_background, job.id)
        try:
            self._source.answer(await self._executor.execute(job))
        finally:
            alarm.cancel()
            del self._tasks[job.id]
            self._give_slot_back(job.id)

    def _move_to_background(self, name: str) -> None:
        """Give the slot of a long job back, now or when there is room in the background."""
        if self._free_background > 0:
            self._free_background -= 1
            self._background.add(name)
            self._source.ready(1)
        else:
            self._waiting_for_background[name] = None

    def _give_slot_back(self, name: str) -> None:
        """Give the slot of a job that has ended back."""
        self._waiting_for_background.pop(name, None)
        if name not in self._background:
            self._source.ready(1)
            return
        self._background.remove(name)
        self._free_background += 1
        if self._waiting_for_background:
            longest = next(iter(self._waiting_for_background))
            del self._waiting_for_background[longest]
            self._move_to_background(longest)


class SocketSource:
    """Jobs from the API process of this machine, which may die and restart."""

    def __init__(self, path: str, name: str) -> None:
        self._path, self._name = path, name
        self._link: Frames | None = None

    async def serve(self, worker: Worker) -> None:
        """See `Source.serve`."""
        loop = asyncio.get_running_loop()
        while True:
            lost = asyncio.Event()
            frames_of = partial(Frames, partial(_on_frame, worker), partial(_set, lost))
            try:
                _, link = await loop.create_unix_connection(frames_of, self._path)
            except OSError:
                await asyncio.sleep(_RECONNECT_SECONDS)
                continue
            link.send(frames.HELLO, f"{self._name}\n{worker.slots}\n{worker.capacity}".encode())
            self._link = link
            self.ready(AHEAD * worker.slots)
            await lost.wait()
            self._link = None
            await asyncio.sleep(_RECONNECT_SECONDS)
            await worker.cancel_all()  # their callers lost the connection too, and will retry

    def ready(self, count: int) -> None:
        """See `Source.ready`."""
        if self._link is not None:
            self._link.send(frames.READY, str(count).encode())

    def answer(self, answer: Answer) -> None:
        """See `Source.answer`."""
        if self._link is not None:
            try:
                self._link.send(frames.ANSWER, pack_answer(answer))
            except ValueError as error:  # too large
                self._link.send(frames.ANSWER, pack_answer(unsent(answer, error)))


def _set(event: asyncio.Event, link: Frames) -> None:
    event.set()


def _on_frame(worker: Worker, link: Frames, tag: bytes, body: bytes) -> None:
    match tag:
        case frames.JOB:
            worker.start(read_job(body))
        case frames.CANCEL:
            worker.cancel(body.decode())
        case frames.FORGET:
            worker.forget(body.decode().split("\n"))
