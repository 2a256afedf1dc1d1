"""JSON client for one server: connection pool, concurrency limit, retries, clear errors.

Retried, after exponential backoff with jitter (or the server's ``Retry-After``, at most 30 seconds): 408, 429, 5xx,
lost or refused connections, requests that take too long, and answers that are none (`InvalidAnswerError`), such as the
page of a proxy. All other errors raise at once. The key is sent but never appears in a message. Callers convert
`ServerError` to the error of their own boundary.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import suppress
from email.utils import parsedate_to_datetime
from typing import Any, TypeVar

import httpx

from rstar.errors import ServerError

T = TypeVar("T")
_MAX_PAUSE = 30.0
_EXCERPT = 400


class HttpRefusedError(ServerError):
    """The server answered with an error status."""

    def __init__(self, where: str, status: int, body: str, retry_after: float | None = None) -> None:
        """`where` is the URL; `retry_after` is the delay that the server asked for, in seconds."""
        super().__init__(f"{where}: HTTP {status}: {body[:_EXCERPT].strip() or '(empty body)'}")
        self.status, self.body, self.retry_after = status, body, retry_after

    @property
    def retryable(self) -> bool:
        """Whether the same request may succeed later."""
        return self.status in (408, 429) or self.status >= 500


class InvalidAnswerError(ServerError):
    """The server reports success, but its answer is an error or not one of its API; it may succeed later."""


_HINTS: Mapping[type[httpx.TransportError], str] = {
    httpx.ConnectError: "; is a server running there?",
    httpx.RemoteProtocolError: "; the server broke off its answer: it may serve one request at a time",
}
"""What errors of the connection can mean."""


class ServerClient:
    """HTTP client for one server; use in ``async with``.

    Attributes:
        url: base URL.
        overloads: how often the server has refused a request because it had too many (429 or 503).
    """

    def __init__(
        self,
        url: str,
        *,
        key: str | None,
        concurrency: int,
        timeout: float | httpx.Timeout,
        retries: int,
        pause: float = 0.5,
    ) -> None:
        """Configure the client.

        Args:
            url: base of all paths.
            key: sent as a bearer token.
            concurrency: maximum number of concurrent requests.
            timeout: seconds for a whole request; an `httpx.Timeout` limits its parts instead.
            retries: attempts after the first.
            pause: the first retry delay, in seconds.
        """
        self.url = url.rstrip("/")
        self.overloads = 0
        self._headers = {"Authorization": f"Bearer {key}"} if key else {}
        self._concurrency, self._timeout, self._retries, self._pause = concurrency, timeout, retries, pause
        self._deadline = None if isinstance(timeout, httpx.Timeout) else timeout
        self._client: httpx.AsyncClient | None = None

    async def open(self) -> None:
        """Create the connection pool in the running event loop."""
        limits = httpx.Limits(max_connections=self._concurrency, max_keepalive_connections=self._concurrency)
        self._slots = asyncio.Semaphore(self._concurrency)
        # Loading certificates takes a third of a second; plain HTTP needs none.
        verify = self.url.startswith("https:")
        self._client = httpx.AsyncClient(headers=self._headers, limits=limits, timeout=self._timeout, verify=verify)

    async def close(self) -> None:
        """Close all connections."""
        if self._client is not None:
            await self._client.aclose()
            self._client = None

    async def get(self, path: str) -> Any:
        """The JSON at `path`, or None if the server has none there.

        Raises:
            HttpRefusedError: the server refuses the key.
            ServerError: the server is unreachable.
        """

        async def attempt(client: httpx.AsyncClient) -> Any:
            try:
                return await self._fetch(client, "GET", path, None)
            except HttpRefusedError as error:
                if error.status in (401, 403):
                    raise
                return None

        return await self._with_retries(path, attempt, min(1, self._retries))  # fail fast on first contact

    async def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        retries: int | None = None,
        read: Callable[[Any], Any] | None = None,
    ) -> Any:
        """The JSON response, None if it is empty; or the result of `read` on it.

        Raises:
            HttpRefusedError: the server answers with an error status.
            InvalidAnswerError: the response is not JSON, or `read` raises this error; it is retried.
            ServerError: the server is unreachable.
        """

        async def attempt(client: httpx.AsyncClient) -> Any:
            answer = await self._fetch(client, method, path, body)
            return answer if read is None else read(answer)

        return await self._with_retries(path, attempt, retries)

    async def post_lines(self, path: str, next_body: Callable[[], Any], on_line: Callable[[str], object]) -> None:
        """Post `next_body()` until it is None; pass each line of the responses to `on_line` as it arrives."""

        async def attempt(client: httpx.AsyncClient) -> None:
            while (body := next_body()) is not None:
                headers = {"Accept": "application/x-ndjson"}
                async with client.stream("POST", self.url + path, json=body, headers=headers) as response:
                    if response.is_error:
                        await response.aread()
                        raise self._refused_error(path, response)
                    async for line in _lines(response):
                        on_line(line)

        await self._with_retries(path, attempt)

    async def stream(self, path: str, body: dict[str, Any], read: Callable[[AsyncIterator[Any]], Awaitable[T]]) -> T:
        """Post `body`; return the result of `read` on the server-sent events. The connection closes after it.

        Errors are those of `request`.
        """

        async def attempt(client: httpx.AsyncClient) -> T:
            async with client.stream("POST", self.url + path, json=body) as response:
                if response.is_error:
                    await response.aread()
                    raise self._refused_error(path, response)
                return await read(self._events(path, response))

        return await self._with_retries(path, attempt)

    async def _fetch(self, client: httpx.AsyncClient, method: str, path: str, body: dict[str, Any] | None) -> Any:
        # A server that fails a GET may drop the connection silently: do not reuse it for a POST.
        headers = {"Connection": "close"} if method == "GET" else None
        response = await client.request(method, self.url + path, json=body, headers=headers)
        if response.is_error:
            raise self._refused_error(path, response)
        if not response.content:
            return None
        try:
            return response.json()
        except ValueError:
            raise InvalidAnswerError(f"{self.url}{path}: not JSON: {response.text[:_EXCERPT]!r}") from None

    async def _events(self, path: str, response: httpx.Response) -> AsyncIterator[Any]:
        async for line in _lines(response):
            data = line.removeprefix("data:").strip()
            if not line.startswith("data:") or data == "[DONE]":
                continue
            try:
                event = json.loads(data)
            except ValueError:
                raise InvalidAnswerError(f"{self.url}{path}: not JSON in a stream: {data[:_EXCERPT]!r}") from None
            if isinstance(event, dict) and event.get("error"):
                raise InvalidAnswerError(f"{self.url}{path}: {str(event['error'])[:_EXCERPT]}")
            yield event

    async def _with_retries(
        self, path: str, attempt: Callable[[httpx.AsyncClient], Awaitable[T]], retries: int | None = None
    ) -> T:
        pause = self._pause
        retries = self._retries if retries is None else retries
        for retries_left in range(retries, -1, -1):
            if self._client is None:
                raise ServerError(f"{self.url}: the client is not open; use it in `async with`")
            wait = None
            try:
                async with self._slots, asyncio.timeout(self._deadline):
                    return await attempt(self._client)
            except HttpRefusedError as error:
                self.overloads += error.status in (429, 503)
                if not error.retryable or not retries_left:
                    raise
                wait = error.retry_after
            except InvalidAnswerError:
                if not retries_left:
                    raise
            except (httpx.InvalidURL, httpx.DecodingError, httpx.TooManyRedirects) as error:
                raise ServerError(f"{self.url}{path}: {type(error).__name__}: {error}") from error
            except (httpx.TransportError, TimeoutError) as error:
                if not retries_left:
                    reason = f"{type(error).__name__}: {error}".removesuffix(": ")
                    if isinstance(error, TimeoutError | httpx.ReadTimeout):
                        reason = f"no complete answer within {self._deadline:g} seconds" if self._deadline else reason
                    hint = next((hint for kind, hint in _HINTS.items() if isinstance(error, kind)), "")
                    tries = f"{retries + 1} attempt{'s' * (retries > 0)}"
                    raise ServerError(f"{self.url}{path}: {reason} ({tries}){hint}") from error
            # Jitter keeps failed requests from retrying in lockstep.
            await asyncio.sleep(pause * random.uniform(0.5, 1.0) if wait is None else min(wait, _MAX_PAUSE))
            pause = min(2 * pause, _MAX_PAUSE)
        raise AssertionError("unreachable")

    def _refused_error(self, path: str, response: httpx.Response) -> HttpRefusedError:
        return HttpRefusedError(self.url + path, response.status_code, response.text, _retry_after(response.headers))


async def _lines(response: httpx.Response) -> AsyncIterator[str]:
    r"""The lines of a response: up to each \n or \r\n. JSON may hold the other line ends of Unicode as they are."""
    rest = b""
    async for part in response.aiter_bytes():
        *lines, rest = (rest + part).split(b"\n")
        for line in lines:
            yield line.removesuffix(b"\r").decode(errors="replace")
    if rest:
        yield rest.decode(errors="replace")


def _retry_after(headers: httpx.Headers) -> float | None:
    """Delay in seconds from a ``Retry-After`` header, which may also hold a date."""
    value = headers.get("Retry-After")
    if value is None:
        return None
    with suppress(ValueError):
        return max(0.0, float(value))
    with suppress(ValueError):
        return max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
    return None
