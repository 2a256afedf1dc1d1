"""What HTTP bounds: heads by size, heads and bodies by the time they take."""

import asyncio
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from threading import Thread
from typing import Any, ClassVar

import pytest
import uvicorn
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from starlette.types import Receive, Scope, Send

from rstar.judge.queue.quotas import ClientQuotas
from rstar.judge.server import protocol
from rstar.judge.server.protocol import (
    HEADER_BYTES,
    MAX_BEHIND,
    MAX_HEAD,
    MAX_HEADERS,
    SMALL_PIECE,
    BoundedProtocol,
)

SECONDS = 0.4
LARGE = 30 << 20
HEAD = "POST {path} HTTP/1.1\r\nhost: me\r\ncontent-length: {size}\r\n\r\n"


gone: list[str] = []
"""Paths of the requests whose callers went away."""


class Recorded(BoundedProtocol):
    """Remembers its instances."""

    made: ClassVar[list[BoundedProtocol]] = []

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.made.append(self)


async def app(scope: Scope, receive: Receive, send: Send) -> None:
    """Answers with the size of the body, later where the path says so; None when the caller went away."""
    if scope["type"] != "http":
        return
    size, more = 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return
        size, more = size + len(message["body"]), message["more_body"]
    if scope["path"] == "/wait":
        assert (await receive())["type"] == "http.disconnect"
        gone.append(scope["query_string"].decode())
        return
    await asyncio.sleep(2 * SECONDS if scope["path"] == "/slow" else 0)
    body = b"%d bytes;" % size if scope["path"] != "/large" else bytes(LARGE)
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(body))]})
    await send({"type": "http.response.body", "body": body})


@pytest.fixture
def short_deadlines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "HEAD_SECONDS", SECONDS)
    monkeypatch.setattr(protocol, "BODY_SECONDS", SECONDS)


@pytest.fixture
def connect() -> Iterator[Callable[[], socket.socket]]:
    """Connections to a server."""
    opened: list[socket.socket] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        options: Any = {"http": Recorded, "loop": "uvloop", "log_level": "error", "lifespan": "off"}
        server = uvicorn.Server(uvicorn.Config(app, **options))
        thread = Thread(target=server.run, args=([listener],))
        thread.start()

        def connect() -> socket.socket:
            opened.append(socket.create_connection(listener.getsockname(), 10))
            return opened[-1]

        yield connect
        for link in opened:
            link.close()
        server.should_exit = True
        thread.join()


def head(path: str = "/", size: int = 0) -> bytes:
    return HEAD.format(path=path, size=size).encode()


def all_of(link: socket.socket) -> bytes:
    """What comes until the server closes."""
    said = b""
    try:
        while block := link.recv(65_536):
            said += block
    except ConnectionResetError:  # it closed while more was coming
        pass
    return said


def until_true(what: Callable[[], bool]) -> None:
    end = time.monotonic() + 10
    while not what():
        assert time.monotonic() < end
        time.sleep(0.01)


def until(link: socket.socket, end: bytes) -> bytes:
    said = b""
    while not said.endswith(end):
        block = link.recv(65_536)
        assert block, said
        said += block
    return said


