"""One run, from order to result.

The parent holds the clock and reads the output. It enforces every limit: it asks the keeper to kill the run, and closes
the keeper if that does not answer. The clock stops while a run is runnable but waits for a processor, so timeouts do
not depend on the machine's load. `MAX_STRETCH` bounds the extension.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import time
from dataclasses import dataclass

from rstar.errors import SandboxError
from rstar.sandbox import channel
from rstar.sandbox.api import CodeError, Limits, Result, Status
from rstar.sandbox.folders import disk_full, exceeds
from rstar.sandbox.inside.variables import MAX_LENGTH, MAX_MESSAGE
from rstar.sandbox.keeper.proc import Progress
from rstar.sandbox.parent.cpu_time import CpuTime
from rstar.sandbox.parent.disk_watch import DiskWatch
from rstar.sandbox.parent.pool import Link, RunLostError, StateGoneError, UnforkableStateError
from rstar.sandbox.parent.scheduler import FOREGROUND_SECONDS, LOWEST_PRIORITY_SECONDS, NICE, NICEST, Slot

_KEEPER_SECONDS = 15.0
"""Seconds a keeper has to answer; on a machine full of endless loops it may need several."""

MAX_STRETCH = 30
"""A run ends after this multiple of its wall-time limit, however little CPU time it got."""

_START_SECONDS = 30.0
"""A run that has not begun by then never will."""

_MIN_EXTENSION = 0.02
_UNSEEN_WAIT = 0.05
"""Extension for a runnable run that has hardly run: it still waits, or its wait just ended and is not yet counted."""

_MAX_EXIT_CODE = 2**31 - 1
_MAX_LINES = 10_000_000
_FIRST_POLL, _NEXT_POLL = 0.03, 0.02
_POLL_SHARE, _MAX_POLL_SECONDS = 0.05, 0.5
"""Output is read at intervals of this share of the run's age, at most this many seconds: the pipe may be full."""
_MAX_OVERRUN = 0.1
"""A run may overrun by this share of its extensions, which keeps checks cheap with hundreds of runs."""
_LOOKS_PER_LIMIT = 4
"""The disk is looked at whenever its free space has shrunk by this part of the scratch limit."""
_CPU_TIME = CpuTime()
_DISK_FULL = "the disk of {} is full: the result of the code would be meaningless"


class EvictedError(Exception):
    """A run was killed because all programs together used too much memory."""


class Pipe:
    """One output stream of a run: the read end, the data so far, and whether it exceeds the limit.

    Nobody may open it, not even its owner: through ``/proc``, another run of the same user could write to it.
    """

    def __init__(self, limit: int) -> None:
        self._fd, self.write_end = os.pipe2(os.O_CLOEXEC)
        os.fchmod(self._fd, 0)
        os.set_blocking(self._fd, False)
        self._limit = limit
        self.data = bytearray()

    def read(self) -> None:
        """Read what is available, up to one byte over the limit."""
        with contextlib.suppress(BlockingIOError):
            while not self.over and (block := os.read(self._fd, self._limit + 1 - len(self.data))):
                self.data += block

    @property
    def over(self) -> bool:
        """The output exceeds the limit."""
        return len(self.data) > self._limit

    def text(self) -> str:
        """The output up to the limit."""
        return self.data[: self._limit].decode(errors="replace")

    def close(self) -> None:
        """Close the read end."""
        os.close(self._fd)


@dataclass(frozen=True, slots=True)
class Outcome:
    """Result of a run and the state of its process.

    Attributes:
        result: for the caller.
        alive: the process still exists.
        memory: bytes written by the process since its fork.
        cpu: CPU seconds of the process.
        threads: number of threads of the process.
        unforkable: the process can be continued but not copied.
    """

    result: Result
    alive: bool
    memory: int
    cpu: float
    threads: int
    unforkable: bool


