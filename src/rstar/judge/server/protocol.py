"""HTTP as far as a stranger can use it up: how many connections, how long requests may take to arrive and replies to be
read, and how large the head of a request may be.

uvicorn bounds none of these with its fast parser. What a request may say once it is here is `guard`'s business.
"""

from __future__ import annotations

import asyncio
import fcntl
import resource
import sys
import termios
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from rstar.judge.queue.shares import Shares

LARGEST_HEAD = 32_768
"""Bytes of a request line and its headers, and of what may follow a body."""

HEAD_SECONDS, BODY_SECONDS = 15.0, 120.0
"""How long head and body of a request may take to arrive."""

READ_SECONDS, LEAST_READ = 60.0, 4 << 20
"""In such a time a client must take so many bytes of what it is sent, or all: what it leaves is kept."""

_OWN_DESCRIPTORS = 200

_LARGE = b"431 Request Header Fields Too Large"
_REFUSAL = b"HTTP/1.1 %s\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


class BoundedProtocol(HttpToolsProtocol):
    """uvicorn's protocol, which closes connections whose requests are too large at the head or do not end.

    Attributes:
        hosts: how many connections each has; made for the first one, when the limit of descriptors is what it will be.
        memory: what clients have in memory; replies that are not read count.
    """

    hosts: Shares | None = None
    memory: Shares | None = None

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._host: str | None = None
        self._unread: asyncio.TimerHandle | None = None
        self._charged = 0
        self._held = 0  # bytes that the parser may keep: of a head, or of what follows a body
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Of `asyncio.Protocol`."""
        super().connection_made(transport)
        if BoundedProtocol.hosts is None:
            most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
            BoundedProtocol.hosts = Shares(most - _OWN_DESCRIPTORS)
        host = "" if self.client is None else self.client[0]
        if not BoundedProtocol.hosts.take(host):
            self._refuse(b"503 Service Unavailable")
            return
        self._host = host
        self._expect_within(HEAD_SECONDS)

    def connection_lost(self, error: Exception | None) -> None:
        """Of `asyncio.Protocol`."""
        self._cancel_deadline()
        self.resume_writing()
        if BoundedProtocol.hosts is not None and self._host is not None:
            BoundedProtocol.hosts.add(self._host, -1)
        super().connection_lost(error)

    def pause_writing(self) -> None:
        """Of `asyncio.Protocol`: the client does not read."""
        super().pause_writing()
        self._expect_reading()

    def resume_writing(self) -> None:
        """Of `asyncio.Protocol`."""
        self._charge(0)
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None
        super().resume_writing()

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

    def _expect_reading(self) -> None:
        """Look in a while whether the client has taken some of what waits for it; else it gets no more."""
        before = self._left()
        self._charge(self.transport.get_write_buffer_size())

        def look() -> None:
            if self._left() <= max(0, before - LEAST_READ):
                self._expect_reading()
            else:
                self.transport.abort()

        self._unread = self.loop.call_later(READ_SECONDS, look)

    def _charge(self, size: int) -> None:
        if BoundedProtocol.memory is not None:
            client = "" if self.client is None else "{}:{}".format(*self.client)
            BoundedProtocol.memory.add(client, size - self._charged)
            self._charged = size

    def _left(self) -> int:
        """Bytes that the client has not taken: here, and in the kernel, which tells of room only when there is much."""
        there = fcntl.ioctl(self.transport.get_extra_info("socket").fileno(), termios.TIOCOUTQ, bytes(4))
        return self.transport.get_write_buffer_size() + int.from_bytes(there, sys.byteorder)

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
