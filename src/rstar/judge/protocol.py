"""HTTP as far as a stranger can use it up: how long a request may take to arrive, and how large its head may be.

uvicorn bounds neither with its fast parser. What a request may say once it is here is `guard`'s business.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

LARGEST_HEAD = 32_768
"""Bytes of a request line and its headers, and of what may follow a body."""

HEAD_SECONDS, BODY_SECONDS = 15.0, 120.0
"""How long head and body of a request may take to arrive."""

_LARGE = b"431 Request Header Fields Too Large"
_REFUSAL = b"HTTP/1.1 %s\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


class BoundedProtocol(HttpToolsProtocol):
    """uvicorn's protocol, which closes connections whose requests are too large at the head or do not end."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._held = 0  # bytes that the parser may keep: of a head, or of what follows a body
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Of `asyncio.Protocol`."""
        super().connection_made(transport)
        self._expect_within(HEAD_SECONDS)

    def connection_lost(self, error: Exception | None) -> None:
        """Of `asyncio.Protocol`."""
        self._cancel_deadline()
        super().connection_lost(error)

    def data_received(self, data: bytes) -> None:
        """Of `asyncio.Protocol`. A head is looked at in pieces, or one header could be as large as what has come."""
        for start in range(0, len(data), LARGEST_HEAD):
            if self.transport.is_closing():
                return
            piece = data[start : start + LARGEST_HEAD]
            self._held += len(piece)
            super().data_received(piece)
            if self._held > LARGEST_HEAD:
                self._refuse(_LARGE)

    def on_message_begin(self) -> None:
        """Of the parser."""
        super().on_message_begin()
        self._expect_within(HEAD_SECONDS)

    def on_headers_complete(self) -> None:
        """Of the parser."""
        self._held = 0
        if len(self.url) + sum(len(name) + len(value) + len(b": \r\n") for name, value in self.headers) > LARGEST_HEAD:
            self._refuse(_LARGE)
            return
        self._expect_within(BODY_SECONDS)
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Of the parser."""
        self._held = 0
        if not self.transport.is_closing():  # refused
            super().on_body(body)

    def on_message_complete(self) -> None:
        """Of the parser."""
        self._held = 0
        self._cancel_deadline()
        if not self.transport.is_closing():
            super().on_message_complete()

    def _expect_within(self, seconds: float) -> None:
        self._cancel_deadline()
        self._deadline = self.loop.call_later(seconds, self._is_late, seconds)

    def _cancel_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _is_late(self, seconds: float) -> None:
        if self.flow.read_paused:  # it is we who do not read: the request before is not answered yet
            self._expect_within(seconds)
        else:
            self._refuse(b"408 Request Timeout")

    def _refuse(self, status: bytes) -> None:
        if not self.transport.is_closing():
            self.transport.write(_REFUSAL % status)
            self.transport.close()
