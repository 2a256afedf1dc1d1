"""Queue records: jobs from the API to the workers, answers back.

A job is self-contained and has no effect outside its own process and folder, so any worker can run it, repeatedly if
necessary. Times shared between hosts are seconds since the epoch; all others are durations in seconds.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Literal

from pydantic import TypeAdapter
from pydantic_core import to_json

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


@dataclass(frozen=True, slots=True)
class Cell:
    """Code run in a session, with the limits for its replay."""

    code: str
    limits: Limits = LIMITS

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


_JOB, _ANSWER = TypeAdapter(Job), TypeAdapter(Answer)


def pack(record: Job | Answer | Cell) -> bytes:
    """Serialize to JSON."""
    return to_json(record)


def pack_answer(answer: Answer) -> bytes:
    """Serialize an answer; if that fails, an answer with the failure."""
    try:
        return pack(answer)
    except ValueError as error:
        return pack(unsent(answer, error))


def unsent(answer: Answer, error: ValueError) -> Answer:
    """The ``failed`` answer in place of one that cannot be sent."""
    return Answer(answer.id, "failed", answer.worker, message=f"an answer that cannot be sent: {error}")


def read_job(data: bytes) -> Job:
    """Parse a packed job. Raises `ValueError`."""
    return _JOB.validate_json(data)


def read_answer(data: bytes) -> Answer:
    """Parse a packed answer. Raises `ValueError`."""
    return _ANSWER.validate_json(data)
