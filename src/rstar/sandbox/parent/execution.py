"""One run, from order to result.

The parent holds the clock and reads the output. It enforces every limit: it asks the keeper to kill the run, and closes
the keeper if that does not answer. The clock stops while a run is runnable but waits for a processor, so timeouts do
not depend on the machine's load. `MOST_STRETCHED` bounds the extension.
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
from rstar.sandbox.inside.variables import LONGEST
from rstar.sandbox.keeper.proc import Progress
from rstar.sandbox.parent.pool import Link, LostError, SingleError, StateGoneError
from rstar.sandbox.parent.priorities import LONG, NICE, NICEST, PATIENCE, Place
from rstar.sandbox.parent.processors import Processors

_GRACE = 15.0
"""Seconds a keeper has to answer; on a machine full of endless loops it may need several."""

MOST_STRETCHED = 30
"""A run ends after this multiple of its wall-time limit, however little CPU time it got."""

_START_SECONDS = 30.0
"""A run that has not begun by then never will."""

_LEAST_EXTENSION = 0.02
_UNSEEN_WAIT = 0.05
"""Extension for a runnable run that has hardly run: it still waits, or its wait just ended and is not yet counted."""

_MOST_PROCESSES = 2
"""A run with more processes than a driver and its program gets no extension for waiting."""

_LARGEST_CODE = 2**31 - 1
_LONGEST_MESSAGE = 2_000
_MOST_LINES = 10_000_000
_FIRST_LOOK, _NEXT_LOOK = 0.03, 0.02
_SHARE, _SELDOM = 0.05, 0.5
"""Output is read at intervals of this share of the run's age, at most this many seconds: the pipe may be full."""
_LATE = 0.1
"""A run may overrun by this share of its extensions, which keeps checks cheap with hundreds of runs."""
_LOOKS_PER_SCAN = 5
_PROCESSORS = Processors()
_FULL = "the disk of {} is full: no telling what the code would have done"


class GaveWayError(Exception):
    """A run was killed because all programs together used too much memory."""


