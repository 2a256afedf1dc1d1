"""Routes for sessions: notebooks that persist between calls."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import fastapi
from fastapi import HTTPException, Request, Response

from rstar.judge import wire
from rstar.judge.queue.jobs import Cell
from rstar.judge.server.calls import Service, json
from rstar.judge.server.guard import MAX_BODY
from rstar.judge.server.sessions import Session

_GONE: dict[int | str, dict[str, Any]] = {404: {"model": wire.Refusal, "description": "no such session"}}
_RACE: dict[int | str, dict[str, Any]] = {409: {"model": wire.Refusal, "description": "two cells ran at the same time"}}
_CREATED: dict[str, Any] = {"status_code": 201, "tags": ["sessions"]}
_FORK = _GONE | wire.FULL
_CELL = _FORK | _RACE | wire.UNREADABLE | wire.LARGE


def add_sessions(app: fastapi.FastAPI, service: Service) -> None:
    """Add the session routes."""
    sessions = service.sessions

    def find(name: str, *, use: bool = True) -> Session:
        session = sessions.get(name, use=use)
        if session is None:
            raise HTTPException(404, f"no session {name!r}: it was deleted, expired, or lost in a restart of the API")
        return session

    @app.post("/sessions", response_model=wire.SessionReply, responses=wire.FULL, **_CREATED)
    async def create(request: Request) -> Response:
        """Create a session with a fresh interpreter."""
        session = Session(host=_host(request))
        with sessions.reserve(session.host, 1, 0):
            name = sessions.add(session)
        return json(wire.SessionReply(session_id=name, cells=0), 201)

    @app.get("/sessions/{session_id}", response_model=wire.SessionReply, responses=_GONE, tags=["sessions"])
    async def show(session_id: str) -> Response:
        """Show a session. This does not reset its idle time."""
        return json(wire.SessionReply(session_id=session_id, cells=len(find(session_id, use=False).cells)))

    @app.post("/sessions/{session_id}/run", response_model=wire.CellReply, responses=_CELL, tags=["sessions"])
    async def run_cell(session_id: str, cell: wire.CellRequest, request: Request) -> Response:
        """Run code in a session, as in a notebook. A timeout leaves the session unchanged."""
        before = find(session_id, use=False)
        ran = Cell(cell.code)
        size, more = before.size + ran.size, ran.memory
        if size > MAX_BODY:
            raise HTTPException(413, f"the cells of a session may total at most {MAX_BODY:,} bytes")
        host, memory = _host(request) if cell.fork else before.host, before.memory + more
        room = (1, memory) if cell.fork else (0, more)
        with sessions.reserve(host, *room):
            with sessions.in_use(session_id):
                job, answer = await service.run_cell(before, cell, request)
            if answer.outcome == "invalid":
                raise HTTPException(400, answer.message)
            if answer.outcome != "done":
                raise HTTPException(503, answer.message or "no worker was free", {"Retry-After": "1"})
            after: str | None = None if cell.fork else session_id
            if answer.lives:
                ran = Cell(job.code, job.limits, answer.status)
                session = Session(job.id, answer.worker, (*before.cells, ran), size, memory, host)
                if cell.fork:
                    after = sessions.add(session)
                elif sessions.get(session_id) is not before:
                    service.release([(answer.worker, job.id)])
                    raise HTTPException(409, "meanwhile, another cell ran in this session, or the session was deleted")
                else:
                    service.release(sessions.put(session_id, session))
        fields = wire.run_fields(answer, answer.stdout, wire.shown(cell.limits))
        return json(wire.CellReply(session_id=after, seconds=answer.seconds, values=list(answer.values), **fields))

    @app.post("/sessions/{session_id}/fork", response_model=wire.SessionReply, responses=_FORK, **_CREATED)
    async def fork(session_id: str, request: Request) -> Response:
        """Copy a session in its current state."""
        before = replace(find(session_id, use=False), host=_host(request))
        with sessions.reserve(before.host, 1, before.memory):
            name = sessions.add(before)
        find(session_id)  # counts as use, now that it is not refused
        return json(wire.SessionReply(session_id=name, cells=len(before.cells)), 201)

    @app.delete("/sessions/{session_id}", status_code=204, responses=_GONE, tags=["sessions"])
    async def delete(session_id: str) -> Response:
        """End a session."""
        find(session_id)
        service.release(sessions.drop(session_id))
        return Response(status_code=204)


def _host(request: Request) -> str:
    return "" if request.client is None else request.client.host
