"""Queue records: jobs from the API to the workers, answers back.

A job is self-contained and has no effect outside its own process and folder, so any worker can run it, repeatedly if
necessary. Times shared between hosts are seconds since the epoch; all others are durations in seconds.
"""

from __future__ import annotations

import struct
import sys
from dataclasses import dataclass, replace
from typing import Literal

from pydantic import TypeAdapter
from pydantic_core import from_json, to_json

from rstar.sandbox.api import Limits

Kind = Literal["python", "cpp", "math", "cell"]
"""``cell``: Python that runs from a state and leaves a new one; the other kinds leave nothing."""

Outcome = Literal["done", "expired", "invalid", "failed", "lost"]
"""``expired``: not begun in time. ``invalid``: cannot be executed. ``failed``: the service's own failure, explained in
`message`. ``lost``: the worker lacks the source state and the job has no history to rebuild it."""


OUTPUT_BYTES = 1_000_000
"""Default limit of stdout, and of stderr, in bytes."""

LIMITS = Limits(output_bytes=OUTPUT_BYTES)
"""Default limits of a job."""


SHOWN = 1000
"""Default number of characters of stdout, and of stderr, in an answer."""

MAX_SHOWN = 4 << 20
"""Maximum characters of stdout, and of stderr, in the reply to a batch. A control character takes six bytes."""


_CELL_BYTES = 200
"""Bytes of a packed cell besides its code."""

_LARGE = 65_536
"""Characters from which a job's texts travel as they are, behind its JSON: to escape them would block the loop."""

_TEXTS = struct.Struct(">cI")
_MARK = b"T"
"""First byte of a packed job with texts behind its JSON, which follows the length of the JSON."""


@dataclass(frozen=True, slots=True)
class Cell:
    """Code run in a session, with the limits for its replay, and the status with which it ended."""

    code: str
    limits: Limits = LIMITS
    status: str = "ok"

    @property
    def size(self) -> int:
        """Bytes that it takes in a packed job, at most."""
        return _CELL_BYTES + len(self.code.encode(errors="surrogatepass"))

    @property
    def memory(self) -> int:
        """Bytes that it occupies as text: in the API, and in the worker that holds its state."""
        return 2 * sys.getsizeof(self.code)


@dataclass(slots=True)
class Job:
    """One call.

    Attributes:
        id: unique, chosen by the API.
        owner: the API instance that waits for the answer.
        kind: see `Kind`.
        code: the program; for ``math`` the text with the answer to verify.
        stdin: standard input; None for empty.
        expected: expected output or, for ``math``, answer; None for no comparison.
        limits: limits of the run.
        shown: characters of stdout, and of stderr, in the answer.
        echo: show the value of a last-line expression (cells always do).
        expires: latest time to begin, seconds since the epoch.
        state: for a cell, the id of the source state; "" for a fresh interpreter. The new state gets the job's id.
        history: for a cell, the cells that lead to `state`; sent after a worker answered ``lost``.
        client: the calling client, for fair queueing.
    """

    id: str
    owner: str
    kind: Kind
    code: str
    stdin: str | None = None
    expected: str | None = None
    limits: Limits = LIMITS
    shown: int = SHOWN
    echo: bool = False
    expires: float = 0.0
    state: str = ""
    history: tuple[Cell, ...] = ()
    client: str = ""

    @property
    def host(self) -> str:
        """The client without its port."""
        return self.client.rpartition(":")[0]

    def clear(self) -> None:
        """Free the contents of a cancelled job, which may stay queued for long."""
        self.code, self.stdin, self.expected, self.history = "", None, None, ()


@dataclass(slots=True)
class Answer:
    """Answer to a job.

    Attributes:
        id: the job's id.
        outcome: see `Outcome`; the run's fields below apply to ``done`` only.
        worker: the worker process that ran it.
        status: status of the run, as in `rstar.sandbox.api.Result`; for ``math``, ``ok`` if both sides were parsed.
        success: the run succeeded and its output matches the expected one, if given.
        stdout, stderr: the beginning of the output.
        truncated: stdout or stderr is longer.
        seconds: wall time of the run.
        exit_code, signal: how the process ended, if known.
        error: type, message and line of an exception.
        lives: for a cell, whether it left a state.
        values: for a cell, (name, new value) of variables.
        message: reason of a failure.
    """

    id: str
    outcome: Outcome = "done"
    worker: str = ""
    status: str = "ok"
    success: bool = False
    stdout: str = ""
    stderr: str = ""
    truncated: bool = False
    seconds: float = 0.0
    exit_code: int | None = None
    signal: int | None = None
    error: tuple[str, str, int | None] | None = None
    lives: bool = False
    values: tuple[tuple[str, str], ...] = ()
    message: str = ""


@dataclass(frozen=True, slots=True)
class _Head:
    """A large job without its texts, and the bytes of each; None for no text."""

    job: Job
    sizes: list[int | None]


_JOB, _HEAD, _ANSWER = TypeAdapter(Job), TypeAdapter(_Head), TypeAdapter(Answer)


def pack_job(job: Job) -> bytes:
    """Serialize a job: to JSON, with large texts behind it. Raises `ValueError` for half a character."""
    texts = [job.code, job.stdin, job.expected, *(cell.code for cell in job.history)]
    if sum(len(text) for text in texts if text is not None) < _LARGE:
        return to_json(job)
    encoded = [None if text is None else text.encode() for text in texts]
    history = tuple(replace(cell, code="") for cell in job.history)
    bare = replace(job, code="", stdin=None, expected=None, history=history)
    head = to_json(_Head(bare, [None if text is None else len(text) for text in encoded]))
    return b"".join((_TEXTS.pack(_MARK, len(head)), head, *(text for text in encoded if text is not None)))


def read_job(data: bytes) -> Job:
    """Parse a packed job. Raises `ValueError`."""
    if data[:1] != _MARK or len(data) < _TEXTS.size:
        return _JOB.validate_json(data)
    start = _TEXTS.size + _TEXTS.unpack_from(data)[1]
    head = _HEAD.validate_json(data[_TEXTS.size : start])
    texts: list[str | None] = []
    with memoryview(data) as view:
        for size in head.sizes:
            texts.append(None if size is None else str(view[start : start + size], "utf-8"))
            start += size or 0
    code, head.job.stdin, head.job.expected, *cells = texts
    if start != len(data) or code is None or len(cells) != len(head.job.history) or None in cells:
        raise ValueError("a packed job with the wrong number of texts, or of another length")
    head.job.code = code
    head.job.history = tuple(
        replace(cell, code=text) for cell, text in zip(head.job.history, cells, strict=True) if text is not None
    )
    return head.job


def pack_answer(answer: Answer) -> bytes:
    """Serialize an answer to JSON; if that fails, an answer with the failure."""
    try:
        return to_json(answer)
    except ValueError as error:
        return to_json(unsent(answer, error))


def unsent(answer: Answer, error: ValueError) -> Answer:
    """The ``failed`` answer in place of one that cannot be sent."""
    return Answer(answer.id, "failed", answer.worker, message=f"an answer that cannot be sent: {error}")


def read_answer(data: bytes) -> Answer:
    """Parse a packed answer. Raises `ValueError`."""
    return _ANSWER.validate_json(data)


def failed_answer(data: bytes) -> Answer | None:
    """The ``failed`` answer in place of one that cannot be read; None if it does not name its job."""
    try:
        found = from_json(data)
    except ValueError:
        return None
    name = found.get("id") if isinstance(found, dict) else None
    message = "the worker's answer cannot be read: is the worker of another version?"
    return Answer(name, "failed", message=message) if isinstance(name, str) else None