class Pipe:
    """One output stream of a run: the read end, the data so far, and whether it exceeds the limit."""

    def __init__(self, limit: int) -> None:
        self._fd, self.write_end = os.pipe2(os.O_CLOEXEC)
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
        single: the process can be continued but not copied.
    """

    result: Result
    alive: bool
    memory: int
    cpu: float
    threads: int
    single: bool


class Execution:
    """One run, from order to outcome.

    Raises `SandboxError` when the disk it shares with other runs is full. The disk is checked before and after the run:
    other runs may free space meanwhile.
    """

    def __init__(self, link: Link, limits: Limits, place: Place, *, group: bool = False) -> None:
        if _disk_is_full(link):
            raise SandboxError(_FULL.format(link.folder))
        self.most, self.group, self._gives_way = limits.memory, group, False
        self.beside = limits.scratch
        self._link, self._limits, self._place = link, limits, place
        self._loop = asyncio.get_running_loop()
        self._out, self._err = Pipe(limits.output_bytes), Pipe(limits.output_bytes)
        self._verdict: Status | None = None
        self._number = self._looks = self._nice = 0
        self._doubt: asyncio.TimerHandle | None = None
        self._extended = self._credited = 0.0
        self._progress = Progress()

    @property
    def old(self) -> bool:
        """See `pressure.Program`."""
        return self._place.old

    async def usage(self) -> int:
        """See `pressure.Program`."""
        return int((await self._ask("memory"))["memory"])

    def give_way(self) -> None:
        """See `pressure.Program`."""
        self._gives_way = True
        self._kill()

    def exceed(self) -> None:
        """See `pressure.Program`."""
        self._stop("memory")

    async def outcome(self, order: channel.Message, stdin: int | None = None, *files: int) -> Outcome:
        """Send the order and wait for the run to end; `order["id"]` is the run's number.

        Without `stdin` the standard input is empty. `files` become descriptors 3 and up.

        Raises:
            LostError: the keeper or the source state is gone; the run can be retried.
            GaveWayError: the memory was needed elsewhere; the run can be retried.
            SandboxError: the run could not be set up, or the shared disk is full.
        """
        self._number = order["id"]
        self._folder = self._link.folder_of(self._number)
        self._started = self._asked = started = time.perf_counter()
        self._used = _PROCESSORS.used()
        event = self._event = self._link.expect(self._number)
        # Opened for this run alone: an open file shares its flags and position.
        source = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC) if stdin is None else os.dup(stdin)
        ours = (source, self._out.write_end, self._err.write_end)
        self._link.send(order | {"folder": self._folder}, (*ours, *files))
        channel.close_all(ours)
        self._alarm = self._loop.call_later(self._limits.seconds, self._time_is_up)
        self._looking = self._loop.call_later(_FIRST_LOOK, self._look)
        try:
            with self._place.watching(self):
                message = await event
        except LostError:
            if self._verdict is None:
                raise
            message = {"event": "ended", "signal": None, "cpu": 0.0}
        except asyncio.CancelledError:
            self._link.forget(self._number)
            self._link.send({"do": "kill", "id": self._number, "hard": False})
            # A source that has not forked by then never will; nothing else bounds how long it stays awake.
            self._loop.call_later(_GRACE, self._link.send, {"do": "kill", "id": self._number, "hard": True})
            raise
        finally:
            for alarm in (self._alarm, self._doubt, self._looking):
                if alarm is not None:
                    alarm.cancel()
            for pipe in (self._out, self._err):
                pipe.read()
                pipe.close()
        return self._judge(message, time.perf_counter() - started)

    def _time_is_up(self) -> None:
        """Ask for the run's progress; the time it waited for a processor extends its limit."""
        self._ask("progress").add_done_callback(self._extend)
        self._doubt_keeper()

    def _ask(self, what: str) -> asyncio.Future[channel.Message]:
        """Ask the keeper about this run."""
        number = self._link.number()
        answer = self._link.expect(number)
        self._link.send({"do": what, "id": number, "run": self._number})
        return answer

    def _doubt_keeper(self) -> None:
        """Close the keeper if it does not answer in time, after a second wait in case this process was busy."""
        if self._doubt is not None:
            self._doubt.cancel()

        def once_more() -> None:
            self._doubt = self._loop.call_later(_GRACE / 10, self._link.close)

        self._doubt = self._loop.call_later(_GRACE, once_more)

    def _wait(self, seconds: float) -> None:
        """Check the clock again in `seconds`."""
        if self._doubt is not None:
            self._doubt.cancel()
        self._alarm = self._loop.call_later(seconds, self._time_is_up)

    def _age(self) -> float:
        return time.perf_counter() - self._started

    def _extend(self, answer: asyncio.Future[channel.Message]) -> None:
        if self._event.done() or answer.cancelled() or answer.exception() is not None:
            return  # the run has ended meanwhile
        if (left := self._time_left(answer.result()["began"])) > 0:
            self._wait(left)
            return
        report, now = answer.result(), time.perf_counter()
        progress = Progress(*(report[name] for name in ("waited", "ran", "ready", "processes")))
        if progress.processes > _MOST_PROCESSES:  # they wait for each other
            self._stop("timeout")
            return
        # Its threads wait for each other too: only time in which none of them ran is lost.
        lost = now - self._started - progress.ran - self._credited
        extension = min(progress.waited - self._progress.waited, lost)
        self._credited += max(0.0, extension)
        hardly_ran = progress.ran - self._progress.ran < (now - self._asked) / 2
        if extension < _LEAST_EXTENSION and hardly_ran and (progress.ready or extension < 0):  # < 0: one ended
            extension = _UNSEEN_WAIT
        self._progress, self._asked = progress, now
        extension = min(extension, MOST_STRETCHED * self._limits.seconds - (now - self._started))
        if (used := _PROCESSORS.used()) is not None and self._used is not None:  # at most what others used
            extension = min(extension, used - self._used - progress.ran + _UNSEEN_WAIT - self._extended)
        if extension < _LEAST_EXTENSION:
            self._stop("timeout")
            return
        self._extended += extension
        self._wait(max(extension, _LATE * self._extended))

    def _time_left(self, began: float | None) -> float:
        """Seconds left for the run, counted from its beginning.

        A run that does not begin is the sandbox's failure: the process that should fork it does not answer.
        """
        if began is not None:
            return max(0.0, began + self._limits.seconds + self._extended - time.monotonic())
        if self._age() > _START_SECONDS:
            self._link.close()
        return _LEAST_EXTENSION

    def _grow_old(self) -> None:
        """Let young runs go first; see `priorities`."""
        age = self._age()
        nice = 0 if age < PATIENCE or not self._place.age() else NICE if age < LONG else NICEST
        if nice > self._nice:
            self._nice = nice
            self._link.send({"do": "nice", "id": self._number, "nice": nice})

    def _stop(self, verdict: Status) -> None:
        if self._verdict is None:
            self._verdict = verdict
            self._kill()

    def _kill(self) -> None:
        self._link.send({"do": "kill", "id": self._number, "hard": True})
        self._doubt_keeper()

    def _look(self) -> None:
        """Read the output of a long run. Short runs are read once, at their end."""
        before = len(self._out.data) + len(self._err.data)
        for pipe in (self._out, self._err):
            pipe.read()
        if self._out.over or self._err.over:
            self._stop("output_limit")
            return
        self._grow_old()
        self._looks += 1
        folder = self._link.folder  # not a file system of its own: its size must be watched
        scan = folder is not None and self._looks % _LOOKS_PER_SCAN == 0
        if scan:
            self._ask("unlinked").add_done_callback(self._measure)
        busy = len(self._out.data) + len(self._err.data) - before > 16_000
        later = min(max(_NEXT_LOOK, _SHARE * self._age()), _SELDOM)
        self._looking = self._loop.call_later(0.001 if busy else later, self._look)

    def _measure(self, answer: asyncio.Future[channel.Message]) -> None:
        """Kill the run if its files, deleted but open ones included, exceed the limit."""
        if not answer.cancelled() and answer.exception() is None:
            left = self._limits.scratch - answer.result().get("held", 0)
            if left < 0 or exceeds(*self._link.writable(self._folder), left):
                self._stop("killed")

    def _judge(self, message: channel.Message, seconds: float) -> Outcome:
        match message["event"]:
            case "ended" if self._gives_way and self._verdict is None:
                raise GaveWayError
            case "gone" if self._verdict is None:
                raise StateGoneError("the state has gone")
            case "single" if self._verdict is None:
                raise SingleError("the files of the state cannot be copied")
            case "failed":
                raise SandboxError(f"a run could not be set up: {message['reason']}")
            case "report" | "ended" if _disk_is_full(self._link):
                self._link.send({"do": "kill", "id": self._number, "hard": True})
                raise SandboxError(_FULL.format(self._link.folder))
        result = read_report(message["report"]) if message["event"] == "report" else None
        verdict = "output_limit" if self._out.over or self._err.over else self._verdict
        status: Status = verdict or (result.status if result else self._death(message))
        alive = message["event"] == "report" and status in ("ok", "error")
        if message["event"] == "report" and not alive:
            self._link.send({"do": "kill", "id": self._number, "hard": True})
        keep = result if result is not None and status == result.status else None
        shown = Result(
            status=status,
            stdout=self._out.text(),
            stderr=self._err.text(),
            error=keep.error if keep else None,
            seconds=seconds,
            truncated=self._out.over or self._err.over,
            exit_code=keep.exit_code if keep else message.get("code"),
            signal=message.get("signal"),
            values=keep.values[-self._limits.values :] if keep and self._limits.values else (),
        )
        return Outcome(
            shown, alive, message.get("memory", 0), message.get("cpu", 0.0), message.get("threads", 1),
            message.get("single", False),
        )  # fmt: skip

    def _death(self, message: channel.Message) -> Status:
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
        report = json.loads(text)
        status, code = report["status"], report.get("exit_code")
        if status not in ("ok", "error", "memory") or not (code is None or isinstance(code, int)):
            raise ValueError(status)
        if code is not None and abs(code) > _LARGEST_CODE:  # `sys.exit` takes any number
            code = 1
        code = None if code is None else int(code)
        error = None
        if status != "ok":
            line = report["line"]
            kind, message = (_printable(str(report[name]))[:_LONGEST_MESSAGE] for name in ("kind", "message"))
            known = isinstance(line, int) and not isinstance(line, bool) and 0 < line <= _MOST_LINES
            error = CodeError(kind, message, line if known else None)
        values = tuple(
            (_printable(name)[:LONGEST], _printable(value)[:LONGEST]) for name, value in report.get("values", ())
        )
        return Result(status, error=error, exit_code=code, values=values)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return Result("killed")


def _printable(text: str) -> str:
    """Replace lone surrogates, which JSON can carry and UTF-8 cannot."""
    return text.encode(errors="replace").decode()
