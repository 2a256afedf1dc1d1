"""What running model-written code looks like from outside: limits in, a typed result out, states in between.

Search and judge use the interface `Sandbox`. `rstar.sandbox.parent.local.LocalSandbox` runs code on this machine;
`rstar.judge.client.JudgeSandbox` sends it to a judge service.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from types import TracebackType
from typing import Literal, Protocol, Self, runtime_checkable

Status = Literal["ok", "error", "timeout", "memory", "killed", "output_limit"]
"""How a run ended. ``error``: the code raised. ``killed``: it died by a signal or exit that was not ours."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Hard limits of one run.

    Attributes:
        seconds: wall time; the parent holds the clock.
        cpu_seconds: processor time (RLIMIT_CPU, rounded up to whole seconds), None for the same as `seconds`.
        memory_mb: address space that the run may add to the warm interpreter, in MiB.
        output_bytes: stdout and stderr, each; more ends the run with ``output_limit``.
        scratch_mb: disk space of the private scratch folder, in MiB.
        values: most variables whose new values the result tells, at most 16.
    """

    seconds: float = 10.0
    cpu_seconds: float | None = None
    memory_mb: int = 256
    output_bytes: int = 64_000
    scratch_mb: int = 16
    values: int = 0

    @property
    def whole_cpu_seconds(self) -> int:
        """The limit of processor time, in whole seconds."""
        return max(1, math.ceil(self.seconds if self.cpu_seconds is None else self.cpu_seconds))

    @property
    def memory(self) -> int:
        """The limit of memory, in bytes."""
        return self.memory_mb << 20

    @property
    def kernel(self) -> tuple[int, int]:
        """What the kernel can be told of another process: memory, in bytes, and processor time, in seconds."""
        return self.memory, self.whole_cpu_seconds

    @property
    def scratch(self) -> int:
        """The limit of disk space, in bytes."""
        return self.scratch_mb << 20


@dataclass(frozen=True, slots=True)
class CodeError:
    """An exception of the snippet: `kind` is its type's name, `line` is 1-based in the snippet (None if unknown)."""

    kind: str
    message: str
    line: int | None


@dataclass(frozen=True, slots=True)
class Result:
    """How one run went.

    Attributes:
        status: see `Status`.
        stdout: decoded as UTF-8 with replacement; in notebook fashion it ends with the repr of a last-line expression.
        stderr: likewise; for an error it holds the traceback of the snippet's own frames.
        error: the exception, when status is ``error`` or ``memory`` and one is known; for ``killed``, why the state to
            run from could not be had, when that is the reason.
        seconds: wall time of the run as the parent saw it.
        truncated: stdout or stderr was cut at `Limits.output_bytes`.
        exit_code: what the code passed to `sys.exit`, when it did (then status is ``ok`` for 0, else ``error``).
        signal: the signal that ended the process, when one did.
        values: name and value of the variables that a run that is ``ok`` bound anew: numbers, short texts and short
            lists of them; of more than `Limits.values` the last. What the code says of itself, like its output.
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
        """The code ran to its end without an exception."""
        return self.status == "ok"


@runtime_checkable
class State(Protocol):
    """An immutable handle on an interpreter as it was after some code: running more code gives a new state."""

    async def run(self, code: str, limits: Limits | None = None) -> tuple[State | None, Result]:
        """Run `code` on a copy of this state, which itself stays as it is and may be run from again, concurrently.

        Returns the state after the code (also after an exception, as in a notebook) and the result. The state is None
        when the process did not survive (timeout, memory, killed, output_limit).
        Raises `SandboxError` when the sandbox itself fails.
        """
        ...

    def release(self) -> None:
        """Give up the handle; its process may be ended. Idempotent. Children stay alive."""
        ...


@runtime_checkable
class Sandbox(Protocol):
    """A place where model-written code runs. Used as ``async with sandbox:``."""

    def start(self) -> State:
        """The state of a fresh interpreter. Costs nothing until code runs."""
        ...

    async def run(self, code: str, stdin: str | None = None, limits: Limits | None = None) -> Result:
        """Run one program in a fresh interpreter that nothing outlives."""
        ...

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
