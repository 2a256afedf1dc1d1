"""What the API hands to the workers, and what comes back: the records on every queue.

A job is self-contained, so any worker can do it, again if need be: doing one has no effect outside its own process and
folder. Times are seconds since the epoch where hosts must agree, else durations in seconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pydantic import TypeAdapter
from pydantic_core import to_json

from rstar.sandbox.api import Limits

Kind = Literal["python", "cpp", "math", "cell"]
"""``cell``: Python that runs in a state and leaves one; the other kinds leave nothing."""

Outcome = Literal["done", "expired", "invalid", "failed", "lost"]
"""``expired``: not begun before the job's time was up. ``invalid``: it asks for nothing that can be done. ``failed``:
the service's own failure; `message` says why. ``lost``: the worker does not have the state to run from, and the job
does not say what leads to it."""


OUTPUT_BYTES = 1_000_000
"""Limit of stdout, and of stderr, of a job that asks for none."""

LIMITS = Limits(output_bytes=OUTPUT_BYTES)
"""Limits of a job that asks for none."""


SHOWN = 1000
"""Characters of stdout and stderr in an answer to a job that asks for no more."""

MOST_SHOWN = 4 << 20
"""Characters of stdout, and as many of stderr, in the reply to a batch. Control characters take six bytes each."""


@dataclass(frozen=True, slots=True)
class Cell:
    """Code that has run in a session, with what decides its course when it is replayed."""

    code: str
    limits: Limits = LIMITS


@dataclass(slots=True)
class Job:
    """One call.

    Attributes:
        id: unique, chosen by the API.
        owner: the API instance that waits for the answer.
        kind: see `Kind`.
        code: the program; for ``math`` the text with the answer to verify.
        stdin: standard input, None for an empty one.
        expected: output (or, for ``math``, answer) to compare with, None for no comparison.
        limits: of its run.
        shown: how many characters of each the answer shall have.
        echo: show the value of a last-line expression (cells always do).
        expires: when it is too late to begin, seconds since the epoch.
        state: of a cell, the id of the state to run from; "" for a fresh interpreter. The new state has the job's id.
        history: of a cell, what leads to `state`, for a worker that has said that it does not have it.
        client: who asks, for taking turns.
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

    def clear(self) -> None:
        """Forget what it says: nobody waits for it any more, and it may be long until its turn comes."""
        self.code, self.stdin, self.expected, self.history = "", None, None, ()


@dataclass(slots=True)
class Answer:
    """What came of a job.

    Attributes:
        id: of the job.
        outcome: see `Outcome`; all that follows is meant for ``done`` only.
        worker: which worker process did it.
        status: of the run, as in `rstar.sandbox.api.Result`; for ``math``, ``ok`` when both sides could be read.
        success: the run ended well and its output is the expected one, if there was one.
        stdout, stderr: the beginning of what the run wrote.
        truncated: there is more of it.
        seconds: wall time of the run.
        exit_code, signal: how the process ended, where that is known.
        error: type, message and line of an exception.
        lives: of a cell, whether it left a state.
        values: of a cell, name and new value of variables.
        message: why the service failed.
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
    """As JSON."""
    return to_json(record)


def pack_answer(answer: Answer) -> bytes:
    """`pack` of an answer; of one that cannot be packed, the failure to."""
    try:
        return pack(answer)
    except ValueError as error:
        return pack(unsent(answer, error))


def unsent(answer: Answer, error: ValueError) -> Answer:
    """The answer in place of one that cannot be sent."""
    return Answer(answer.id, "failed", answer.worker, message=f"an answer that cannot be sent: {error}")


def read_job(data: bytes) -> Job:
    """A job from `pack`. Raises `ValueError`."""
    return _JOB.validate_json(data)


def read_answer(data: bytes) -> Answer:
    """An answer from `pack`. Raises `ValueError`."""
    return _ANSWER.validate_json(data)
