"""Client of the judge service: `JudgeClient` for calls, `JudgeSandbox` as a sandbox.

Waiting calls are sent in batches, and each returns as soon as it is done. A lost connection, a restarted service and a
full queue are retried with growing pauses; only unanswered calls are sent again. Persistent failures raise
`JudgeError`; a failed program never raises.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter, deque
from collections.abc import Sequence
from typing import Any, NamedTuple, Self, cast

import httpx

from rstar.errors import ConfigError, SandboxError, ServerError
from rstar.http_client import HttpRefusedError, ServerClient
from rstar.judge.wire import TIMEOUT_LINE, CallLimits, CellReply, CellRequest, Report, SessionReply, Submission
from rstar.lifecycle import SharedContext
from rstar.sandbox.api import CodeError, Limits, Result, Status

BATCH = 32
"""Maximum calls per request."""

_MAX_REBUILDS = 3
_LOST = f"the session was lost {_MAX_REBUILDS} times in a row"
_FIRST_RETRIES = 3  # fail fast on the first contact
_TIMEOUT = httpx.Timeout(3_700.0, connect=10.0)


class JudgeError(SandboxError):
    """The service is unreachable, refuses a call, or failed on it."""


class SessionGoneError(JudgeError):
    """The session no longer exists."""


class QueueTimeoutError(JudgeError):
    """No worker was free in time."""


class _Call(NamedTuple):
    submission: Submission
    future: asyncio.Future[Report]


class JudgeClient:
    """Calls to one service; use in ``async with``.

    Args:
        url: the service's URL.
        token: bearer token, if required.
        connections: concurrent requests.
        retries: attempts after the first, with pauses that grow to 30 s.
    """

    def __init__(self, url: str, token: str | None = None, connections: int = 16, retries: int = 10) -> None:
        if not url.startswith(("http://", "https://")):
            raise ConfigError(f"judge service: expected a URL such as http://host:8000, not {url!r}")
        self.url = url.rstrip("/")
        self._http = ServerClient(
            self.url, key=token, concurrency=2 * connections, timeout=_TIMEOUT, retries=retries, pause=0.1
        )
        self._connections = connections
        self._waiting: deque[_Call] = deque()
        self._senders: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        """Open the connection pool. Raises `JudgeError` if the service is unreachable or refuses the token."""
        await self._http.open()
        try:
            await self.request("GET", "/status", retries=_FIRST_RETRIES)
        except BaseException:
            await self._http.close()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        """Cancel pending calls and close the pool."""
        for sender in self._senders:
            sender.cancel()
        await asyncio.gather(*self._senders, return_exceptions=True)
        await self._http.close()

    async def run(self, submission: Submission) -> Report:
        """Run a submission and return its report. Raises `JudgeError`."""
        if not isinstance(submission, Submission):
            raise TypeError(f"expected a Submission, not {type(submission).__name__}")
        call = _Call(submission, asyncio.get_running_loop().create_future())
        self._waiting.append(call)
        if len(self._senders) < self._connections:
            sender = asyncio.create_task(self._send())
            self._senders.add(sender)
            sender.add_done_callback(self._senders.discard)
        report = await call.future
        if report.reason == "queue_timeout":
            raise QueueTimeoutError(f"{self.url}: no worker was free in time")
        if report.reason in ("internal_error", "invalid_input"):
            raise JudgeError(f"{self.url}: {report.reason}: {report.stderr}")
        return report

    async def request(
        self, method: str, path: str, body: dict[str, Any] | None = None, retries: int | None = None
    ) -> Any:
        """Send a request and return the reply's JSON. Raises `JudgeError`; `SessionGoneError` for 404."""
        try:
            return await self._http.request(method, path, body, retries)
        except ServerError as error:
            gone = isinstance(error, HttpRefusedError) and error.status == 404
            raise (SessionGoneError if gone else JudgeError)(str(error)) from error

    async def _send(self) -> None:
        while self._waiting:
            await asyncio.sleep(0)  # lets concurrent callers join the batch
            batch = _Batch([self._waiting.popleft() for _ in range(min(BATCH, len(self._waiting)))])
            try:
                await self._http.post_lines("/run/long-batch", batch.request, batch.on_line)
            except Exception as error:
                reason = str(error) if isinstance(error, ServerError) else f"{type(error).__name__}: {error}"
                for call in batch.unanswered().values():
                    call.future.set_exception(JudgeError(reason))
            except BaseException:
                for call in batch.unanswered().values():
                    call.future.cancel()
                raise


