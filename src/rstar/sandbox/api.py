"""The sandbox interface: limits in, a typed result out, interpreter states in between.

Search and judge use `Sandbox`. `rstar.sandbox.parent.local.LocalSandbox` runs code on this machine;
`rstar.judge.client.JudgeSandbox` sends it to a judge service.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from types import TracebackType
from typing import Literal, Protocol, Self, runtime_checkable

Status = Literal["ok", "error", "timeout", "memory", "killed", "output_limit"]
"""How a run ended. ``error``: the code raised. ``killed``: it died by a signal or exit not caused by the sandbox."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Hard limits of one run.

    Attributes:
        seconds: wall time; the parent holds the clock.
        cpu_seconds: CPU time (RLIMIT_CPU, rounded up to whole seconds); None for the same as `seconds`.
        memory_mb: address space beyond the warm interpreter's, in MiB.
        output_bytes: stdout and stderr, each; more ends the run with ``output_limit``.
        scratch_mb: size of the private scratch folder, in MiB.
        values: maximum number of variables whose new values are reported, at most 16.
        in_place: report also the values of lists that were changed in place.
    """

    seconds: float = 10.0
    cpu_seconds: float | None = None
    memory_mb: int = 256
    output_bytes: int = 64_000
    scratch_mb: int = 16
    values: int = 0
    in_place: bool = False

    @property
    def whole_cpu_seconds(self) -> int:
        """The CPU limit in whole seconds."""
        return max(1, math.ceil(self.seconds if self.cpu_seconds is None else self.cpu_seconds))

    @property
    def memory(self) -> int:
        """The memory limit in bytes."""
        return self.memory_mb << 20

    @property
    def kernel(self) -> tuple[int, int]:
        """The limits that can be set on another process: memory in bytes, CPU time in seconds."""
        return self.memory, self.whole_cpu_seconds

    @property
    def scratch(self) -> int:
        """The scratch-folder limit in bytes."""
        return self.scratch_mb << 20


@dataclass(frozen=True, slots=True)
class CodeError:
    """An exception of the snippet: `kind` is the type's name, `line` is 1-based in the snippet (None if unknown)."""

    kind: str
    message: str
    line: int | None


@dataclass(frozen=True, slots=True)
class Result:
    """Result of one run.

    Attributes:
        status: see `Status`.
        stdout: decoded as UTF-8 with replacement; as in a notebook, ends with the repr of a last-line expression.
        stderr: likewise; for an error it contains the traceback of the snippet's own frames.
        error: the exception for ``error`` and ``memory``, if known; for ``killed``, why the source state was lost, if
            that is the cause.
        seconds: wall time of the run as measured by the parent.
        truncated: stdout or stderr was cut at `Limits.output_bytes`.
        exit_code: argument of `sys.exit`, if called (status is then ``ok`` for 0, else ``error``).
        signal: the signal that ended the process, if any.
        values: (name, value) of variables newly bound by an ``ok`` run, or changed, see `Limits.in_place`: numbers,
            short strings and short lists of them; the last `Limits.values`. Reported by the code's own process, so as
            untrusted as its output.
    """

    status: Status
    stdout: str = ""
    stderr: str = ""
    error: CodeError | None = None
    seconds: float = 0.0
    truncated: bool = False
    exit_code: int | None = None
    signal: int | None = None
    values: tuple[tuple[str, str], ...] = ()

    @property
    def ok(self) -> bool:
        """The code finished without an exception."""
        return self.status == "ok"

    @property
    def failure(self) -> str | None:
        """Why it failed, as ``Type: message (line n)`` or the bare status; None if it did not."""
        if self.ok:
            return None
        if self.error is None:
            return self.status
        message = f": {self.error.message}" if self.error.message else ""
        line = f" (line {self.error.line})" if self.error.line else ""
        return f"{self.error.kind}{message}{line}"


@runtime_checkable
class State(Protocol):
    """An immutable handle to an interpreter state; running more code gives a new state."""

    async def run(self, code: str, limits: Limits | None = None) -> tuple[State | None, Result]:
        """Run `code` on a copy of this state, which is unchanged and can be run from again, also concurrently.

        Returns the state after the code (also after an exception, as in a notebook) and the result. The state is None
        if the process did not survive (timeout, memory, killed, output_limit). Raises `SandboxError` if the sandbox
        itself fails.
        """
        ...

    def release(self) -> None:
        """Release the handle; its process may be killed. Idempotent. Child states stay alive."""
        ...


@runtime_checkable
class Sandbox(Protocol):
    """Runs model-written code. Used as ``async with sandbox:``."""

    def start(self) -> State:
        """The state of a fresh interpreter; free until code runs."""
        ...

    async def run(self, code: str, stdin: str | None = None, limits: Limits | None = None) -> Result:
        """Run one program in a fresh interpreter that is discarded afterwards."""
        ...

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
