"""Messages between the API and its workers: a tag and a body, over a stream socket of this machine."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable
from typing import cast

HELLO, READY, ANSWER = b"H", b"R", b"A"
"""From a worker: its name, slots and places; that it can take so many more jobs; an answer."""

JOB, CANCEL, FORGET = b"J", b"C", b"F"
"""To a worker: a job; the id of one that nobody waits for any more; ids of states, one a line."""

LARGEST = 256 << 20
"""Bytes of a message. What receives a larger one closes the connection, so nobody may send one."""

_HEAD = struct.Struct(">Ic")


class Frames(asyncio.Protocol):
    """One end of a connection.

    Args:
        on_frame: called with tag and body of each message.
        on_lost: called once when the connection is gone.
    """

    def __init__(self, on_frame: Callable[[Frames, bytes, bytes], None], on_lost: Callable[[Frames], None]) -> None:
        self._on_frame, self._on_lost = on_frame, on_lost
        self._transport: asyncio.Transport | None = None
        self._buffer = bytearray()

    def send(self, tag: bytes, body: bytes = b"") -> None:
        """Send one message; nothing happens when the connection is gone. Raises `ValueError` for too large a one."""
        if len(body) > LARGEST:
            raise ValueError(f"a message of {len(body):,} bytes; {LARGEST:,} can be sent")
        if self._transport is not None:
            self._transport.write(_HEAD.pack(len(body), tag) + body)

    def close(self) -> None:
        """Close the connection."""
        if self._transport is not None:
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Of `asyncio.Protocol`."""
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, error: Exception | None) -> None:
        """Of `asyncio.Protocol`."""
        self._transport = None
        self._on_lost(self)

    def data_received(self, data: bytes) -> None:
        """Of `asyncio.Protocol`."""
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
