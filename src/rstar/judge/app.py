"""The HTTP API: requests in, jobs to the broker, replies out. See `rstar.judge.wire` for what they look like.

Failures of programs are results, with HTTP 200. What is not: 401 without the token, 404 for a session that is not (or
no more) there, 409 when two cells ran in one session at once, 422 for a malformed request, 503 when the queue is full.
A caller that goes away takes its calls with it.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import fastapi
from fastapi import HTTPException, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import PlainTextResponse, RedirectResponse, StreamingResponse
from pydantic import BaseModel
from starlette.types import ASGIApp

from rstar.errors import SandboxError
from rstar.judge import wire
from rstar.judge.boot import beat
from rstar.judge.broker import Broker, BusyError, Load
from rstar.judge.guard import LARGEST_BODY, Guard, malformed, other_methods
from rstar.judge.jobs import MOST_SHOWN, OUTPUT_BYTES, Answer, Cell, Job, Kind, pack
from rstar.judge.metrics import Metrics
from rstar.judge.sessions import Session, Sessions
from rstar.judge.settings import JudgeSettings

_HOUSEKEEPING_SECONDS = 1.0
_ATTENTIVE_SECONDS = 0.05
LINES = "application/x-ndjson"
_UNREADABLE: dict[int | str, dict[str, Any]] = {400: {"model": wire.Refusal, "description": "a body that is no text"}}
_GONE: dict[int | str, dict[str, Any]] = {404: {"model": wire.Refusal, "description": "no such session"}}
_FULL: dict[int | str, dict[str, Any]] = {503: {"model": wire.Refusal, "description": "full; come back later"}}
_RACE: dict[int | str, dict[str, Any]] = {409: {"model": wire.Refusal, "description": "two cells at once"}}
_LARGE: dict[int | str, dict[str, Any]] = {413: {"model": wire.Refusal, "description": "too much at once"}}
_FORK = _GONE | _FULL
_BODY = _FULL | _UNREADABLE | _LARGE
_CELL = _FORK | _RACE | _UNREADABLE | _LARGE
T = TypeVar("T")


def create_app(broker: Broker, settings: JudgeSettings, owner: str, pulse: int) -> ASGIApp:
    """The service as an ASGI application, called `owner` in jobs; `broker` is opened and closed with it.

    `pulse` is a descriptor that it writes to as long as it is able to (see `boot.beat`).
    """
    service = _Service(broker, settings, owner, pulse)
    app = fastapi.FastAPI(
        title="rstar judge",
        description="Runs programs in isolation, compares their output, keeps notebook sessions.",
        lifespan=service.lifespan,
    )
    app.add_exception_handler(405, other_methods)
    app.add_exception_handler(RequestValidationError, malformed)  # type: ignore[arg-type]
    _add_calls(app, service)
    _add_sessions(app, service)
    _add_state(app, service)
    return Guard(app, settings)


class _Service:
    """What the routes share."""

    def __init__(self, broker: Broker, settings: JudgeSettings, owner: str, pulse: int) -> None:
        self.broker, self.settings, self.owner, self._pulse = broker, settings, owner, pulse
        self.sessions = Sessions(settings.most_sessions, settings.idle_seconds)
        self.metrics = Metrics()
        self._numbers = 0

    @asynccontextmanager
    async def lifespan(self, app: fastapi.FastAPI) -> AsyncIterator[None]:
        async with self.broker:
            tasks = [asyncio.create_task(self._keep_house()), asyncio.create_task(beat(self._pulse))]
            try:
                yield
            finally:
                for task in tasks:
                    task.cancel()

    async def _keep_house(self) -> None:
        while True:
            await asyncio.sleep(_HOUSEKEEPING_SECONDS)
            self.release(self.sessions.expire())

    def release(self, unused: list[tuple[str, str]]) -> None:
        """Give up states of workers."""
        for worker in {worker for worker, _ in unused}:
            self.broker.forget([state for holder, state in unused if holder == worker], worker)

    def job(self, submission: wire.Submission, life: float, request: Request) -> Job:
        """The job for a submission, which may wait for `life` seconds."""
        job = self._job(submission.type, submission.solution, submission.limits, life, request)
        job.stdin, job.expected, job.echo = submission.input, submission.expected_output, submission.echo
        job.shown = wire.shown(submission.limits)
        return job

    def jobs(self, batch: wire.Batch, life: float, request: Request) -> list[Job]:
        """The jobs for a batch. The reply is held in memory whole, so its submissions share what it may show."""
        share = MOST_SHOWN // len(batch.submissions)
        jobs = [self.job(submission, life, request) for submission in batch.submissions]
        for job in jobs:
            job.shown = min(job.shown, share)
        return jobs

    async def run_cell(self, session: Session, cell: wire.CellRequest, request: Request) -> tuple[Job, Answer]:
        """Run a cell where the state of the session is; where that is lost, once more with all that leads to it."""
        prefer, history = session.worker, tuple[Cell, ...]()
        while True:
            job = self._job("cell", cell.code, cell.limits, self.settings.long_queue_seconds, request)
            job.state, job.history, job.shown = session.state, history, wire.shown(cell.limits)
            job.values = cell.limits.values if cell.limits else 0
            (answer,) = await self.answers([job], request, prefer)
            if answer.outcome != "lost" or history:
                return job, answer
            prefer, history = "", session.cells

    def _job(self, kind: Kind, code: str, asked: wire.CallLimits | None, life: float, request: Request) -> Job:
        self._numbers += 1
        limits = asked or wire.CallLimits()
        return Job(
            id=f"{self.owner}-{self._numbers}",
            owner=self.owner,
            kind=kind,
            code=code,
            seconds=limits.seconds or self.settings.seconds,
            memory_mb=limits.memory_mb or self.settings.memory_mb,
            output_bytes=limits.output_bytes or OUTPUT_BYTES,
            expires=time.time() + life,
            client="" if request.client is None else f"{request.client.host}:{request.client.port}",
        )

    async def load(self) -> Load:
        """How much there is to do."""
        try:
            return await self.broker.load()
        except SandboxError as error:
            raise HTTPException(503, str(error), {"Retry-After": "1"}) from error

    async def answers(self, jobs: Sequence[Job], request: Request, prefer: str = "") -> list[Answer]:
        """The answers to jobs, in order. When the caller goes away, the jobs are cancelled."""
        started = time.perf_counter()
        futures: list[asyncio.Future[Answer]] = []
        try:
            futures += [self._submit(job, prefer) for job in jobs]
            _, waiting = await asyncio.wait(futures, timeout=_ATTENTIVE_SECONDS)
            if waiting:
                await _while_connected(asyncio.ensure_future(asyncio.wait(waiting)), request)
            answers = [future.result() for future in futures]
        except BusyError as error:
            raise HTTPException(503, str(error), {"Retry-After": "1"}) from error
        finally:
            for future in futures:
                future.cancel()
        self.metrics.count(jobs, answers, time.perf_counter() - started)
        return answers

    async def lines(self, jobs: Sequence[Job], submissions: Sequence[wire.Submission]) -> AsyncIterator[bytes]:
        """Reports as lines, in the order in which the jobs are done; submissions that find the queue full fail."""
        started = time.perf_counter()
        futures = {self._line(job): (job, submission) for job, submission in zip(jobs, submissions, strict=True)}
        done: asyncio.Queue[asyncio.Future[Answer]] = asyncio.Queue()
        for future in futures:
            future.add_done_callback(done.put_nowait)
        try:
            for _ in futures:
                future = await done.get()
                job, submission = futures[future]
                self.metrics.count([job], [future.result()], time.perf_counter() - started)
                yield _report(submission, future.result()).model_dump_json().encode() + b"\n"
        finally:
            for future in futures:
                future.cancel()

    def _line(self, job: Job) -> asyncio.Future[Answer]:
        try:
            return self._submit(job)
        except BusyError as error:
            return _settled(Answer(job.id, "expired", message=str(error)))

    def _submit(self, job: Job, prefer: str = "") -> asyncio.Future[Answer]:
        """Have a job done, unless no queue could carry it."""
        for name, text in (("program", job.code), ("input", job.stdin), ("expected output", job.expected)):
            if text is not None and not text.isascii() and not _is_unicode(text):
                message = f"half a character (a lone surrogate) in the {name}"
                return _settled(Answer(job.id, "invalid", message=message))
        return self.broker.submit(job, prefer)


def _settled(answer: Answer) -> asyncio.Future[Answer]:
    future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
    future.set_result(answer)
    return future


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


async def _while_connected(work: asyncio.Future[T], request: Request) -> None:
    """Wait for `work`; raises `HTTPException` when the caller has gone (who will not see it)."""
    leaving = asyncio.ensure_future(request.receive())
    try:
        while not work.done():
            await asyncio.wait((work, leaving), return_when=asyncio.FIRST_COMPLETED)
            if leaving.done() and not work.done():
                if leaving.result()["type"] == "http.disconnect":
                    work.cancel()
                    raise HTTPException(499, "the caller has gone")
                leaving = asyncio.ensure_future(request.receive())
    finally:
        leaving.cancel()


def _add_calls(app: fastapi.FastAPI, service: _Service) -> None:
    short, long = service.settings.queue_seconds, service.settings.long_queue_seconds

    async def one(submission: wire.Submission, request: Request) -> wire.Report:
        (answer,) = await service.answers([service.job(submission, short, request)], request)
        return _report(submission, answer)

    async def many(batch: wire.Batch, request: Request, life: float) -> wire.BatchReports:
        answers = await service.answers(service.jobs(batch, life, request), request)
        results = list(map(_report, batch.submissions, answers))
        return wire.BatchReports(sub_id=batch.sub_id or str(uuid.uuid4()), results=results)

    @app.post("/run", response_model=wire.Report, responses=_BODY, tags=["calls"])
    async def run(submission: wire.Submission, request: Request) -> Response:
        """Run a program; compare its output with what is expected. Waits a few seconds at most for a free worker."""
        return _json(await one(submission, request))

    async def reply(batch: wire.Batch, request: Request, life: float) -> Response:
        if LINES in request.headers.get("accept", ""):
            lines = service.lines(service.jobs(batch, life, request), batch.submissions)
            return StreamingResponse(lines, media_type=LINES)
        return _json(await many(batch, request, life))

    @app.post("/run/batch", response_model=wire.BatchReports, responses=_BODY, tags=["calls"])
    async def run_batch(batch: wire.Batch, request: Request) -> Response:
        """Several programs, answered together. Each waits a few seconds at most for a free worker.

        With `Accept: application/x-ndjson` each result is a line of its own, sent as soon as it is there.
        """
        return await reply(batch, request, short)

    @app.post("/run/long-batch", response_model=wire.BatchReports, responses=_BODY, tags=["calls"])
    async def run_long_batch(batch: wire.Batch, request: Request) -> Response:
        """Several programs, which may wait for an hour. Results as lines: see `/run/batch`."""
        return await reply(batch, request, long)

    @app.post("/judge", response_model=wire.Verdict, responses=_BODY, tags=["calls"])
    async def judge(submission: wire.Submission, request: Request) -> Response:
        """As `/run`, without the output."""
        return _json(wire.verdict(await one(submission, request)))

    @app.post("/judge/batch", response_model=wire.BatchVerdicts, responses=_BODY, tags=["calls"])
    async def judge_batch(batch: wire.Batch, request: Request) -> Response:
        """As `/run/batch`, without the output."""
        return _json(wire.verdicts(await many(batch, request, short)))

    @app.post("/judge/long-batch", response_model=wire.BatchVerdicts, responses=_BODY, tags=["calls"])
    async def judge_long_batch(batch: wire.Batch, request: Request) -> Response:
        """As `/run/long-batch`, without the output."""
        return _json(wire.verdicts(await many(batch, request, long)))


def _add_sessions(app: fastapi.FastAPI, service: _Service) -> None:
    sessions = service.sessions

    def find(name: str) -> Session:
        session = sessions.get(name)
        if session is None:
            raise HTTPException(
                404, f"no session {name!r}: it was deleted, not used for too long, or lost when the API was restarted"
            )
        return session

    def room() -> None:
        if sessions.full:
            raise HTTPException(503, f"there are {len(sessions)} sessions already", {"Retry-After": "10"})

    @app.post("/sessions", response_model=wire.SessionReply, status_code=201, responses=_FULL, tags=["sessions"])
    async def create() -> Response:
        """Begin a session: a fresh interpreter."""
        room()
        return _json(wire.SessionReply(session_id=sessions.add(Session()), cells=0), 201)

    @app.get("/sessions/{session_id}", response_model=wire.SessionReply, responses=_GONE, tags=["sessions"])
    async def show(session_id: str) -> Response:
        """A session."""
        return _json(wire.SessionReply(session_id=session_id, cells=len(find(session_id).cells)))

    @app.post(
        "/sessions/{session_id}/run",
        response_model=wire.CellReply,
        responses=_CELL,
        tags=["sessions"],
    )
    async def run_cell(session_id: str, cell: wire.CellRequest, request: Request) -> Response:
        """Run code in a session, as in a notebook. After a timeout the session is what it was before."""
        before = find(session_id)
        if cell.fork:
            room()
        size = before.size + len(pack(Cell(cell.code.encode(errors="replace").decode())))
        if size > LARGEST_BODY:
            raise HTTPException(413, f"all cells of a session together may have {LARGEST_BODY:,} bytes")
        with sessions.working(session_id):
            job, answer = await service.run_cell(before, cell, request)
        if answer.outcome == "invalid":
            raise HTTPException(400, answer.message)
        if answer.outcome != "done":
            raise HTTPException(503, answer.message or "no worker was free", {"Retry-After": "1"})
        after: str | None = None if cell.fork else session_id
        if answer.lives:
            ran = Cell(job.code, job.seconds, job.memory_mb, job.output_bytes)
            session = Session(job.id, answer.worker, (*before.cells, ran), size)
            if cell.fork:
                after = sessions.add(session)
            elif sessions.get(session_id) is not before:
                service.release([(answer.worker, job.id)])
                raise HTTPException(409, "another cell ran in this session, or it was deleted, at the same time")
            else:
                service.release(sessions.put(session_id, session))
        return _json(_cell_reply(after, cell, answer))

    @app.post(
        "/sessions/{session_id}/fork",
        response_model=wire.SessionReply,
        status_code=201,
        responses=_FORK,
        tags=["sessions"],
    )
    async def fork(session_id: str) -> Response:
        """A second session that is what this one is now."""
        before = find(session_id)
        room()
        name = sessions.add(before)
        return _json(wire.SessionReply(session_id=name, cells=len(before.cells)), 201)

    @app.delete("/sessions/{session_id}", status_code=204, responses=_GONE, tags=["sessions"])
    async def delete(session_id: str) -> Response:
        """End a session."""
        find(session_id)
        service.release(sessions.drop(session_id))
        return Response(status_code=204)


def _cell_reply(session_id: str | None, cell: wire.CellRequest, answer: Answer) -> wire.CellReply:
    shown = wire.shown(cell.limits)
    return wire.CellReply(
        session_id=session_id,
        status=answer.status,
        stdout=answer.stdout[:shown],
        stderr=answer.stderr[:shown],
        seconds=answer.seconds,
        truncated=answer.truncated or max(len(answer.stdout), len(answer.stderr)) > shown,
        exit_code=answer.exit_code,
        signal=answer.signal,
        error=wire.failure(answer),
        values=list(answer.values),
    )


def _add_state(app: fastapi.FastAPI, service: _Service) -> None:
    @app.get("/", include_in_schema=False)
    async def root() -> Response:
        return RedirectResponse("/docs")

    @app.get("/ping", tags=["state"])
    async def ping() -> str:
        """Whether the API is there."""
        return "pong"

    @app.get("/status", response_model=wire.Status, responses=_FULL, tags=["state"])
    async def status() -> Response:
        """How many calls wait, and how many programs can run at a time."""
        load = await service.load()
        return _json(wire.Status(queue=load.waiting, num_workers=load.slots))

    @app.get("/metrics", tags=["state"], response_class=PlainTextResponse)
    async def metrics() -> Response:
        """For Prometheus."""
        text, kind = service.metrics.text(await service.load(), len(service.sessions))
        return Response(text, media_type=kind)


def _json(content: BaseModel, status: int = 200) -> Response:
    return Response(content.__pydantic_serializer__.to_json(content), status, media_type="application/json")


def _report(submission: wire.Submission, answer: Answer) -> wire.Report:
    return wire.report(submission.sub_id or str(uuid.uuid4()), answer, wire.shown(submission.limits))