class _Batch:
    """Calls of one request, named by position."""

    def __init__(self, calls: Sequence[_Call]) -> None:
        self._calls = {str(number): call for number, call in enumerate(calls)}

    def unanswered(self) -> dict[str, _Call]:
        return {name: call for name, call in self._calls.items() if not call.future.done()}

    def request(self) -> dict[str, Any] | None:
        """The request for the unanswered calls; None if there are none."""
        submissions = [
            call.submission.model_copy(update={"sub_id": name}).model_dump(exclude_none=True)
            for name, call in self.unanswered().items()
        ]
        return {"type": "batch", "submissions": submissions} if submissions else None

    def on_line(self, line: str) -> None:
        report = Report.model_validate_json(line)
        call = self._calls.get(report.sub_id)
        if call is not None and not call.future.done():
            call.future.set_result(report)


class JudgeSandbox(SharedContext):
    """The service as a `rstar.sandbox.api.Sandbox`: programs are calls, states are sessions.

    Args:
        client: opened and closed with the sandbox.
        limits: default limits of a run.
    """

    def __init__(self, client: JudgeClient, limits: Limits | None = None) -> None:
        super().__init__()
        self._client, self._limits = client, limits or Limits()
        self._deletions: set[asyncio.Task[None]] = set()

    async def _open(self) -> None:
        await self._client.__aenter__()

    async def _close(self) -> None:
        await asyncio.gather(*self._deletions, return_exceptions=True)
        await self._client.__aexit__()

    def start(self) -> JudgeState:
        """See `Sandbox.start`."""
        return JudgeState(self, None, "", self._limits, None)

    async def run(self, code: str, stdin: str | None = None, limits: Limits | None = None) -> Result:
        """See `Sandbox.run`."""
        if (refused := _encoding_error(code)) is not None:
            return refused
        call_limits = _wire_limits(limits or self._limits)
        report = await self._client.run(
            Submission(type="python", solution=code, input=stdin, limits=call_limits, echo=True)
        )
        return _result(report, report.cost)

    async def verify(self, gold: str, text: str) -> bool:
        """Whether the answer in `text` equals `gold`, as the service's grader decides. Raises `JudgeError`."""
        submission = Submission(type="math", solution=text, expected_output=gold)
        return (await self._client.run(submission)).success

    def _end_session(self, session: str) -> None:
        if self._users:
            task = asyncio.get_running_loop().create_task(self._delete_session(session))
            self._deletions.add(task)
            task.add_done_callback(self._deletions.discard)

    async def _delete_session(self, session: str) -> None:
        with contextlib.suppress(JudgeError):
            await self._client.request("DELETE", f"/sessions/{session}")


