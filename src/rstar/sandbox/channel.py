"""Messages between parent, keeper and run: JSON objects over SOCK_SEQPACKET, with file descriptors beside them.

One packet is one message: a reader never waits for the rest, and a dying writer leaves no partial message. Messages
above `MAX_PACKET` bytes travel in a sealed memory file. Packets that model-written code may have sent are read with
`receive_untrusted`, which accepts no descriptors and at most one packet's bytes.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
from array import array
from collections.abc import Iterable, Sequence
from typing import Any

MAX_PACKET = 64_000
"""Largest message sent in the packet itself, in bytes."""

MAX_REPORT = 64_000
"""Largest report of a run, in bytes."""

_MAX_FDS = 8

Message = dict[str, Any]


def pair() -> tuple[socket.socket, socket.socket]:
    """Two connected sockets."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


def pack(message: Message, fds: Iterable[int] = ()) -> tuple[bytes, list[int], int | None]:
    """Encode a message: packet bytes, descriptors to send, and a descriptor to close after sending, if any."""
    body = json.dumps(message).encode()
    if len(body) <= MAX_PACKET:
        return body, list(fds), None
    memory = memory_file(body)
    return b"", [*fds, memory], memory


def memory_file(content: bytes) -> int:
    """A sealed, read-only descriptor of a memory file with `content`."""
    memory = os.memfd_create("content", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    with open(memory, "wb", closefd=False) as file:
        file.write(content)
    fcntl.fcntl(memory, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE)
    os.lseek(memory, 0, os.SEEK_SET)
    return memory


def send(link: socket.socket, message: Message, fds: Iterable[int] = (), flags: int = 0) -> None:
    """Send one message. With MSG_DONTWAIT in `flags`, raises `BlockingIOError` if the socket buffer is full."""
    body, handles, spare = pack(message, fds)
    try:
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array("i", handles))] if handles else []
        link.sendmsg([body], rights, flags)  # Python 3.11's `socket.send_fds` ignores its flags
    finally:
        if spare is not None:
            os.close(spare)


def receive(link: socket.socket) -> tuple[Message, list[int]] | None:
    """The next message and its descriptors; None at end of stream."""
    body, handles, flags, _ = socket.recv_fds(link, MAX_PACKET + 1, _MAX_FDS)
    if flags & socket.MSG_CTRUNC:
        raise OSError("descriptors of a message were lost: too many open files")
    if not body and not handles:
        return None
    if not body:
        with open(handles.pop(), "rb") as file:
            body = file.read()
    return json.loads(body), handles


def receive_untrusted(link: socket.socket) -> bytes | None:
    """The next packet of a run, cut at `MAX_REPORT` bytes; None if none is pending, b"" at end of stream."""
    try:
        return link.recv(MAX_REPORT, socket.MSG_DONTWAIT)
    except BlockingIOError:
        return None
    except OSError:
        return b""


def close_all(fds: Sequence[int]) -> None:
    """Close descriptors."""
    for fd in fds:
        os.close(fd)