LONG = b"GET / HTTP/1.1\r\nx-long: " + b"x" * MAX_HEAD + b"\r\n\r\n"
MANY = b"GET / HTTP/1.1\r\n" + b"x-%d: y\r\n" % 7 * (MAX_HEAD // 8 + 1) + b"\r\n"
TARGET = b"GET /" + b"x" * MAX_HEAD + b" HTTP/1.1\r\n\r\n"


@pytest.mark.parametrize("request_", [LONG, MANY, TARGET], ids=["header", "headers", "target"])
@pytest.mark.parametrize("whole", [True, False])
def test_a_head_can_be_too_large(connect: Callable[[], socket.socket], request_: bytes, whole: bool) -> None:
    link = connect()
    if whole:
        link.sendall(request_)
    else:
        link.sendall(request_[: MAX_HEAD + 1])  # it is refused before its end
    assert all_of(link).startswith(b"HTTP/1.1 431 ")


def test_what_follows_a_body_counts_as_a_head(connect: Callable[[], socket.socket]) -> None:
    link = connect()
    link.sendall(b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n1\r\nx\r\n0\r\nx: " + b"x" * (2 * MAX_HEAD))
    assert b"HTTP/1.1 431 " in all_of(link)


def test_each_head_of_a_connection_counts_by_itself(connect: Callable[[], socket.socket]) -> None:
    link = connect()
    large = b"GET / HTTP/1.1\r\nx: " + b"x" * (MAX_HEAD - 1_000) + b"\r\n\r\n"
    for _ in range(3):
        link.sendall(large)
        assert until(link, b";").startswith(b"HTTP/1.1 200 ")
    link.sendall(head(size=3 * MAX_HEAD) + bytes(3 * MAX_HEAD))
    assert until(link, b";").endswith(b"%d bytes;" % (3 * MAX_HEAD))


@pytest.mark.usefixtures("short_deadlines")
@pytest.mark.parametrize("part", [b"", b"POST / HTTP/1.1\r\nhost", head(size=9), head(size=9) + b"12345678"])
def test_a_request_must_end_in_time(connect: Callable[[], socket.socket], part: bytes) -> None:
    started = time.monotonic()
    link = connect()
    link.sendall(part)
    assert all_of(link).startswith(b"HTTP/1.1 408 ")
    assert time.monotonic() - started < 60 * SECONDS


@pytest.mark.usefixtures("short_deadlines")
def test_dribbling_does_not_help(connect: Callable[[], socket.socket]) -> None:
    link = connect()
    started = time.monotonic()
    link.sendall(b"GET / HTTP/1.1\r\n")
    with suppress(OSError):  # it is closed
        while time.monotonic() - started < 80 * SECONDS:
            link.sendall(b"x: y\r\n")
            time.sleep(SECONDS / 8)
    assert time.monotonic() - started < 60 * SECONDS


@pytest.mark.usefixtures("short_deadlines")
def test_deadlines_are_for_callers_only(connect: Callable[[], socket.socket]) -> None:
    """An answer may take long; a connection may be idle; a request may wait for the one before."""
    link = connect()
    link.sendall(head("/slow"))
    assert until(link, b";").endswith(b"0 bytes;")
    time.sleep(2 * SECONDS)
    large = 4 << 20
    link.sendall(head("/slow") + head("/", large) + b"x" * 100)  # the server stops to read until it has answered
    Thread(target=link.sendall, args=(bytes(large - 100),)).start()
    assert until(link, b"%d bytes;" % large).count(b" 200 ") == 2


def test_requests_behind_another_take_no_memory(connect: Callable[[], socket.socket]) -> None:
    """A client that sends all it can and reads nothing: one request at a time is parsed, and few bytes are kept."""
    link = connect()
    link.sendall(head())
    until(link, b";")
    (connection,) = [one for one in Recorded.made if one.client == link.getsockname()]
    link.setblocking(False)
    flood, sent, quiet = head() * 20_000, 0, 0.0
    started = len(connection.server_state.tasks)
    while quiet < SECONDS and sent < LARGE:
        try:
            sent += link.send(flood[sent % len(head()) :])
            quiet = 0.0
        except BlockingIOError:
            time.sleep(0.05)
            quiet += 0.05
        assert not connection.pipeline
        assert len(connection._behind) <= MAX_BEHIND + (1 << 18)
        assert len(connection.server_state.tasks) <= started + 2  # one may just have ended
    link.close()
    link = connect()
    link.sendall(head() * 2_000)
    said = b""
    while said.count(b";") < 2_000:
        said += link.recv(1 << 20)
    assert said.count(b" 200 ") == 2_000


@pytest.mark.parametrize("behind", [0, 1, MAX_BEHIND])
def test_a_request_behind_hides_no_caller_that_has_gone(connect: Callable[[], socket.socket], behind: int) -> None:
    link = connect()
    link.sendall(head(f"/wait?{behind}"))
    link.setblocking(False)
    with suppress(BlockingIOError):
        link.send((head() + bytes(behind))[:behind])
    time.sleep(SECONDS)
    assert str(behind) not in gone
    link.close()
    until_true(lambda: str(behind) in gone)


def test_only_a_request_whose_end_is_unknown_takes_none_behind_it(connect: Callable[[], socket.socket]) -> None:
    """A client must not send a request behind a POST that is not answered; behind a known length, it may."""
    chunked = b"POST / HTTP/1.1\r\nhost: me\r\ntransfer-encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n"
    link = connect()
    link.sendall(head("/", 7) + b"1234567" + head("/slow", 2) + b"12" + head() + chunked)
    assert until(link, b"1 bytes;").count(b" 200 ") == 4
    link.sendall(chunked)
    assert until(link, b"1 bytes;").count(b" 200 ") == 1
    link.sendall(chunked + head())
    assert all_of(link).startswith(b"HTTP/1.1 400 ")


@given(st.lists(st.integers(1, 60), min_size=1, max_size=30))
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_requests_are_answered_however_they_are_cut(connect: Callable[[], socket.socket], cuts: list[int]) -> None:
    link = connect()
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    text = (head("/", 5) + b"\r\n\r\n1" + head() + b"\r\n" + head("/", 3) + b"xyz") * 2
    while text:
        for cut in cuts:
            link.sendall(text[:cut])
            text = text[cut:]
    replies = b""
    while replies.count(b";") < 6:
        replies += link.recv(65_536)
    assert [int(part[-1:]) for part in replies.split(b" bytes;")[:-1]] == [5, 0, 3] * 2
    link.close()


@pytest.mark.usefixtures("short_deadlines")
def test_unread_replies_leave_memory_to_others(
    connect: Callable[[], socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = ClientQuotas(4 * LARGE)
    monkeypatch.setattr(BoundedProtocol, "memory", memory)
    links = [connect() for _ in range(12)]
    for link in links:
        link.sendall(head("/large"))
        time.sleep(0.05)
        assert memory.fits("other", LARGE // 4)
    time.sleep(2 * SECONDS)
    assert memory.fits("other", LARGE // 4)
    got = 0
    while block := links[0].recv(1 << 20):
        got += len(block)
        if got > LARGE:  # a head, too
            break
    assert got > LARGE
    for link in links:
        link.close()
    until_true(lambda: memory.fits("x", 4 * LARGE))


def test_a_host_has_so_many_connections(connect: Callable[[], socket.socket], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BoundedProtocol, "hosts", ClientQuotas(8))
    links = [connect() for _ in range(6)]
    for link in links:
        link.sendall(head("/slow"))
    replies = [(until(link, b";") if number < 4 else all_of(link))[9:12] for number, link in enumerate(links)]
    assert replies == [b"200"] * 4 + [b"503"] * 2
    for link in links:
        link.close()
    time.sleep(0.2)
    link = connect()
    link.sendall(head())
    assert until(link, b";").startswith(b"HTTP/1.1 200 ")


def test_who_reads_nothing_is_left(connect: Callable[[], socket.socket], monkeypatch: pytest.MonkeyPatch) -> None:
    """A reply that is larger than what buffers hold: who takes it slowly gets it, who does not take it does not."""
    monkeypatch.setattr(protocol, "READ_SECONDS", 2 * SECONDS)
    memory = ClientQuotas(10 * LARGE)
    monkeypatch.setattr(BoundedProtocol, "memory", memory)
    idle, slow = connect(), connect()
    idle.sendall(head("/large"))
    slow.sendall(head("/large"))
    started, got = time.monotonic(), 0
    until_true(lambda: not memory.fits("x", 9 * LARGE))  # what is not read counts
    while got < LARGE:  # over twice the time
        got += len(slow.recv(1 << 18))
        time.sleep(max(0.0, started + 8 * SECONDS * got / LARGE - time.monotonic()))
    got = 0
    with suppress(ConnectionResetError):
        while block := idle.recv(1 << 20):
            got += len(block)
    assert got < LARGE
    until_true(lambda: memory.fits("x", 10 * LARGE))


@pytest.mark.parametrize("cut", [10, 30, 60, 90, 120, 10_000])
@pytest.mark.parametrize(
    "framing", ["content-length: 4\r\n\r\n1234", "transfer-encoding: chunked\r\n\r\n4\r\n1234\r\n0\r\n\r\n"]
)
def test_who_asks_for_another_protocol_is_answered_as_others(
    connect: Callable[[], socket.socket], cut: int, framing: str
) -> None:
    """With the body, and what comes behind it; nobody else's connection is needed for that."""
    link = connect()
    asks = "host: me\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n"
    request = f"POST / HTTP/1.1\r\n{asks}{framing}".encode()
    for _ in range(2):
        link.sendall(request[:cut])
        time.sleep(0.01)
        link.sendall(request[cut:])
        assert until(link, b";").endswith(b"\r\n\r\n4 bytes;")
    link.sendall(head(size=3) + b"123")
    assert until(link, b";").endswith(b"\r\n\r\n3 bytes;")


def test_a_tunnel_is_not_made(connect: Callable[[], socket.socket]) -> None:
    link = connect()
    link.sendall(b"CONNECT me:1 HTTP/1.1\r\nhost: me\r\nconnection: upgrade\r\nupgrade: h2c\r\n\r\n")
    assert all_of(link).startswith(b"HTTP/1.1 400 ")


@pytest.mark.parametrize("whole", [True, False])
def test_a_request_has_so_many_headers(connect: Callable[[], socket.socket], whole: bool) -> None:
    link = connect()
    few = b"".join(b"%x:\r\n" % number for number in range(MAX_HEADERS))
    link.sendall(b"GET / HTTP/1.1\r\n" + few + b"\r\n")
    assert until(link, b"0 bytes;").startswith(b"HTTP/1.1 200 ")
    link.sendall(b"GET / HTTP/1.1\r\n" + few + b"x:\r\ny:\r\n" + b"\r\n" * whole)
    assert all_of(link).startswith(b"HTTP/1.1 431 ")
    assert all(len(one.headers or ()) <= MAX_HEADERS for one in Recorded.made)


def test_headers_of_a_request_that_has_not_ended_are_charged(
    connect: Callable[[], socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = ClientQuotas(1 << 20)
    monkeypatch.setattr(BoundedProtocol, "memory", memory)
    link = connect()
    link.sendall(b"GET / HTTP/1.1\r\n" + b"x: y\r\n" * 60)
    until_true(lambda: memory._used >= 60 * HEADER_BYTES)
    link.close()
    until_true(lambda: memory._used == 0)


def test_tiny_chunks_take_turns(connect: Callable[[], socket.socket], monkeypatch: pytest.MonkeyPatch) -> None:
    """In one iteration of the event loop, little of them is parsed, however many connections send them."""
    parsed: Counter[int] = Counter()
    iterations = 0

    def tick(loop: asyncio.AbstractEventLoop) -> None:
        nonlocal iterations
        iterations += 1
        loop.call_soon(tick, loop)

    on_body = BoundedProtocol.on_body

    def watched(self: BoundedProtocol, body: bytes) -> None:
        if not iterations:
            tick(self.loop)
        parsed[iterations] += 1
        on_body(self, body)

    monkeypatch.setattr(BoundedProtocol, "on_body", watched)
    links = [connect() for _ in range(4)]
    for link in links:
        link.sendall(b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n" + b"1\r\n \r\n" * 4_000 + b"0\r\n\r\n")
    for link in links:
        assert until(link, b"4000 bytes;").startswith(b"HTTP/1.1 200 ")
    assert sum(parsed.values()) == 16_000
    assert max(parsed.values()) <= 2 * SMALL_PIECE / len(b"1\r\n \r\n")


def test_large_chunks_are_parsed_in_large_pieces(
    connect: Callable[[], socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    feed = BoundedProtocol._feed

    def watched(self: BoundedProtocol, size: int) -> None:
        sizes.append(min(size, len(self._behind)))
        feed(self, size)

    monkeypatch.setattr(BoundedProtocol, "_feed", watched)
    link = connect()
    chunk = b"8000\r\n" + bytes(0x8000) + b"\r\n"
    link.sendall(b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n" + chunk * 60 + b"0\r\n\r\n")
    assert until(link, b"%d bytes;" % (60 * 0x8000)).startswith(b"HTTP/1.1 200 ")
    assert max(sizes) == MAX_HEAD
