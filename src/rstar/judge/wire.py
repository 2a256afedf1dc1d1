"""HTTP request and reply models, compatible with the reference service.

Routes, fields, defaults and `reason` codes are those of Code Judge (the service used by rStar2-Agent), so its clients
run unchanged. Extensions are optional request fields and additional reply fields.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, StrictBool, model_validator

from rstar.judge.queue.jobs import SHOWN, Answer

Reason = Literal["", "internal_error", "worker_timeout", "queue_timeout", "invalid_input"]
MAX_SUBMISSIONS = 10_000
"""Maximum submissions per batch."""

TIMEOUT_LINE = "Suicide from timeout.\n"
"""Last line of stdout after a timeout, as in the reference service: clients look for it."""


def _to_int(value: object) -> object:
    """JSON has one number type: 5.0 is an integer."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


_INTEGRAL = BeforeValidator(_to_int)
Megabytes = Annotated[int, Field(ge=16, le=65_536), _INTEGRAL]
Bytes = Annotated[int, Field(ge=100, le=1_000_000), _INTEGRAL]
Characters = Annotated[int, Field(ge=0, le=1_000_000), _INTEGRAL]
Variables = Annotated[int, Field(ge=0, le=16), _INTEGRAL]


def _printable(value: str) -> str:
    """Replace lone surrogates, which cannot be sent back."""
    return value.encode(errors="replace").decode()


def _texts(value: object) -> object:
    """Reject an object at its first value that is not a string; pydantic would report every one."""
    if isinstance(value, dict) and not all(isinstance(item, str) for item in value.values()):
        raise ValueError("expected string values")
    return value


Options = Annotated[dict[str, str], BeforeValidator(_texts)]
Name = Annotated[str, AfterValidator(_printable)]


class _Strict(BaseModel):
    """A model that rejects unknown fields. Of very many, it reports only the first: each error takes time."""

    model_config = ConfigDict(extra="forbid", strict=True)

    @model_validator(mode="before")
    @classmethod
    def _first_unknown(cls, value: object) -> object:
        if not isinstance(value, dict) or len(value) <= len(cls.model_fields):
            return value
        unknown = next(name for name in value if name not in cls.model_fields)
        return {name: item for name, item in value.items() if name in cls.model_fields or name == unknown}


class CallLimits(_Strict):
    """Limits of one call; omitted fields use the service's defaults."""

    seconds: float | None = Field(None, gt=0, le=3600, description="wall time, seconds")
    memory_mb: Megabytes | None = Field(None, description="memory, MiB")
    output_bytes: Bytes | None = Field(
        None, description="limit of stdout, and of stderr, in bytes; a program that writes more is terminated"
    )
    shown: Characters | None = Field(
        None, description="maximum number of characters of stdout, and of stderr, in the reply"
    )
    values: Variables = Field(0, description="cells: maximum number of new values of variables in the reply")
    in_place: bool = Field(False, description="cells: report also the values of lists that were changed in place")


class Submission(BaseModel):
    """One program to run or, for ``math``, one answer to verify."""

    sub_id: Name | None = Field(None, description="id of the submission; generated if omitted")
    type: Literal["python", "cpp", "math"] = Field(description="kind of the solution")
    options: Options | None = Field(None, description="accepted for compatibility; ignored")
    solution: str = Field(description="the program; for math, the text that contains the answer")
    input: str | None = Field(None, description="standard input; null for empty")
    expected_output: str | None = Field(None, description="compared with stdout, both stripped; math: the gold answer")
    limits: CallLimits | None = Field(None, description="limits of this call; defaults where omitted")
    echo: StrictBool = Field(False, description="python: show the value of a last-line expression, as a notebook does")


class Batch(BaseModel):
    """Several submissions, answered together and in order."""

    sub_id: Name | None = Field(None, description="id of the batch; generated if omitted")
    type: Literal["batch"] = "batch"
    submissions: list[Submission] = Field(
        min_length=1, max_length=MAX_SUBMISSIONS, fail_fast=True, description="submissions, at least one"
    )


class Verdict(BaseModel):
    """Reply of `/judge` for one submission."""

    sub_id: str = Field(description="id of the submission")
    success: bool = Field(description="the program succeeded, and its output matches the expected one")
    run_success: bool = Field(description="the program ended with exit code 0")
    cost: float = Field(description="wall time of the run, seconds")
    reason: Reason = Field("", description="why there is no result; empty if there is one")


class Report(Verdict):
    """Reply of `/run` for one submission."""

    stdout: str | None = Field(None, description="beginning of stdout, see limits.shown")
    stderr: str | None = Field(None, description="beginning of stderr; if reason is not empty, the cause")
    status: str | None = Field(None, description="ok | error | timeout | memory | killed | output_limit")
    exit_code: int | None = Field(None, description="exit code of C++, or of Python that called sys.exit or os._exit")
    signal: int | None = Field(None, description="the signal that killed the program")
    truncated: bool = Field(False, description="stdout or stderr is longer than shown")
    error: Failure | None = Field(None, description="the exception that ended a Python program")


