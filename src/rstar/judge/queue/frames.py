"""Messages between the API and local workers: tag and body over a stream socket."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable
from typing import cast

HELLO, READY, ANSWER = b"H", b"R", b"A"
"""From a worker: name, slots and capacity; number of additional jobs it can take; an answer."""

JOB, CANCEL, FORGET = b"J", b"C", b"F"
"""To a worker: a job; the id of a cancelled job; ids of states to forget, one per line."""

LARGEST = 256 << 20
"""Maximum body size in bytes; the receiver of a larger message closes the connection."""

_HEAD = struct.Struct(">Ic")


class Frames(asyncio.Protocol):
    """One end of a connection.

    Args:
        on_frame: called with the tag and body of each message.
        on_lost: called once when the connection is lost.
    """

    def __init__(self, on_frame: Callable[[Frames, bytes, bytes], None], on_lost: Callable[[Frames], None]) -> None:
        self._on_frame, self._on_lost = on_frame, on_lost
        self._transport: asyncio.Transport | None = None
        self._buffer = bytearray()

    def send(self, tag: bytes, body: bytes = b"") -> None:
        """Send one message; does nothing if disconnected. Raises `ValueError` if it is too large."""
        if len(body) > LARGEST:
            raise ValueError(f"a message of {len(body):,} bytes; at most {LARGEST:,} can be sent")
        if self._transport is not None:
            self._transport.write(_HEAD.pack(len(body), tag) + body)

    def close(self) -> None:
        """Close the connection."""
        if self._transport is not None:
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, error: Exception | None) -> None:
        """Call `on_lost`."""
        self._transport = None
        self._on_lost(self)

    def data_received(self, data: bytes) -> None:
        """Call `on_frame` for each complete message."""
        buffer = self._buffer
        buffer += data
        start = 0
        while len(buffer) - start >= _HEAD.size:
            size, tag = _HEAD.unpack_from(buffer, start)
            end = start + _HEAD.size + size
            if size > LARGEST:
                self.close()
                return
            if len(buffer) < end:
                break
            body = bytes(buffer[start + _HEAD.size : end])
            start = end
            self._on_frame(self, tag, body)
        del buffer[:start]
