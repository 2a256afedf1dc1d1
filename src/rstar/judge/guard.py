"""What requests meet before they reach the routes, and refusals in the interface's own terms."""

from __future__ import annotations

import json

from fastapi import HTTPException, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.routing import Match
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rstar.judge.settings import JudgeSettings, allowed

OPEN_PATHS = frozenset({"/ping"})
"""What needs no token."""

LARGEST_BODY = 32 << 20
"""Bytes of a request, which is held in memory, in the queue and on every connection."""

_TOO_LARGE = f"a request may have {LARGEST_BODY:,} bytes; send several"
_MOST_ERRORS = 20
_LONGEST_MESSAGE = 500
_LONGEST_PLACE, _DEEPEST_PLACE = 100, 8


async def other_methods(request: Request, error: Exception) -> Response:
    """405 with all methods of the path: the framework names those of one route."""
    matching = (route for route in request.app.routes if route.matches(dict(request.scope))[0] != Match.NONE)
    methods = sorted({method for route in matching for method in getattr(route, "methods", ())})
    return JSONResponse({"detail": "Method Not Allowed"}, 405, {"Allow": ", ".join(methods)})


async def malformed(_: Request, error: RequestValidationError) -> Response:
    """422 with what is wrong and where. What was sent is not sent back: it may be large, or no text at all."""
    errors = error.errors()
    detail = [
        {
            "type": found["type"],
            "loc": [part if isinstance(part, int) else part[:_LONGEST_PLACE] for part in found["loc"][:_DEEPEST_PLACE]],
            "msg": found["msg"][:_LONGEST_MESSAGE],
        }
        for found in errors[:_MOST_ERRORS]
    ]
    if len(errors) > _MOST_ERRORS:
        more = f"{len(errors) - _MOST_ERRORS:,} more errors"
        detail.append({"type": "more", "loc": [], "msg": more})
    return Response(json.dumps({"detail": detail}), 422, media_type="application/json")


class Guard:
    """Lets requests pass that have the token and are of a reasonable size."""

    def __init__(self, app: ASGIApp, settings: JudgeSettings) -> None:
        self._app, self._settings = app, settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Of ASGI."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        if self._settings.token is not None and scope["path"] not in OPEN_PATHS:
            header = headers.get(b"authorization", b"").decode("latin-1")
            if not allowed(self._settings, header):
                detail = "this is not the token" if header else "a bearer token is needed"
                refusal = JSONResponse({"detail": detail}, 401, {"WWW-Authenticate": "Bearer"})
                await refusal(scope, receive, send)
                return
        if int(headers.get(b"content-length", b"0")) > LARGEST_BODY:  # the parser lets only numbers pass
            await JSONResponse({"detail": _TOO_LARGE}, 413, {"Connection": "close"})(scope, receive, send)
            return
        await self._app(scope, _limited(receive), send)


def _limited(receive: Receive) -> Receive:
    """`receive`, up to the largest body."""
    size = 0

    async def read() -> Message:
        nonlocal size
        message = await receive()
        size += len(message.get("body", b""))
        if size > LARGEST_BODY:
            raise HTTPException(413, _TOO_LARGE)
        return message

    return read