class JudgeState:
    """See `State`. It keeps its code, so a session that the service has lost can be rebuilt."""

    def __init__(
        self,
        sandbox: JudgeSandbox,
        parent: JudgeState | None,
        code: str,
        limits: Limits,
        session: str | None,
        status: str = "ok",
    ) -> None:
        self._sandbox, self._parent, self._code, self._own_limits = sandbox, parent, code, limits
        self._session, self._status = session, status
        self._session_lock = asyncio.Lock()
        self._released = False

    async def run(self, code: str, limits: Limits | None = None) -> tuple[JudgeState | None, Result]:
        """See `State.run`."""
        if self._released:
            raise SandboxError("the state has been released")
        limits = limits or self._sandbox._limits
        if (refused := _encoding_error(code)) is not None:
            return JudgeState(self._sandbox, self, "", limits, None), refused
        reply = await self._reply(code, limits)
        result = _result(reply, reply.seconds)
        if reply.session_id is None:
            return None, result
        return JudgeState(self._sandbox, self, code, limits, reply.session_id, reply.status), result

    def release(self) -> None:
        """See `State.release`."""
        session, self._session = self._session, None
        if not self._released and session is not None:
            self._sandbox._end_session(session)
        self._released = True

    async def _reply(self, code: str, limits: Limits) -> CellReply:
        for _ in range(_MAX_REBUILDS):
            session = await self._session_id()
            if (reply := await self._reply_from(session, code, limits)) is not None:
                return reply
        raise JudgeError(_LOST)

    async def _reply_from(self, session: str, code: str, limits: Limits) -> CellReply | None:
        """The reply of this state's session; None if the service has lost the session."""
        body = CellRequest(code=code, limits=_wire_limits(limits), fork=True).model_dump(exclude_none=True)
        try:
            reply = await self._sandbox._client.request("POST", f"/sessions/{session}/run", body)
        except SessionGoneError:
            if self._session == session:
                self._session = None
            return None
        return CellReply.model_validate(reply)

    async def _session_id(self) -> str:
        """The session id. If the service has lost the session, it is rebuilt from the nearest ancestor's.

        A loop: the chain of states may be longer than Python's stack.
        """
        losses: Counter[JudgeState] = Counter()
        while (session := self._session) is None:
            state = self
            while state._parent is not None and state._parent._session is None:
                state = state._parent
            if not await state._rebuild():
                losses[state] += 1
                if losses[state] == _MAX_REBUILDS:
                    raise JudgeError(_LOST)
        return session

    async def _rebuild(self) -> bool:
        """Make this state's session from its parent's. Returns False if the parent's was lost meanwhile."""
        async with self._session_lock:
            if self._session is not None:
                return True
            if self._parent is None:
                created = await self._sandbox._client.request("POST", "/sessions")
                self._session = SessionReply.model_validate(created).session_id
                return True
            session = self._parent._session
            reply = session and await self._parent._reply_from(session, self._code, self._own_limits)
            if not reply:
                return False
            if reply.session_id is None or reply.status != self._status:
                if reply.session_id is not None:
                    self._sandbox._end_session(reply.session_id)
                raise JudgeError(f"the session could not be rebuilt: its code now ended in {reply.status!r}")
            self._session = reply.session_id
            return True


def _encoding_error(code: str) -> Result | None:
    """The result for code that cannot be encoded, the same error as Python's; None if it can."""
    try:
        code.encode()
    except UnicodeEncodeError as error:
        name = type(error).__name__
        return Result("error", stderr=f"{name}: {error}\n", error=CodeError(name, str(error), None))
    return None


def _wire_limits(limits: Limits) -> CallLimits:
    return CallLimits(
        seconds=limits.seconds,
        memory_mb=limits.memory_mb,
        output_bytes=limits.output_bytes,
        shown=limits.output_bytes,
        values=limits.values,
        in_place=limits.in_place,
    )


def _result(reply: Report | CellReply, seconds: float) -> Result:
    error = reply.error
    stdout = (reply.stdout or "").removesuffix(TIMEOUT_LINE) if reply.status == "timeout" else reply.stdout or ""
    return Result(
        status=cast(Status, reply.status),
        stdout=stdout,
        stderr=reply.stderr or "",
        error=None if error is None else CodeError(error.kind, error.message, error.line),
        seconds=seconds,
        truncated=reply.truncated,
        exit_code=reply.exit_code,
        signal=reply.signal,
        values=tuple(reply.values) if isinstance(reply, CellReply) else (),
    )
