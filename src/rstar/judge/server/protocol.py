"""HTTP protocol limits: connections per host, time to send a request and to read a reply, size of the request head.

uvicorn bounds none of these with its fast parser. `guard` checks the body.

A connection has one request at a time: the bytes behind it are parsed when it has been answered and its reply been
read. Until then few of them are kept, and reading pauses.

Parsing a body in tiny chunks costs a hundred times as much as others of its size. So connections with chunked bodies
take turns, one in each iteration of the event loop, with pieces as small as their chunks require.
"""

from __future__ import annotations

import asyncio
import fcntl
import resource
import sys
import termios
from collections import deque
from typing import Any, ClassVar

import httptools
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT, FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from rstar.judge.queue.quotas import ClientQuotas

MAX_HEAD = 32_768
"""Bytes of request line and headers, and of data after a body."""

MAX_HEADERS = 100
"""Headers per request, trailers included."""

HEADER_BYTES = 150
"""Memory per header, beside its text."""

SMALL_PIECE, SMALL_CHUNK = 2_048, 256
"""Bytes of a chunked body to parse at once if its chunks, or the last ones seen, have fewer bytes on average."""

HEAD_SECONDS, BODY_SECONDS = 15.0, 120.0
"""Time limits for head and body of a request to arrive."""

READ_SECONDS, MIN_READ = 60.0, 4 << 20
"""In this time a client must read this many bytes of a reply, or all of it: unread bytes occupy memory."""

MAX_BEHIND = 65_536
"""Bytes kept of requests behind the one being answered. Beyond them, reading pauses, and no disconnect is noticed."""

_OWN_DESCRIPTORS = 200

_LARGE = b"431 Request Header Fields Too Large"
_HEAD_END = b"\r\n\r\n"
_UPGRADE = b"upgrade"
_REFUSAL = b"HTTP/1.1 %s\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


class _Flow(FlowControl):
    """Flow control under which reading stays paused, whoever asks, while `is_full`."""

    def __init__(self, transport: asyncio.Transport) -> None:
        super().__init__(transport)
        self.is_full = False

    def resume_reading(self) -> None:
        """See `FlowControl.resume_reading`."""
        if not self.is_full:
            super().resume_reading()


