"""Shared code of the API routes: turn calls into jobs, await the answers, cancel when the caller disconnects."""

from __future__ import annotations

import asyncio
import itertools
import sys
import time
import uuid
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import TypeVar

import fastapi
from fastapi import HTTPException, Request, Response
from pydantic import BaseModel

from rstar.errors import SandboxError
from rstar.judge import wire
from rstar.judge.boot import send_heartbeats
from rstar.judge.queue.broker import Broker, BusyError, QueueStatus
from rstar.judge.queue.jobs import MAX_SHOWN, OUTPUT_BYTES, Answer, Job, Kind
from rstar.judge.queue.quotas import Charge, ClientQuotas
from rstar.judge.server.guard import CHARGE, NoRoomError, take
from rstar.judge.server.metrics import Metrics
from rstar.judge.server.sessions import Session, Sessions
from rstar.judge.server.turns import Turns
from rstar.judge.settings import JudgeSettings
from rstar.sandbox import Limits, memory_for_programs

_EXPIRY_SECONDS = 1.0
_QUICK_SECONDS = 0.05
_SMALL_ANSWER = 4_096
"""Bytes of output that are not charged: the submission's values cover them."""

_MEMORY_SHARE = 6
"""Clients may use a sixth of the programs' memory, a tenth of the machine's."""

T = TypeVar("T")


