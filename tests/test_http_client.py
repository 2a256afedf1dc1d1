"""The HTTP client against a server in this process."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import TypeVar

import httpx
import pytest

from rstar.errors import ServerError
from rstar.http_client import HttpRefusedError, ServerClient, _retry_after
from tests.models.completion_servers import Answer, serving

T = TypeVar("T")


def using(url: str, use: Callable[[ServerClient], Awaitable[T]], retries: int = 2, key: str | None = None) -> T:
    async def scenario() -> T:
        client = ServerClient(url, key=key, concurrency=4, timeout=5.0, retries=retries, pause=0.001)
        await client.open()
        try:
            return await use(client)
        finally:
            await client.close()

    return asyncio.run(scenario())


def failing(count: int, status: int) -> Callable[[object], Answer]:
    """Fails `count` times, then succeeds."""
    answers = iter([(status, {}, "busy")] * count)
    return lambda body: next(answers, (200, {}, {"ok": True}))


@pytest.mark.parametrize("status", [408, 429, 500, 503])
def test_transient_statuses_are_retried(status: int) -> None:
    with serving(failing(2, status)) as server:
        assert using(server.url, lambda client: client.request("POST", "/x", {})) == {"ok": True}
        assert len(server.asked) == 3


def test_permanent_statuses_are_not_retried_and_hide_the_key() -> None:
    with serving(failing(9, 403)) as server, pytest.raises(HttpRefusedError, match="/x: HTTP 403: busy") as caught:
        using(server.url, lambda client: client.request("POST", "/x", {}), key="secret")
    assert (len(server.asked), server.keys) == (1, ["Bearer secret"])
    assert (caught.value.status, caught.value.body, caught.value.retryable) == (403, "busy", False)
    assert "secret" not in str(caught.value)


def test_retries_are_limited_per_request() -> None:
    with serving(failing(9, 503)) as server, pytest.raises(HttpRefusedError, match="HTTP 503"):
        using(server.url, lambda client: client.request("POST", "/x", {}, retries=1))
    assert len(server.asked) == 2


def test_get_returns_none_where_the_server_has_nothing() -> None:
    with serving(failing(0, 200)) as server:
        assert using(server.url, lambda client: client.get("/models"), retries=0) is None


def test_responses_that_are_not_json() -> None:
    with (
        serving(lambda body: (200, {}, "<html>")) as server,
        pytest.raises(ServerError, match="/x: not JSON: '<ht"),
    ):
        using(server.url, lambda client: client.request("POST", "/x", {}))
    with serving(lambda body: (200, {}, "")) as server:
        assert using(server.url, lambda client: client.request("POST", "/x", {})) is None


def test_post_lines_repeats_the_rest_after_a_failure() -> None:
    left, found = [1, 2, 3], []

    def next_body() -> object:
        return {"numbers": list(left)} if left else None

    def on_line(line: str) -> None:
        found.append(line)
        left.pop(0)

    answers = iter([(503, {}, "busy")])
    with serving(lambda body: next(answers, (200, {}, str(body["numbers"][0]) + "\n"))) as server:
        using(server.url, lambda client: client.post_lines("/x", next_body, on_line))
    assert found == ["1", "2", "3"]


def test_only_line_feeds_end_the_lines_of_a_response() -> None:
    """JSON may hold the other line ends of Unicode as they are."""
    events = [{"text": f"a{end}b"} for end in ("\u2028", "\u0085", "\x1c", "é")]

    async def collect(found: AsyncIterator[object]) -> list[object]:
        return [event async for event in found]

    lines = "".join(f"data: {json.dumps(event, ensure_ascii=False)}\r\n\r\n" for event in events)
    with serving(lambda body: (200, {}, f"{lines}data: [DONE]")) as server:
        assert using(server.url, lambda client: client.stream("/x", {}, collect)) == events
    found = list[str]()
    bodies = iter([{}])
    with serving(lambda body: (200, {}, "a\u2028b\nc")) as server:
        using(server.url, lambda client: client.post_lines("/x", lambda: next(bodies, None), found.append))
    assert found == ["a\u2028b", "c"]


def test_a_client_that_is_not_open_or_has_no_server() -> None:
    client = ServerClient("http://127.0.0.1:9", key=None, concurrency=1, timeout=1.0, retries=1, pause=0.001)
    with pytest.raises(ServerError, match="the client is not open"):
        asyncio.run(client.request("GET", "/x"))
    with pytest.raises(ServerError, match=r"ConnectError.*\(2 attempts\); is a server running there\?"):
        using("http://127.0.0.1:9", lambda client: client.request("GET", "/x"), retries=1)


def test_a_server_that_breaks_off() -> None:
    """As one does that ends an answer when the next request arrives."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{")
        await writer.drain()
        writer.close()

    async def scenario() -> None:
        async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
            url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            client = ServerClient(url, key=None, concurrency=1, timeout=5.0, retries=1, pause=0.001)
            await client.open()
            try:
                with pytest.raises(ServerError, match=r"\(2 attempts\); the server broke off its answer"):
                    await client.request("GET", "/x")
            finally:
                await client.close()

    asyncio.run(scenario())


def test_retry_after() -> None:
    def delay(value: str) -> float | None:
        return _retry_after(httpx.Headers({"Retry-After": value}))

    assert (delay("1.5"), delay("-3"), delay("soon"), _retry_after(httpx.Headers())) == (1.5, 0.0, None, None)
    later = delay(format_datetime(datetime.now(UTC) + timedelta(seconds=60), usegmt=True))
    assert later is not None
    assert 50 < later <= 60
