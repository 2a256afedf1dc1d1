"""The parent's side of the keepers: starting zygotes, talking to them, and seeing one run through.

The parent holds the clock and reads the output: whatever a run does, it ends at its limits, because the parent asks
its keeper to kill it, and ends the keeper when that does not answer.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

from rstar.errors import IsolationError, SandboxError
from rstar.sandbox import channel
from rstar.sandbox.api import CodeError, Limits, Result, Status
from rstar.sandbox.isolation import interpreter_paths
from rstar.sandbox.levels import LEVELS, Level, MechanismName
from rstar.sandbox.tiers import Tier

ENVIRONMENT = {
    "LANG": "C.UTF-8",
    "PYTHONHASHSEED": "0",
    "MALLOC_ARENA_MAX": "2",
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
}
"""All that model-written code sees in `os.environ`. The hash seed makes a replay take the same course."""

_GRACE = 3.0
_FIRST_LOOK, _NEXT_LOOK = 0.03, 0.02
_LOOKS_PER_SCAN = 5
_FILE_OVERHEAD = 4096
_BOOT = """
import sys, types
for name, path in zip(("rstar", "rstar.sandbox"), sys.argv[3:]):
    module = sys.modules[name] = types.ModuleType(name)
    module.__path__ = [path]
from importlib import import_module
import_module(sys.argv[1]).main(int(sys.argv[2]))
"""
"""Imports a module of this package without what its `__init__` imports."""


class LostError(SandboxError):
    """A keeper has gone, or a state in it: what was under way there can be done again elsewhere."""


class GoneError(LostError):
    """Only the state to be forked has gone, or cannot be forked."""


class AbsentError(Exception):
    """A tier cannot be had: its packages are not installed."""


class Link:
    """A connection to one keeper: orders out, events in, each with the number of the run that it is about.

    `folder` is where the scratch folders of its runs are, when they are on a disk that others use, too.
    """

    def __init__(self, end: socket.socket, on_close: Callable[[], None], folder: Path | None) -> None:
        self._socket, self._on_close = end, on_close
        self.folder = folder
        self._loop = asyncio.get_running_loop()
        self._waiting: dict[int, asyncio.Future[channel.Message]] = {}
        self._outbox: deque[tuple[channel.Message, list[int]]] = deque()
        self._numbers = 0
        self.on_gone: Callable[[int], None] = lambda number: None
        self.open = True
        end.setblocking(False)
        self._loop.add_reader(end, self._read)

    def number(self) -> int:
        """A fresh number for a run or request."""
        self._numbers += 1
        return self._numbers

    def expect(self, number: int) -> asyncio.Future[channel.Message]:
        """The next event about `number`. Raises `LostError` when the keeper goes."""
        future: asyncio.Future[channel.Message] = self._loop.create_future()
        if self.open:
            self._waiting[number] = future
        else:
            future.set_exception(LostError("the keeper has gone"))
        return future

    def forget(self, number: int) -> None:
        """Nobody waits for `number` any more."""
        self._waiting.pop(number, None)

    def send(self, message: channel.Message, fds: Iterable[int] = ()) -> None:
        """Send, now or as soon as the keeper reads. The descriptors are duplicated if they have to wait."""
        if not self.open:
            return
        if not self._outbox:
            try:
                channel.send(self._socket, message, fds)
                return
            except BlockingIOError:
                self._loop.add_writer(self._socket, self._flush)
            except OSError:
                self.close()
                return
        self._outbox.append((message, [os.dup(fd) for fd in fds]))

    def _flush(self) -> None:
        while self._outbox:
            message, fds = self._outbox[0]
            try:
                channel.send(self._socket, message, fds)
            except BlockingIOError:
                return
            except OSError:
                self.close()
                return
            channel.close_all(fds)
            self._outbox.popleft()
        self._loop.remove_writer(self._socket)

    def _read(self) -> None:
        try:
            received = channel.receive(self._socket)
        except BlockingIOError:
            return
        except OSError:
            received = None
        if received is None:
            self.close()
            return
        message = received[0]
        future = self._waiting.pop(message["id"], None)
        if future is not None and not future.done():
            future.set_result(message)
        elif message["event"] in ("ended", "gone"):
            self.on_gone(message["id"])

    async def cpu_seconds(self) -> float:
        """Processor time of the keeper and of everything that has run in it."""
        number = self.number()
        event = self.expect(number)
        self.send({"do": "stats", "id": number})
        return float((await event)["cpu"])

    def close(self) -> None:
        """Close; everybody who waits gets `LostError`."""
        if not self.open:
            return
        self.open = False
        self._loop.remove_reader(self._socket)
        self._loop.remove_writer(self._socket)
        self._socket.close()
        for _, fds in self._outbox:
            channel.close_all(fds)
        self._outbox.clear()
        waiting, self._waiting = self._waiting, {}
        for future in waiting.values():
            if not future.done():
                future.set_exception(LostError("the keeper has gone"))
        self._on_close()


class Zygote:
    """A warm interpreter of one tier that runs programs and makes trees. Start with `Zygote.start`."""

    def __init__(
        self, process: subprocess.Popen[bytes], end: socket.socket, tier: Tier, level: Level, folder: Path
    ) -> None:
        self._process = process
        self.tier = tier
        self.link = Link(end, self.kill, None if "namespaces" in LEVELS[level] else folder)

    @classmethod
    async def start(cls, tier: Tier, level: Level, folder: Path, *, echo: bool) -> Zygote:
        """Start one and wait until it is warm.

        Raises:
            IsolationError: the machine refuses a mechanism of the level.
            AbsentError: the packages of the tier are not installed.
            SandboxError: it did not start; the message has what it said.
        """
        ours, theirs = channel.pair()
        with tempfile.TemporaryFile() as said:
            process = _spawn("rstar.sandbox.zygote", theirs, said)
            zygote = cls(process, ours, tier, level, folder)
            try:
                settings = {"folder": str(folder), "tier": tier, "path": search_path(), "echo": echo}
                settings["mechanisms"] = LEVELS[level]
                ready = zygote.link.expect(0)
                zygote.link.send(settings)
                event = await ready
            except LostError:
                process.wait()
                said.seek(0)
                text = said.read().decode(errors="replace").strip()
                raise SandboxError(f"the {tier} interpreter did not start: {text or process.returncode}") from None
            except BaseException:
                zygote.link.close()
                raise
        if event["event"] == "ready":
            return zygote
        zygote.link.close()
        if event["event"] == "absent":
            raise AbsentError(event["reason"])
        raise refusal(level, event["mechanism"], event["reason"])

    def kill(self) -> None:
        """End it, and all runs and trees in it."""
        self.link.close()
        if self._process.poll() is None:
            self._process.kill()

    async def close(self) -> None:
        """End it and wait for the end."""
        self.link._on_close = lambda: None
        self.link.close()
        try:
            await asyncio.to_thread(self._process.wait, _GRACE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            await asyncio.to_thread(self._process.wait)

    @property
    def pid(self) -> int:
        """Its process number."""
        return self._process.pid


class Tree:
    """A keeper of states, forked from a zygote."""

    def __init__(self, zygote: Zygote) -> None:
        ours, theirs = channel.pair()
        self.zygote, self.tier = zygote, zygote.tier
        self._number = zygote.link.number()
        zygote.link.send({"do": "tree", "id": self._number}, [theirs.fileno()])
        theirs.close()
        folder = zygote.link.folder
        self.link = Link(ours, self._closed, folder / f"tree{self._number}" if folder else None)

    def _closed(self) -> None:
        self.zygote.link.send({"do": "kill", "id": self._number, "hard": True})

    def close(self) -> None:
        """End it and all of its states."""
        self.link.close()


def try_mechanisms() -> dict[MechanismName, str | None]:
    """Try each isolation mechanism in another process: None if it works, else why not. See `levels.probe`."""
    ours, theirs = channel.pair()
    with tempfile.TemporaryFile() as said, ours:
        process = _spawn("rstar.sandbox.trial", theirs, said)
        ours.settimeout(30)
        channel.send(ours, {"path": search_path()})
        try:
            received = channel.receive(ours)
        finally:
            process.kill()
            process.wait()
        said.seek(0)
        if received is None:
            raise SandboxError(f"the isolation mechanisms could not be tried: {said.read().decode(errors='replace')}")
    return cast(dict[MechanismName, str | None], received[0])


def _spawn(module: str, link: socket.socket, said: IO[bytes]) -> subprocess.Popen[bytes]:
    """Start a module of this package in a process that gets nothing but `link`, which is closed here."""
    package = Path(__file__).parent
    with link:
        command = [sys.executable, "-s", "-P", "-B", "-c", _BOOT, module, str(link.fileno())]
        return subprocess.Popen(
            [*command, str(package.parent), str(package)], env=ENVIRONMENT, cwd="/", start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=said, pass_fds=[link.fileno()],
        )  # fmt: skip


def search_path() -> list[str]:
    """Where runs look for modules: this interpreter's own folders, no project's."""
    roots = interpreter_paths()
    return [path for path in sys.path if any(path == root or path.startswith(f"{root}/") for root in roots)]


def refusal(level: Level, mechanism: str, reason: str) -> IsolationError:
    """The error for a level that this machine cannot give."""
    advice = {
        "namespaces": "allow unprivileged user namespaces (in a container: run it with a seccomp and AppArmor profile"
        " that permits unshare and mount), or ask for the level 'no-namespaces'",
        "landlock": "use a kernel with Landlock (5.13 or later, in its list of security modules), or ask for the level"
        " 'limits', for code that you trust",
        "seccomp": "use a kernel with seccomp user notification (5.5 or later) on x86_64 or aarch64, or ask for the"
        " level 'limits', for code that you trust",
    }.get(mechanism, "run it as an ordinary user")
    return IsolationError(f"isolation level '{level}' is not possible here: {mechanism} refused ({reason}); {advice}")


class Pipe:
    """One output of a run: the reading end, what has come, and whether it was too much."""

    def __init__(self, limit: int) -> None:
        self._fd, self.write_end = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(self._fd, False)
        self._limit = limit
        self.data = bytearray()

    def read(self) -> None:
        """Take what is there, up to one byte over the limit."""
        with contextlib.suppress(BlockingIOError):
            while not self.over and (block := os.read(self._fd, self._limit + 1 - len(self.data))):
                self.data += block

    @property
    def over(self) -> bool:
        """More than the limit has come."""
        return len(self.data) > self._limit

    def text(self) -> str:
        """What has come, up to the limit."""
        return self.data[: self._limit].decode(errors="replace")

    def close(self) -> None:
        """Close the reading end."""
        os.close(self._fd)


@dataclass(frozen=True, slots=True)
class Outcome:
    """A result, whether its process is still there to be forked, and that process's own memory in bytes."""

    result: Result
    alive: bool
    memory: int


