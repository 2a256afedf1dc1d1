"""The HTTP API: requests in, jobs to the broker, replies out. `rstar.judge.wire` defines their format.

A failed program is a result, with HTTP 200. Errors: 401 without the token, 404 for a session that does not exist (any
more), 409 when two cells ran in one session at once, 422 for a malformed request, 503 when the queue is full. When a
caller disconnects, its calls are cancelled.
"""

from __future__ import annotations

import uuid

import fastapi
from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import PlainTextResponse, RedirectResponse, StreamingResponse

from rstar.judge import wire
from rstar.judge.queue.broker import Broker
from rstar.judge.server.calls import Service, json, report_of
from rstar.judge.server.guard import Guard, malformed, other_methods
from rstar.judge.server.session_routes import add_sessions
from rstar.judge.settings import JudgeSettings

LINES = "application/x-ndjson"
_QUICK_ANSWERS = 10
"""A reply with more answers waits for its turn."""

_BODY = wire.FULL | wire.UNREADABLE | wire.LARGE


def create_app(broker: Broker, settings: JudgeSettings, owner: str, heartbeat_fd: int) -> Guard:
    """The service as an ASGI application; it opens and closes `broker`.

    `owner` is its name in jobs; `heartbeat_fd` is the descriptor for its heartbeat (see `boot.send_heartbeats`).
    """
    service = Service(broker, settings, owner, heartbeat_fd)
    app = fastapi.FastAPI(
        title="rstar judge",
        description="Runs programs in isolation, compares their output, and holds notebook sessions.",
        lifespan=service.lifespan,
    )
    app.add_exception_handler(405, other_methods)
    app.add_exception_handler(RequestValidationError, malformed)  # type: ignore[arg-type]
    _add_calls(app, service)
    add_sessions(app, service)
    _add_state(app, service)
    return Guard(app, settings, service.memory, service.turns)


def _add_calls(app: fastapi.FastAPI, service: Service) -> None:
    short, long = service.settings.queue_seconds, service.settings.long_queue_seconds

    async def run_one(submission: wire.Submission, request: Request) -> wire.Report:
        (answer,) = await service.answers([service.job(submission, short, request)], request)
        return report_of(submission, answer)

    async def run_many(batch: wire.Batch, request: Request, max_wait: float) -> wire.BatchReports:
        answers = await service.answers(service.jobs(batch, max_wait, request), request)
        if len(answers) > _QUICK_ANSWERS:
            await service.turns.wait()
        results = list(map(report_of, batch.submissions, answers))
        return wire.BatchReports(sub_id=batch.sub_id or str(uuid.uuid4()), results=results)

    @app.post("/run", response_model=wire.Report, responses=_BODY, tags=["calls"])
    async def run(submission: wire.Submission, request: Request) -> Response:
        """Run a program and compare its output with the expected one. Waits at most a few seconds for a free worker."""
        return json(await run_one(submission, request))

    async def reply(batch: wire.Batch, request: Request, max_wait: float) -> Response:
        if LINES in request.headers.get("accept", ""):
            lines = service.lines(service.jobs(batch, max_wait, request), batch, request)
            return StreamingResponse(lines, media_type=LINES)
        return json(await run_many(batch, request, max_wait))

    @app.post("/run/batch", response_model=wire.BatchReports, responses=_BODY, tags=["calls"])
    async def run_batch(batch: wire.Batch, request: Request) -> Response:
        """Run several programs and answer them together. Each waits at most a few seconds for a free worker.

        With `Accept: application/x-ndjson`, each result is sent as a separate line as soon as it is ready.
        """
        return await reply(batch, request, short)

    @app.post("/run/long-batch", response_model=wire.BatchReports, responses=_BODY, tags=["calls"])
    async def run_long_batch(batch: wire.Batch, request: Request) -> Response:
        """Run several programs, which may wait up to an hour. For results as separate lines, see `/run/batch`."""
        return await reply(batch, request, long)

    @app.post("/judge", response_model=wire.Verdict, responses=_BODY, tags=["calls"])
    async def judge(submission: wire.Submission, request: Request) -> Response:
        """Same as `/run`, without the output."""
        return json(wire.verdict(await run_one(submission, request)))

    @app.post("/judge/batch", response_model=wire.BatchVerdicts, responses=_BODY, tags=["calls"])
    async def judge_batch(batch: wire.Batch, request: Request) -> Response:
        """Same as `/run/batch`, without the output."""
        return json(wire.verdicts(await run_many(batch, request, short)))

    @app.post("/judge/long-batch", response_model=wire.BatchVerdicts, responses=_BODY, tags=["calls"])
    async def judge_long_batch(batch: wire.Batch, request: Request) -> Response:
        """Same as `/run/long-batch`, without the output."""
        return json(wire.verdicts(await run_many(batch, request, long)))


def _add_state(app: fastapi.FastAPI, service: Service) -> None:
    @app.get("/", include_in_schema=False)
    async def root() -> Response:
        return RedirectResponse("/docs")

    @app.get("/ping", tags=["state"])
    async def ping() -> str:
        """Check that the API is up."""
        return "pong"

    @app.get("/status", response_model=wire.Status, responses=wire.FULL, tags=["state"])
    async def status() -> Response:
        """Number of waiting calls and of programs that can run at a time."""
        load = await service.load()
        return json(wire.Status(queue=load.waiting, num_workers=load.slots))

    @app.get("/metrics", tags=["state"], response_class=PlainTextResponse)
    async def metrics() -> Response:
        """Metrics for Prometheus."""
        text, kind = service.metrics.text(await service.load(), len(service.sessions))
        return Response(text, media_type=kind)