class Service:
    """State shared by the routes."""

    def __init__(self, broker: Broker, settings: JudgeSettings, owner: str, heartbeat_fd: int) -> None:
        self.broker, self.settings, self.owner, self._heartbeat_fd = broker, settings, owner, heartbeat_fd
        self.memory = ClientQuotas(memory_for_programs() // _MEMORY_SHARE)
        self.sessions = Sessions(ClientQuotas(settings.max_sessions), self.memory, settings.idle_seconds)
        self.metrics = Metrics()
        self.turns = Turns()
        self._numbers = 0

    @asynccontextmanager
    async def lifespan(self, app: fastapi.FastAPI) -> AsyncIterator[None]:
        """Open the broker and run housekeeping and heartbeat while the app is up."""
        async with self.broker:
            tasks = [
                asyncio.create_task(self._expire_sessions()),
                asyncio.create_task(send_heartbeats(self._heartbeat_fd)),
            ]
            try:
                yield
            finally:
                for task in tasks:
                    task.cancel()

    async def _expire_sessions(self) -> None:
        while True:
            await asyncio.sleep(_EXPIRY_SECONDS)
            self.release(self.sessions.expire())

    def release(self, unused: list[tuple[str, str]]) -> None:
        """Let workers forget unused states, given as (worker, state)."""
        for worker in {worker for worker, _ in unused}:
            self.broker.forget([state for holder, state in unused if holder == worker], worker)

    def job(self, submission: wire.Submission, max_wait: float, request: Request) -> Job:
        """The job for a submission, which may wait `max_wait` seconds in the queue."""
        job = self._job(submission.type, submission.solution, submission.limits, max_wait, request)
        job.stdin, job.expected, job.echo = submission.input, submission.expected_output, submission.echo
        job.shown = wire.shown(submission.limits)
        return job

    def jobs(self, batch: wire.Batch, max_wait: float, request: Request) -> list[Job]:
        """The jobs for a batch. The whole reply is held in memory, so the submissions share its output limit."""
        share = MAX_SHOWN // len(batch.submissions)
        jobs = [self.job(submission, max_wait, request) for submission in batch.submissions]
        for job in jobs:
            job.shown = min(job.shown, share)
        return jobs

    async def run_cell(self, session: Session, cell: wire.CellRequest, request: Request) -> tuple[Job, Answer]:
        """Run a cell on the worker with the session's state; if that is lost, once more with the full history.

        The history is sent as a copy, which is read into another; both are charged to the request.
        """
        job = self._job("cell", cell.code, cell.limits, self.settings.long_queue_seconds, request)
        job.state, job.shown = session.state, wire.shown(cell.limits)
        (answer,) = await self.answers([job], request, session.worker)
        if answer.outcome != "lost":
            return job, answer
        job = self._job("cell", cell.code, cell.limits, self.settings.long_queue_seconds, request)
        job.state, job.shown, job.history = session.state, wire.shown(cell.limits), session.cells
        take(request.scope[CHARGE], session.size + session.memory)
        (answer,) = await self.answers([job], request)
        return job, answer

    def _job(self, kind: Kind, code: str, given: wire.CallLimits | None, max_wait: float, request: Request) -> Job:
        self._numbers += 1
        limits = given or wire.CallLimits()
        return Job(
            id=f"{self.owner}-{self._numbers}",
            owner=self.owner,
            kind=kind,
            code=code,
            limits=Limits(
                seconds=limits.seconds or self.settings.seconds,
                memory_mb=limits.memory_mb or self.settings.memory_mb,
                output_bytes=limits.output_bytes or OUTPUT_BYTES,
                values=limits.values,
                in_place=limits.in_place,
            ),
            expires=time.time() + max_wait,
            client="" if request.client is None else f"{request.client.host}:{request.client.port}",
        )

    async def load(self) -> QueueStatus:
        """The broker's queue status."""
        try:
            return await self.broker.load()
        except SandboxError as error:
            raise HTTPException(503, str(error), {"Retry-After": "1"}) from error

    async def answers(self, jobs: Sequence[Job], request: Request, prefer: str = "") -> list[Answer]:
        """The answers to jobs, in order. The jobs are cancelled if the caller disconnects."""
        started = time.perf_counter()
        futures: list[asyncio.Future[Answer]] = []
        try:
            futures += [self._submit(job, request, prefer) for job in jobs]
            _, waiting = await asyncio.wait(futures, timeout=_QUICK_SECONDS)
            if waiting:
                await _while_connected(asyncio.ensure_future(asyncio.wait(waiting)), request)
            answers = [future.result() for future in futures]
        except BusyError as error:
            raise NoRoomError(str(error)) from error
        finally:
            for future in futures:
                future.cancel()
        self.metrics.count(jobs, answers, time.perf_counter() - started)
        return answers

    async def lines(self, jobs: Sequence[Job], batch: wire.Batch, request: Request) -> AsyncIterator[bytes]:
        """Reports as JSON lines, in order of completion; submissions that find the queue full fail."""
        started = time.perf_counter()
        futures = {
            self._submitted(job, request): (job, submission)
            for job, submission in zip(jobs, batch.submissions, strict=True)
        }
        done: asyncio.Queue[asyncio.Future[Answer]] = asyncio.Queue()
        for future in futures:
            future.add_done_callback(done.put_nowait)
        try:
            for _ in futures:
                future = await done.get()
                job, submission = futures[future]
                self.metrics.count([job], [future.result()], time.perf_counter() - started)
                yield report_of(submission, future.result()).model_dump_json().encode() + b"\n"
        finally:
            for future in futures:
                future.cancel()

    def _submitted(self, job: Job, request: Request) -> asyncio.Future[Answer]:
        try:
            return self._submit(job, request)
        except BusyError as error:
            return _resolved(Answer(job.id, "expired", message=str(error)))

    def _submit(self, job: Job, request: Request, prefer: str = "") -> asyncio.Future[Answer]:
        """Submit a job, or answer ``invalid`` if its text cannot be encoded."""
        for name, text in (("program", job.code), ("input", job.stdin), ("expected output", job.expected)):
            try:
                (text or "").encode()
            except UnicodeEncodeError:
                return _resolved(Answer(job.id, "invalid", message=f"lone surrogate (half a character) in the {name}"))
        future = self.broker.submit(job, prefer)
        future.add_done_callback(partial(_charge_answer, request.scope[CHARGE]))
        return future


def _charge_answer(charge: Charge, future: asyncio.Future[Answer]) -> None:
    """Charge the output of an answer to its request, or drop the output if it exceeds the client's share."""
    if future.cancelled() or future.exception() is not None:
        return
    answer = future.result()
    texts = [answer.stdout, answer.stderr, answer.message, *itertools.chain.from_iterable(answer.values)]
    if answer.error is not None:
        texts += answer.error[:2]
    size = sum(map(sys.getsizeof, texts))
    if size > _SMALL_ANSWER and not charge.take(size):
        answer.outcome, answer.stdout, answer.stderr, answer.error, answer.values = "failed", "", "", None, ()
        answer.message = "there is no room for the output: the client's share of memory is used up"


def _resolved(answer: Answer) -> asyncio.Future[Answer]:
    future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
    future.set_result(answer)
    return future


async def _while_connected(work: asyncio.Future[T], request: Request) -> None:
    """Wait for `work`; cancel it and raise `HTTPException` if the caller disconnects."""
    leaving = asyncio.ensure_future(request.receive())
    try:
        while not work.done():
            await asyncio.wait((work, leaving), return_when=asyncio.FIRST_COMPLETED)
            if leaving.done() and not work.done():
                if leaving.result()["type"] == "http.disconnect":
                    work.cancel()
                    raise HTTPException(499, "the caller disconnected")
                leaving = asyncio.ensure_future(request.receive())
    finally:
        leaving.cancel()


def json(content: BaseModel, status: int = 200) -> Response:
    """A JSON response."""
    return Response(content.__pydantic_serializer__.to_json(content), status, media_type="application/json")


def report_of(submission: wire.Submission, answer: Answer) -> wire.Report:
    """The report on a submission."""
    return wire.report(submission.sub_id or str(uuid.uuid4()), answer, wire.shown(submission.limits))
