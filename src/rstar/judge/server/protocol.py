"""HTTP protocol limits: connections per host, time to send a request and to read a reply, size of the request head.

uvicorn bounds none of these with its fast parser. `guard` checks the body.
"""

from __future__ import annotations

import asyncio
import fcntl
import resource
import sys
import termios
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from rstar.judge.queue.quotas import ClientQuotas

MAX_HEAD = 32_768
"""Bytes of request line and headers, and of data after a body."""

HEAD_SECONDS, BODY_SECONDS = 15.0, 120.0
"""Time limits for head and body of a request to arrive."""

READ_SECONDS, MIN_READ = 60.0, 4 << 20
"""In this time a client must read this many bytes of a reply, or all of it: unread bytes occupy memory."""

_OWN_DESCRIPTORS = 200

_LARGE = b"431 Request Header Fields Too Large"
_REFUSAL = b"HTTP/1.1 %s\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


class BoundedProtocol(HttpToolsProtocol):
    """uvicorn's protocol with bounded connections, request heads and times.

    Attributes:
        hosts: connections per host; created on the first connection, when the descriptor limit is final.
        memory: bytes that clients occupy, unread replies included.
    """

    hosts: ClientQuotas | None = None
    memory: ClientQuotas | None = None

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._host: str | None = None
        self._read_deadline: asyncio.TimerHandle | None = None
        self._charged = 0
        self._parser_bytes = 0  # bytes the parser may hold: of a head, or after a body
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Admit the connection, or answer 503 if its host has too many."""
        super().connection_made(transport)
        if BoundedProtocol.hosts is None:
            most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
            BoundedProtocol.hosts = ClientQuotas(most - _OWN_DESCRIPTORS)
        host = "" if self.client is None else self.client[0]
        if not BoundedProtocol.hosts.take(host):
            self._refuse(b"503 Service Unavailable")
            return
        self._host = host
        self._set_deadline(HEAD_SECONDS)

    def connection_lost(self, error: Exception | None) -> None:
        """Release the connection's share and memory."""
        self._cancel_deadline()
        self.resume_writing()
        if BoundedProtocol.hosts is not None and self._host is not None:
            BoundedProtocol.hosts.add(self._host, -1)
        super().connection_lost(error)

    def pause_writing(self) -> None:
        """The client is not reading: start the reading deadline."""
        super().pause_writing()
        self._set_read_deadline()

    def resume_writing(self) -> None:
        """The client has read: stop the reading deadline."""
        self._charge(0)
        if self._read_deadline is not None:
            self._read_deadline.cancel()
            self._read_deadline = None
        super().resume_writing()

    def data_received(self, data: bytes) -> None:
        """Parse in pieces, so that one read cannot deliver an oversized header."""
        for start in range(0, len(data), MAX_HEAD):
            if self.transport.is_closing():
                return
            piece = data[start : start + MAX_HEAD]
            self._parser_bytes += len(piece)
            super().data_received(piece)
            if self._parser_bytes > MAX_HEAD:
                self._refuse(_LARGE)

    def on_message_begin(self) -> None:
        """Start the deadline of the head."""
        super().on_message_begin()
        self._set_deadline(HEAD_SECONDS)

    def on_headers_complete(self) -> None:
        """Check the size of the head and start the deadline of the body."""
        self._parser_bytes = 0
        if len(self.url) + sum(len(name) + len(value) + len(b": \r\n") for name, value in self.headers) > MAX_HEAD:
            self._refuse(_LARGE)
            return
        self._set_deadline(BODY_SECONDS)
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Forward the body unless the request was refused."""
        self._parser_bytes = 0
        if not self.transport.is_closing():
            super().on_body(body)

    def on_message_complete(self) -> None:
        """Stop the deadline of the body."""
        self._parser_bytes = 0
        self._cancel_deadline()
        if not self.transport.is_closing():
            super().on_message_complete()

    def _set_read_deadline(self) -> None:
        """Abort the connection if the client has not read enough after `READ_SECONDS`."""
        before = self._unread_bytes()
        self._charge(self.transport.get_write_buffer_size())

        def check() -> None:
            if self._unread_bytes() <= max(0, before - MIN_READ):
                self._set_read_deadline()
            else:
                self.transport.abort()

        self._read_deadline = self.loop.call_later(READ_SECONDS, check)

    def _charge(self, size: int) -> None:
        if BoundedProtocol.memory is not None:
            client = "" if self.client is None else "{}:{}".format(*self.client)
            BoundedProtocol.memory.add(client, size - self._charged)
            self._charged = size

    def _unread_bytes(self) -> int:
        """Bytes the client has not read: ours and the kernel's, which reports free space only when there is much."""
        kernel_bytes = fcntl.ioctl(self.transport.get_extra_info("socket").fileno(), termios.TIOCOUTQ, bytes(4))
        return self.transport.get_write_buffer_size() + int.from_bytes(kernel_bytes, sys.byteorder)

    def _set_deadline(self, seconds: float) -> None:
        self._cancel_deadline()
        self._deadline = self.loop.call_later(seconds, self._on_deadline, seconds)

    def _cancel_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _on_deadline(self, seconds: float) -> None:
        if self.flow.read_paused:  # we paused reading: the previous request is not answered yet
            self._set_deadline(seconds)
        else:
            self._refuse(b"408 Request Timeout")

    def _refuse(self, status: bytes) -> None:
        if not self.transport.is_closing():
            self.transport.write(_REFUSAL % status)
            self.transport.close()