class _ParseTurns:
    """Connections that wait to parse a piece of a chunked body; one has its turn in each iteration of the loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._waiting: deque[BoundedProtocol] = deque()

    def wait(self, connection: BoundedProtocol) -> None:
        """Take a place at the end of the queue."""
        self._waiting.append(connection)
        if len(self._waiting) == 1:
            self.loop.call_soon(self._next)

    def _next(self) -> None:
        connection = self._waiting[0]
        try:
            connection.take_turn()
        finally:
            self._waiting.popleft()
            if self._waiting:
                self.loop.call_soon(self._next)


class BoundedProtocol(HttpToolsProtocol):
    """uvicorn's protocol with bounded connections, request heads and times.

    Attributes:
        hosts: connections per host; created on the first connection, when the descriptor limit is final.
        memory: bytes that clients occupy, unread replies included.
    """

    hosts: ClientQuotas | None = None
    memory: ClientQuotas | None = None
    _turns: ClassVar[_ParseTurns | None] = None

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._host: str | None = None
        self._read_deadline: asyncio.TimerHandle | None = None
        self._charged = 0
        self._behind = bytearray()  # received and not parsed yet
        self._body_left, self._chunked = 0, False  # of the request being parsed
        self._head_end = b""  # the last bytes of its incomplete head
        self._parser_bytes = 0  # bytes the parser may hold: of a head, or after a body
        self._head_memory = 0  # of the headers of the present request
        self._chunks, self._piece, self._waits_for_turn = 0, SMALL_PIECE, False
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Admit the connection, or answer 503 if its host has too many."""
        super().connection_made(transport)
        self.flow: _Flow = _Flow(transport)
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
        self._behind.clear()
        self._parser_bytes = self._head_memory = 0
        self.resume_writing()
        if BoundedProtocol.hosts is not None and self._host is not None:
            BoundedProtocol.hosts.add(self._host, -1)
        super().connection_lost(error)

    def pause_writing(self) -> None:
        """The client is not reading: start the reading deadline."""
        super().pause_writing()
        self._set_read_deadline()

    def resume_writing(self) -> None:
        """The client has read: stop the reading deadline, and go on with its requests."""
        if self._read_deadline is not None:
            self._read_deadline.cancel()
            self._read_deadline = None
        super().resume_writing()
        self._charge()
        self._continue()

    def data_received(self, data: bytes) -> None:
        """Parse the data, or keep it for later."""
        self._behind += data
        self._parse()

    def on_response_complete(self) -> None:
        """Go on with the next request, after others had their turn."""
        super().on_response_complete()
        self._continue()

    @property
    def _is_answering(self) -> bool:
        """A request has arrived completely and its reply has not been sent completely."""
        return self.cycle is not None and not self.cycle.more_body and not self.cycle.response_complete

    @property
    def _is_busy(self) -> bool:
        return self._is_answering or self.flow.write_paused

    def _continue(self) -> None:
        if self._behind and not self._is_busy:
            self.loop.call_soon(self._parse)

    def _parse(self) -> None:
        """Parse what has arrived, up to the end of a request."""
        while self._has_input and not self._chunked:
            self._feed(self._piece_size())
        if self._has_input:
            self._wait_for_turn()
        if self.transport.is_closing():
            self._behind.clear()
        self._charge()
        was_full, self.flow.is_full = self.flow.is_full, len(self._behind) > MAX_BEHIND
        if self.flow.is_full:
            self.flow.pause_reading()
        elif was_full and (self.cycle is None or len(self.cycle.body) <= HIGH_WATER_LIMIT):
            self.flow.resume_reading()

    @property
    def _has_input(self) -> bool:
        return bool(self._behind) and not self._is_busy and not self.transport.is_closing()

    def _feed(self, size: int) -> None:
        """Parse at most `size` of the bytes that have arrived."""
        piece = bytes(self._behind[:size])
        del self._behind[:size]
        self._head_end = (self._head_end + piece)[-3:]
        self._parser_bytes += len(piece)
        super().data_received(piece)
        if self._parser_bytes > MAX_HEAD:
            self._refuse(_LARGE)

    def _wait_for_turn(self) -> None:
        if self._waits_for_turn:
            return
        self._waits_for_turn = True
        if BoundedProtocol._turns is None or BoundedProtocol._turns.loop is not self.loop:
            BoundedProtocol._turns = _ParseTurns(self.loop)
        BoundedProtocol._turns.wait(self)

    def take_turn(self) -> None:
        """Parse a piece of a chunked body, and what follows it."""
        self._waits_for_turn = False
        if self._has_input and self._chunked:
            self._chunks = 0
            size = min(self._piece, len(self._behind))
            self._feed(size)
            self._piece = SMALL_PIECE if size < SMALL_CHUNK * self._chunks else MAX_HEAD
        self._parse()

    def _piece_size(self) -> int:
        """How many bytes to parse at once: up to the end of a head or body, if known; never a large head."""
        if self._body_left:
            return self._body_left
        end = (self._head_end + self._behind[:MAX_HEAD]).find(_HEAD_END)
        return MAX_HEAD if end < 0 else end + len(_HEAD_END) - len(self._head_end)

    def on_message_begin(self) -> None:
        """Start the deadline of the head.

        Raises:
            ValueError: it follows a chunked body, whose end was unknown, without waiting for the reply.
        """
        if self._is_answering:
            raise ValueError("a request behind a chunked one")
        super().on_message_begin()
        self._head_memory, self._piece = 0, SMALL_PIECE
        self._set_deadline(HEAD_SECONDS)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a header or trailer, or refuse the request if it has too many."""
        self._head_memory += len(name) + len(value) + HEADER_BYTES
        if len(self.headers) < MAX_HEADERS:
            super().on_header(name, value)
        else:
            self._refuse(_LARGE)

    @property
    def _is_upgrade(self) -> bool:
        """The head asks for another protocol. The parser reads no body behind such a head."""
        return self.parser.should_upgrade() and any(name == _UPGRADE for name, _ in self.headers)

    def _unsupported_upgrade_warning(self) -> None:
        """Answer as HTTP/1.1, as a server may: parse the head once more, without the header.

        uvicorn calls this behind the head. It would log a warning, and take the body for the next request.
        """
        if not self._is_upgrade:  # CONNECT
            return
        line = (self.parser.get_method(), self.url, b"HTTP/" + self.parser.get_http_version().encode())
        headers = [name + b": " + value for name, value in self.headers if name != _UPGRADE]
        self.parser = httptools.HttpRequestParser(self)
        super().data_received(b"\r\n".join((b" ".join(line), *headers)) + _HEAD_END)

    def on_headers_complete(self) -> None:
        """Check the size of the head and start the deadline of the body."""
        if self._is_upgrade or self.transport.is_closing():
            return
        self._parser_bytes = 0
        if len(self.url) + sum(len(name) + len(value) + len(b": \r\n") for name, value in self.headers) > MAX_HEAD:
            self._refuse(_LARGE)
            return
        headers = dict(self.headers)
        self._body_left = int(headers.get(b"content-length", b"0"))  # the parser admits only numbers
        self._chunked = b"transfer-encoding" in headers
        self._set_deadline(BODY_SECONDS)
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Forward the body unless the request was refused."""
        self._parser_bytes = 0
        self._chunks += 1
        self._body_left = max(0, self._body_left - len(body))
        if not self.transport.is_closing():
            super().on_body(body)

    def on_message_complete(self) -> None:
        """Stop the deadline of the body."""
        if self._is_upgrade:
            return
        self._parser_bytes = self._body_left = 0
        self._chunked, self._head_end = False, b""
        self._cancel_deadline()
        if not self.transport.is_closing():
            super().on_message_complete()

    def _set_read_deadline(self) -> None:
        """Abort the connection if the client has not read enough after `READ_SECONDS`."""
        before = self._unread_bytes()
        self._charge()

        def check() -> None:
            if self._unread_bytes() <= max(0, before - MIN_READ):
                self._set_read_deadline()
            else:
                self.transport.abort()

        self._read_deadline = self.loop.call_later(READ_SECONDS, check)

    def _charge(self) -> None:
        """Charge headers, unread replies and requests behind to the client; abort if they exceed its share."""
        size = len(self._behind) + self._parser_bytes + self._head_memory
        size += self.transport.get_write_buffer_size() if self.flow.write_paused else 0
        if BoundedProtocol.memory is None or size == self._charged:
            return
        client = "" if self.client is None else "{}:{}".format(*self.client)
        more = size - self._charged
        if more > 0 and not BoundedProtocol.memory.take(client, more):
            self.transport.abort()
            return
        if more < 0:
            BoundedProtocol.memory.add(client, more)
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
        if self.flow.read_paused:  # we paused reading: the request before, or this one's body, takes time
            self._set_deadline(seconds)
        else:
            self._refuse(b"408 Request Timeout")

    def _refuse(self, status: bytes) -> None:
        if not self.transport.is_closing():
            self.transport.write(_REFUSAL % status)
            self.transport.close()