class Execution:
    """One run, from order to outcome.

    Raises `SandboxError` when the disk it shares with other runs is full. The disk is checked before and after the run:
    other runs may free space meanwhile.
    """

    def __init__(
        self,
        link: Link,
        limits: Limits,
        slot: Slot,
        *,
        starts_processes: bool = False,
        processes: int = 2,
        normal_seconds: float = FOREGROUND_SECONDS,
    ) -> None:
        if _disk_is_full(link):
            raise SandboxError(_DISK_FULL.format(link.folder))
        self.memory_limit, self.starts_processes, self._evicted = limits.memory, starts_processes, False
        self.scratch_limit, self._processes, self._normal_seconds = limits.scratch, processes, normal_seconds
        self._link, self._limits, self._slot = link, limits, slot
        self._loop = asyncio.get_running_loop()
        self._pipes = self._out, self._err = Pipe(limits.output_bytes), Pipe(limits.output_bytes)
        self._verdict: Status | None = None
        self._id = self._nice = 0
        self._disk_watch: DiskWatch | None = None
        self._keeper_timer: asyncio.TimerHandle | None = None
        self._extended = self._credited = 0.0
        self._progress = Progress()

    @property
    def background(self) -> bool:
        """See `memory.Program`."""
        return self._slot.background

    async def usage(self) -> int:
        """See `memory.Program`."""
        return int((await self._query("memory"))["memory"])

    def evict(self) -> None:
        """See `memory.Program`."""
        self._evicted = True
        self._kill()

    def end_over_limit(self) -> None:
        """See `memory.Program`."""
        self._stop("memory")

    async def outcome(self, order: channel.Message, stdin: int | None = None, *files: int) -> Outcome:
        """Send the order and wait for the run to end; `order["id"]` is the run's number.

        Without `stdin` the standard input is empty. `files` become descriptors 3 and up.

        Raises:
            RunLostError: the keeper or the source state is gone; the run can be retried.
            EvictedError: the memory was needed elsewhere; the run can be retried.
            SandboxError: the run could not be set up, or the shared disk is full.
        """
        self._id = order["id"]
        self._folder = self._link.new_folder_name(self._id)
        self._started_at = self._queried_at = started = time.perf_counter()
        self._cpu_before = _CPU_TIME.used()
        event = self._event = self._link.expect(self._id)
        # Opened for this run alone: an open file shares its flags and position.
        source = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC) if stdin is None else os.dup(stdin)
        ours = (source, self._out.write_end, self._err.write_end)
        self._link.send(order | {"folder": self._folder}, (*ours, *files))
        channel.close_all(ours)
        self._clock = self._loop.call_later(self._limits.seconds, self._on_timeout)
        self._poll_timer = self._loop.call_later(_FIRST_POLL, self._poll_output)
        if self._link.folder is not None:  # not a file system of its own: its size must be watched
            step = self._limits.scratch // _LOOKS_PER_LIMIT
            self._disk_watch = DiskWatch(self._link.folder, step, self._look_at_disk)
        try:
            with self._slot.watch(self):
                message = await event
        except RunLostError:
            if self._verdict is None:
                raise
            message = {"event": "ended", "signal": None, "cpu": 0.0}
        except asyncio.CancelledError:
            self._link.forget(self._id)
            self._link.send({"do": "kill", "id": self._id, "hard": False})
            # A source that has not forked by then never will; nothing else bounds how long it stays awake.
            self._loop.call_later(_KEEPER_SECONDS, self._link.send, {"do": "kill", "id": self._id, "hard": True})
            raise
        finally:
            for alarm in (self._clock, self._keeper_timer, self._poll_timer):
                if alarm is not None:
                    alarm.cancel()
            if self._disk_watch is not None:
                self._disk_watch.stop()
            for pipe in self._pipes:
                pipe.read()
                pipe.close()
        return self._make_outcome(message, time.perf_counter() - started)

    def _on_timeout(self) -> None:
        """Ask for the run's progress; the time it waited for a processor extends its limit."""
        self._query("progress").add_done_callback(self._on_progress)
        self._start_keeper_timer()

    def _query(self, query: str) -> asyncio.Future[channel.Message]:
        number = self._link.next_id()
        answer = self._link.expect(number)
        self._link.send({"do": query, "id": number, "run": self._id})
        return answer

    def _start_keeper_timer(self) -> None:
        """Close the keeper if it does not answer in time, after a second wait in case this process was busy."""
        if self._keeper_timer is not None:
            self._keeper_timer.cancel()

        def once_more() -> None:
            self._keeper_timer = self._loop.call_later(_KEEPER_SECONDS / 10, self._link.close)

        self._keeper_timer = self._loop.call_later(_KEEPER_SECONDS, once_more)

    def _restart_clock(self, seconds: float) -> None:
        if self._keeper_timer is not None:
            self._keeper_timer.cancel()
        self._clock = self._loop.call_later(seconds, self._on_timeout)

    def _elapsed(self) -> float:
        return time.perf_counter() - self._started_at

    def _on_progress(self, answer: asyncio.Future[channel.Message]) -> None:
        if self._event.done() or answer.cancelled() or answer.exception() is not None:
            return  # the run has ended meanwhile
        if (left := self._time_left(answer.result()["started_at"])) > 0:
            self._restart_clock(left)
            return
        report, now = answer.result(), time.perf_counter()
        progress = Progress(*(report[name] for name in ("waited", "ran", "ready", "processes")))
        if progress.processes > self._processes:  # they wait for each other, and the run gets no extension
            self._stop("timeout")
            return
        # Its threads wait for each other too: only time in which none of them ran is lost.
        lost = now - self._started_at - progress.ran - self._credited
        extension = min(progress.waited - self._progress.waited, lost)
        self._credited += max(0.0, extension)
        hardly_ran = progress.ran - self._progress.ran < (now - self._queried_at) / 2
        if extension < _MIN_EXTENSION and hardly_ran and (progress.ready or extension < 0):  # < 0: one ended
            extension = _UNSEEN_WAIT
        self._progress, self._queried_at = progress, now
        extension = min(extension, MAX_STRETCH * self._limits.seconds - (now - self._started_at))
        if (used := _CPU_TIME.used()) is not None and self._cpu_before is not None:  # at most what others used
            extension = min(extension, used - self._cpu_before - progress.ran + _UNSEEN_WAIT - self._extended)
        if extension < _MIN_EXTENSION:
            self._stop("timeout")
            return
        self._extended += extension
        self._restart_clock(max(extension, _MAX_OVERRUN * self._extended))

    def _time_left(self, started_at: float | None) -> float:
        """Seconds left for the run, counted from its beginning.

        A run that does not begin is the sandbox's failure: the process that should fork it does not answer.
        """
        if started_at is not None:
            return max(0.0, started_at + self._limits.seconds + self._extended - time.monotonic())
        if self._elapsed() > _START_SECONDS:
            self._link.close()
        return _MIN_EXTENSION

    def _lower_priority(self) -> None:
        """Let foreground runs go first; see `scheduler`."""
        elapsed = self._elapsed()
        if elapsed >= FOREGROUND_SECONDS and self._slot.demote() and elapsed >= self._normal_seconds:
            nice = NICE if elapsed < LOWEST_PRIORITY_SECONDS else NICEST
            if nice > self._nice:
                self._nice = nice
                self._link.send({"do": "nice", "id": self._id, "nice": nice})

    def _over_limit(self) -> bool:
        return any(pipe.over for pipe in self._pipes)

    def _stop(self, verdict: Status) -> None:
        if self._verdict is None:
            self._verdict = verdict
            self._kill()

    def _kill(self) -> None:
        self._link.send({"do": "kill", "id": self._id, "hard": True})
        self._start_keeper_timer()

    def _poll_output(self) -> None:
        """Read the output of a long run. Short runs are read once, at their end."""
        before = sum(len(pipe.data) for pipe in self._pipes)
        for pipe in self._pipes:
            pipe.read()
        if self._over_limit():
            self._stop("output_limit")
            return
        self._lower_priority()
        busy = sum(len(pipe.data) for pipe in self._pipes) - before > 16_000
        later = min(max(_NEXT_POLL, _POLL_SHARE * self._elapsed()), _MAX_POLL_SECONDS)
        self._poll_timer = self._loop.call_later(0.001 if busy else later, self._poll_output)

    def _look_at_disk(self) -> None:
        """Kill the run if its files, deleted but open ones included, exceed the limit."""
        self._query("unlinked").add_done_callback(self._check_disk_use)

    def _check_disk_use(self, answer: asyncio.Future[channel.Message]) -> None:
        if self._disk_watch is not None:
            self._disk_watch.done()
        if not self._event.done() and not answer.cancelled() and answer.exception() is None:
            left = self._limits.scratch - answer.result().get("held", 0)
            if left < 0 or exceeds(*self._link.writable(self._folder), left):
                self._stop("killed")

    def _make_outcome(self, message: channel.Message, seconds: float) -> Outcome:
        match message["event"]:
            case "ended" if self._evicted and self._verdict is None:
                raise EvictedError
            case "gone" if self._verdict is None:
                raise StateGoneError("the state no longer exists")
            case "unforkable" if self._verdict is None:
                raise UnforkableStateError("the files of the state cannot be copied")
            case "failed":
                raise SandboxError(f"run could not be set up: {message['reason']}")
            case "report" | "ended" if _disk_is_full(self._link):
                self._link.send({"do": "kill", "id": self._id, "hard": True})
                raise SandboxError(_DISK_FULL.format(self._link.folder))
        result = read_report(message["report"]) if message["event"] == "report" else None
        verdict = "output_limit" if self._over_limit() else self._verdict
        if message["event"] == "report" and self._link.leaves_files(self._folder, self._limits.scratch):
            verdict = verdict or "killed"
        status: Status = verdict or (result.status if result else self._death_status(message))
        alive = message["event"] == "report" and status in ("ok", "error")
        if message["event"] == "report" and not alive:
            self._link.send({"do": "kill", "id": self._id, "hard": True})
        keep = result if result is not None and status == result.status else None
        shown = Result(
            status=status,
            stdout=self._out.text(),
            stderr=self._err.text(),
            error=keep.error if keep else None,
            seconds=seconds,
            truncated=self._over_limit(),
            exit_code=keep.exit_code if keep else message.get("code"),
            signal=message.get("signal"),
            values=keep.values[-self._limits.values :] if keep and self._limits.values else (),
        )
        return Outcome(
            shown, alive, message.get("memory", 0), message.get("cpu", 0.0), message.get("threads", 1),
            message.get("unforkable", False),
        )  # fmt: skip

    def _death_status(self, message: channel.Message) -> Status:
        """Why a process died that we did not kill: its CPU limit, or its own doing.

        The kernel counts ticks, which overstate the CPU time of a process among many by up to a quarter. A run that is
        the first process of its namespace can only be ended by SIGKILL.
        """
        share = message["cpu"] / self._limits.whole_cpu_seconds
        by_kernel = message["signal"] == signal.SIGXCPU or (message["signal"] == signal.SIGKILL and share >= 0.5)
        return "timeout" if by_kernel or share >= 1 else "killed"