class Execution:
    """One run, from the order to its outcome."""

    def __init__(self, link: Link, limits: Limits) -> None:
        self._link, self._limits = link, limits
        self._loop = asyncio.get_running_loop()
        self._out, self._err = Pipe(limits.output_bytes), Pipe(limits.output_bytes)
        self._verdict: Status | None = None
        self._number = self._looks = 0

    async def outcome(self, order: channel.Message, stdin: int) -> Outcome:
        """Send the order and see it through; `order["id"]` is the number of its run.

        Raises:
            LostError: the keeper or the source state has gone; the run may be repeated.
            SandboxError: the run could not be set up.
        """
        self._number = order["id"]
        started = time.perf_counter()
        event = self._link.expect(self._number)
        self._link.send(order, (stdin, self._out.write_end, self._err.write_end))
        channel.close_all((self._out.write_end, self._err.write_end))
        alarms = [
            self._loop.call_later(self._limits.seconds, self._stop, "timeout"),
            self._loop.call_later(self._limits.seconds + _GRACE, self._link.close),
        ]
        look = self._loop.call_later(_FIRST_LOOK, self._look)
        self._looking = look
        try:
            message = await event
        except LostError:
            if self._verdict is None:
                raise
            message = {"event": "ended", "signal": None, "cpu": 0.0}
        except asyncio.CancelledError:
            self._link.forget(self._number)
            self._link.send({"do": "kill", "id": self._number, "hard": False})
            raise
        finally:
            for alarm in (*alarms, self._looking):
                alarm.cancel()
            for pipe in (self._out, self._err):
                pipe.read()
                pipe.close()
        return self._judge(message, time.perf_counter() - started)

    def _stop(self, verdict: Status) -> None:
        if self._verdict is None:
            self._verdict = verdict
            self._link.send({"do": "kill", "id": self._number, "hard": True})

    def _look(self) -> None:
        """Read the output of a run that takes long. Short ones are read once, at their end."""
        before = len(self._out.data) + len(self._err.data)
        for pipe in (self._out, self._err):
            pipe.read()
        if self._out.over or self._err.over:
            self._stop("output_limit")
            return
        self._looks += 1
        if self._link.folder and self._looks % _LOOKS_PER_SCAN == 0 and self._overfull(self._link.folder):
            self._stop("killed")
            return
        busy = len(self._out.data) + len(self._err.data) - before > 16_000
        self._looking = self._loop.call_later(0.001 if busy else _NEXT_LOOK, self._look)

    def _overfull(self, folder: Path) -> bool:
        """Whether the scratch folder has outgrown its limit, where no file system of its own sees to that."""
        size, limit = 0, self._limits.scratch_mb << 20
        for place, _, names in os.walk(folder / str(self._number)):
            for name in names:
                with contextlib.suppress(OSError):
                    size += os.lstat(os.path.join(place, name)).st_size + _FILE_OVERHEAD
            if size > limit:
                return True
        return False

    def _judge(self, message: channel.Message, seconds: float) -> Outcome:
        match message["event"]:
            case "gone" if self._verdict is None:
                raise GoneError("the state has gone")
            case "failed":
                raise SandboxError(f"a run could not be set up: {message['reason']}")
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
            exit_code=keep.exit_code if keep else None,
            signal=message.get("signal"),
        )
        return Outcome(shown, alive, message.get("memory", 0))

    def _death(self, message: channel.Message) -> Status:
        """Why a process died that nobody killed: its processor time, or its own doing."""
        out_of_time = message["signal"] == signal.SIGXCPU or message["cpu"] >= cpu_seconds(self._limits)
        return "timeout" if out_of_time else "killed"


def read_report(text: str) -> Result:
    """What a run says of itself, believed as far as its form goes; anything else counts as ``killed``."""
    try:
        report = json.loads(text)
        status, code = report["status"], report.get("exit_code")
        if status not in ("ok", "error", "memory") or not (code is None or isinstance(code, int)):
            raise ValueError(status)
        error = None
        if status != "ok":
            line = report["line"]
            error = CodeError(str(report["kind"]), str(report["message"]), line if isinstance(line, int) else None)
        return Result(status, error=error, exit_code=code)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return Result("killed")


def cpu_seconds(limits: Limits) -> int:
    """The limit of processor time in whole seconds."""
    return max(1, math.ceil(limits.seconds if limits.cpu_seconds is None else limits.cpu_seconds))


def kernel_limits(limits: Limits) -> dict[str, Any]:
    """The part of the limits that a keeper sets, in its units."""
    return {"memory": limits.memory_mb << 20, "cpu": cpu_seconds(limits), "scratch": limits.scratch_mb << 20}


def remove_folder(folder: Path) -> None:
    """Remove a scratch folder."""
    shutil.rmtree(folder, ignore_errors=True)
