"""Request checks in front of the routes, and error replies in the interface's format.

Parsing a request blocks the event loop, so large requests take turns. The memory of a request and of its answers is
charged to its client until all is sent; `quotas` keeps one client from crowding out the others.
"""

from __future__ import annotations

import json
import re

from fastapi import HTTPException, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.routing import Match
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rstar.judge.queue.quotas import Charge, ClientQuotas
from rstar.judge.server.turns import Turns
from rstar.judge.settings import JudgeSettings, allowed

CHARGE = "rstar.charge"
"""Key of the scope for the memory that a request holds, a `Charge`."""

OPEN_PATHS = frozenset({"/ping"})
"""Paths that need no token."""

MAX_BODY = 32 << 20
"""Maximum request size in bytes; a request is held in memory, in the queue and on every connection."""

MAX_VALUES = 500_000
"""Maximum JSON values per request. Parsing small ones takes thirty times their bytes and blocks other requests."""

VALUE_BYTES = 1_000
"""Memory per JSON value between text and job. A call has four or five values."""

_BYTE_COPIES, _TEXT_COPIES = 2, 2
"""Copies of a body while its calls wait and run: bytes as received and as sent to a worker, text here and there."""

_ASTRAL_LEADS = tuple(bytes([lead]) for lead in range(0xF0, 0xF5))
_SURROGATE = re.compile(rb"\\u[dD][89abAB]")
_ESCAPE = b"\\u"

_QUICK_BYTES, _QUICK_VALUES = 65_536, 40
"""A request up to this size is parsed without waiting for a turn."""

_NO_MEMORY = "the request takes more memory than this service has for all requests; send several requests"
_TOO_LARGE = f"a request may have at most {MAX_BODY:,} bytes; send several requests"
_TOO_MANY = f"a request may have at most {MAX_VALUES:,} JSON values; send several requests"
_NOT_UTF8 = "expected JSON in UTF-8"
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+("|\\?)', re.DOTALL)
"""A JSON string, possibly incomplete. Group 1 is its end: a quote, nothing, or half an escape."""

_LONGEST_MESSAGE = 500
_MAX_PART, _MAX_DEPTH = 100, 8


async def other_methods(request: Request, error: Exception) -> Response:
    """405 with all methods of the path; the framework lists only those of one route."""
    matching = (route for route in request.app.routes if route.matches(dict(request.scope))[0] != Match.NONE)
    methods = sorted({method for route in matching for method in getattr(route, "methods", ())})
    return JSONResponse({"detail": "Method Not Allowed"}, 405, {"Allow": ", ".join(methods)})


async def malformed(_: Request, error: RequestValidationError) -> Response:
    """422 with the errors and their locations, without the input, which may be large or not text."""
    detail = [
        {
            "type": found["type"],
            "loc": [part if isinstance(part, int) else part[:_MAX_PART] for part in found["loc"][:_MAX_DEPTH]],
            "msg": found["msg"][:_LONGEST_MESSAGE],
        }
        for found in error.errors()
    ]
    return Response(json.dumps({"detail": detail}), 422, media_type="application/json")


class Guard:
    """ASGI middleware that checks token, size and available memory.

    Attributes:
        memory: bytes charged to clients.
    """

    def __init__(self, app: ASGIApp, settings: JudgeSettings, memory: ClientQuotas, turns: Turns) -> None:
        self._app, self._settings, self.memory, self._turns = app, settings, memory, turns

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check a request, then call the application."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        if self._settings.token is not None and scope["path"] not in OPEN_PATHS:
            header = headers.get(b"authorization", b"").decode("latin-1")
            if not allowed(self._settings, header):
                detail = "wrong token" if header else "a bearer token is required"
                # Closed, or the body would be received and parsed for nothing.
                refusal = JSONResponse({"detail": detail}, 401, {"WWW-Authenticate": "Bearer", "Connection": "close"})
                await refusal(scope, receive, send)
                return
        if int(headers.get(b"content-length", b"0")) > MAX_BODY:  # the parser admits only numbers
            await JSONResponse({"detail": _TOO_LARGE}, 413, {"Connection": "close"})(scope, receive, send)
            return
        client = "" if scope["client"] is None else "{}:{}".format(*scope["client"])
        charge = scope[CHARGE] = Charge(self.memory, client)
        try:
            await self._app(scope, _Body(receive, charge, self._turns).read, send)
        finally:
            charge.release()


class NoRoomError(HTTPException):
    """A request that exceeds its client's share, or for which there is no room: 503, retry after some seconds."""

    def __init__(self, detail: str, seconds: int = 1) -> None:
        super().__init__(503, detail, {"Retry-After": str(seconds)})


def take(charge: Charge, size: int) -> None:
    """Charge `size` bytes of memory to a request.

    Raises:
        HTTPException: they exceed what there is for all clients.
        NoRoomError: they exceed the client's share.
    """
    if charge.amount + size > charge.total:
        raise HTTPException(413, _NO_MEMORY)
    if not charge.take(size):
        raise NoRoomError("the client's share of memory is used up")


class _Body:
    """The body of a request, bounded in size and number of values."""

    def __init__(self, receive: Receive, charge: Charge, turns: Turns) -> None:
        self._receive, self._charge, self._turns = receive, charge, turns
        self._size, self._values, self._width, self._charged = 0, ValueCount(), Width(), 0

    async def read(self) -> Message:
        """Receive the next ASGI message."""
        message = await self._receive()
        piece = message.get("body", b"")
        self._size += len(piece)
        if self._size > MAX_BODY:
            raise HTTPException(413, _TOO_LARGE)
        if b"\0" in piece:  # UTF-16, whose values cannot be counted
            raise HTTPException(400, _NOT_UTF8)
        if (values := self._values.add(piece)) > MAX_VALUES:
            raise HTTPException(413, _TOO_MANY)
        if piece:
            copies = _BYTE_COPIES + _TEXT_COPIES * self._width.add(piece)
            more = copies * self._size + VALUE_BYTES * values - self._charged
            take(self._charge, more)
            self._charged += more
        is_last = message["type"] == "http.request" and not message.get("more_body", False)
        if is_last and (self._size > _QUICK_BYTES or values > _QUICK_VALUES):
            await self._turns.wait()  # what follows is parsing
        return message


class ValueCount:
    """Counts the values of a JSON text in pieces: every value but the first follows a bracket, brace or comma.

    An empty list or object counts twice.
    """

    def __init__(self) -> None:
        self._count, self._open = 1, b""

    def add(self, piece: bytes) -> int:
        """Add a piece. Returns the count so far."""
        text, end = self._open + piece, 0
        self._open = b""
        for string in _STRING.finditer(text):
            self._count += _separators(text[end : string.start()])
            end = string.end()
            if string[1] != b'"':  # continues in the next piece
                self._open = b'"' + string[1]
        self._count += _separators(text[end:])
        return self._count


class Width:
    """Bytes per character of a JSON text in pieces, at most: Python stores a text as wide as its widest character."""

    def __init__(self) -> None:
        self._width, self._open = 1, b""

    def add(self, piece: bytes) -> int:
        """Add a piece. Returns the width so far."""
        if self._width < 4:
            text = self._open + piece  # an escape may continue in the next piece
            self._open = text[-3:]
            if not text.isascii():
                self._width = 4 if any(lead in text for lead in _ASTRAL_LEADS) else 2
            if _ESCAPE in text:
                self._width = 4 if _SURROGATE.search(text) else max(self._width, 2)
        return self._width


def _separators(text: bytes) -> int:
    return text.count(b",") + text.count(b"[") + text.count(b"{")