def _disk_is_full(link: Link) -> bool:
    """Whether runs share a disk that is full: the code's behaviour is then meaningless."""
    try:
        return link.folder is not None and disk_full(link.folder)
    except FileNotFoundError:  # not created yet, or its keeper has ended
        return False


def read_report(text: str) -> Result:
    """Parse a run's untrusted report; a malformed one counts as ``killed``."""
    try:
        report = json.loads(text, strict=False)  # with control characters
        status, code = report["status"], report.get("exit_code")
        if status not in ("ok", "error", "memory") or not (code is None or isinstance(code, int)):
            raise ValueError(status)
        if code is not None and abs(code) > _MAX_EXIT_CODE:  # `sys.exit` takes any number
            code = 1
        code = None if code is None else int(code)
        error = None
        if status != "ok":
            line = report["line"]
            kind, message = (_printable(str(report[name]))[:MAX_MESSAGE] for name in ("kind", "message"))
            known = isinstance(line, int) and not isinstance(line, bool) and 0 < line <= _MAX_LINES
            error = CodeError(kind, message, line if known else None)
        values = tuple(
            (_printable(name)[:MAX_LENGTH], _printable(value)[:MAX_LENGTH]) for name, value in report.get("values", ())
        )
        return Result(status, error=error, exit_code=code, values=values)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return Result("killed")


def _printable(text: str) -> str:
    """Replace lone surrogates, which JSON can carry and UTF-8 cannot."""
    return text.encode(errors="replace").decode()