class Failure(BaseModel):
    """The exception that ended a Python program."""

    kind: str = Field(description="type of the exception")
    message: str = Field(description="message of the exception")
    line: int | None = Field(description="line of the submission, counted from 1")


class BatchVerdicts(BaseModel):
    """Reply of `/judge/batch`."""

    sub_id: str = Field(description="id of the batch")
    results: list[Verdict] = Field(description="in the order of the submissions")


class BatchReports(BaseModel):
    """Reply of `/run/batch`."""

    sub_id: str = Field(description="id of the batch")
    results: list[Report] = Field(description="in the order of the submissions")


class Status(BaseModel):
    """The service's state."""

    queue: int = Field(description="number of waiting calls")
    num_workers: int = Field(description="number of programs that can run at a time")


class CellRequest(_Strict):
    """Code to run in a session."""

    code: str = Field(description="Python; the value of a last-line expression is shown")
    limits: CallLimits | None = Field(None, description="limits of this cell; defaults where omitted")
    fork: bool = Field(False, description="run in a copy: the session is unchanged, and the reply names the copy")


class CellReply(BaseModel):
    """Result of a cell."""

    session_id: str | None = Field(description="the session after the cell; null for a copy that did not survive")
    status: str = Field(description="ok | error | timeout | memory | killed | output_limit")
    stdout: str = Field(description="beginning of stdout, see limits.shown")
    stderr: str = Field(description="beginning of stderr, see limits.shown")
    seconds: float = Field(description="wall time of the cell")
    truncated: bool = Field(description="stdout or stderr is longer than shown")
    exit_code: int | None = Field(description="exit code, if the cell ended the process and it is known")
    signal: int | None = Field(description="the signal that killed the process")
    error: Failure | None = Field(description="the exception that ended the cell")
    values: list[tuple[str, str]] = Field(description="names and new values of variables, see limits.values")


class Refusal(BaseModel):
    """Reason why a request was rejected."""

    detail: str = Field(description="the reason")


UNREADABLE: dict[int | str, dict[str, Any]] = {400: {"model": Refusal, "description": "the body is not text"}}
FULL: dict[int | str, dict[str, Any]] = {503: {"model": Refusal, "description": "the queue is full; retry later"}}
LARGE: dict[int | str, dict[str, Any]] = {413: {"model": Refusal, "description": "the request is too large"}}
"""Refusals in the routes' OpenAPI documentation."""


class SessionReply(BaseModel):
    """A session."""

    session_id: str = Field(description="id of the session")
    cells: int = Field(description="number of cells that have run in the session")


def report(sub_id: str, answer: Answer, shown: int) -> Report:
    """Convert an answer to a report."""
    if answer.outcome != "done":
        reasons: dict[str, Reason] = {"expired": "queue_timeout", "invalid": "invalid_input"}
        reason = reasons.get(answer.outcome, "internal_error")
        message = answer.message or ("no worker was free in time" if reason == "queue_timeout" else "")
        return Report(sub_id=sub_id, success=False, run_success=False, cost=0.0, reason=reason, stderr=message)
    timed_out = answer.status == "timeout"
    stdout = answer.stdout + TIMEOUT_LINE if timed_out else answer.stdout
    return Report(
        sub_id=sub_id,
        success=answer.success,
        run_success=answer.status == "ok",
        cost=answer.seconds,
        reason="worker_timeout" if timed_out else "",
        **run_fields(answer, stdout, shown),
    )


def run_fields(answer: Answer, stdout: str, shown: int) -> dict[str, Any]:
    """The fields of a run that `Report` and `CellReply` share."""
    return {
        "stdout": stdout[:shown],
        "stderr": answer.stderr[:shown],
        "status": answer.status,
        "exit_code": answer.exit_code,
        "signal": answer.signal,
        "truncated": answer.truncated or max(len(stdout), len(answer.stderr)) > shown,
        "error": answer.error and Failure(**dict(zip(("kind", "message", "line"), answer.error, strict=True))),
    }


def shown(limits: CallLimits | None) -> int:
    """Characters of stdout, and of stderr, in a reply."""
    return SHOWN if limits is None or limits.shown is None else limits.shown


def verdict(report: Report) -> Verdict:
    """Convert a report to a verdict, without output."""
    return Verdict(**{name: getattr(report, name) for name in Verdict.model_fields})


def verdicts(reports: BatchReports) -> BatchVerdicts:
    """Convert a batch's reports to verdicts."""
    return BatchVerdicts(sub_id=reports.sub_id, results=list(map(verdict, reports.results)))
