"""The parent's side of the keepers: start zygotes and trees, exchange messages with them, close them."""

from __future__ import annotations

import asyncio
import hashlib
import os
import secrets
import socket
import subprocess
import tempfile
from collections import deque
from collections.abc import Callable, Iterable, Set
from pathlib import Path

from rstar.errors import IsolationError, SandboxError
from rstar.sandbox import channel
from rstar.sandbox.folders import exceeds
from rstar.sandbox.jail.paths import search_path
from rstar.sandbox.levels import LEVELS, Level
from rstar.sandbox.parent.spawn import end_session, spawn
from rstar.sandbox.tiers import Tier

_EXIT_SECONDS = 3.0
_READY_SECONDS = 120.0
_PING_SECONDS, _PONG_SECONDS = 2.0, 10.0


class RunLostError(SandboxError):
    """A keeper, or a state in it, is gone; its runs can be retried elsewhere."""


class StateGoneError(RunLostError):
    """The state to fork is gone or cannot be forked; its keeper is alive."""


class UnforkableStateError(StateGoneError):
    """The state cannot be copied; only its own process can continue it."""


class TierMissingError(Exception):
    """The packages of a tier are not installed."""


class Link:
    """A connection to one keeper: orders out, events in, each tagged with the number of its run.

    Args:
        end: our end of the socket pair.
        on_close: called when the connection closes.
        folder: parent of its runs' scratch folders when these are on a shared disk, else None.
        shared: every run can write to all of `folder`.
    """

    def __init__(
        self, end: socket.socket, on_close: Callable[[], object], folder: Path | None, *, shared: bool = False
    ) -> None:
        self._socket = end
        self.on_close = [on_close]
        self.folder, self._shared = folder, shared
        self._names: set[str] = set()
        self._loop = asyncio.get_running_loop()
        self._waiting: dict[int, asyncio.Future[channel.Message]] = {}
        self._outbox: deque[tuple[channel.Message, list[int]]] = deque()
        self._last_id = 0
        self._secret = secrets.token_bytes(16)
        self.on_state_lost: Callable[[int], object] = lambda number: None
        self.open = True
        end.setblocking(False)
        self._loop.add_reader(end, self._read)

    def next_id(self) -> int:
        """A new number for a run or request."""
        self._last_id += 1
        return self._last_id

    def new_folder_name(self, number: int) -> str:
        """Name of a run's scratch folder; other runs of the tree must not be able to guess it."""
        name = f"{number}-{hashlib.blake2b(str(number).encode(), key=self._secret, digest_size=8).hexdigest()}"
        if self.folder is not None:
            self._names.add(name)
        return name

    def writable(self, name: str) -> tuple[str, Set[str]]:
        """The path that a run with scratch folder `name` can write to, and the other runs' folder names in it."""
        return (str(self.folder), self._names - {name}) if self._shared else (f"{self.folder}/{name}", set())

    def leaves_files(self, name: str, size: int) -> bool:
        """Whether the scratch folder `name` exceeds `size` bytes and stays, on a shared disk, for later runs.

        A short run may end before any look through its folder.
        """
        return self._shared and self.folder is not None and exceeds(f"{self.folder}/{name}", (), size)

    def expect(self, number: int) -> asyncio.Future[channel.Message]:
        """The next event about `number`; fails with `RunLostError` if the keeper dies."""
        future: asyncio.Future[channel.Message] = self._loop.create_future()
        if self.open:
            self._waiting[number] = future
        else:
            _fail(future)
        return future

    def forget(self, number: int) -> None:
        """Stop waiting for `number`."""
        self._waiting.pop(number, None)

    def send(self, message: channel.Message, fds: Iterable[int] = ()) -> None:
        """Send now, or queue until the keeper reads. Queued descriptors are duplicated."""
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
            self.on_state_lost(message["id"])

    async def cpu_seconds(self) -> float:
        """CPU seconds of the keeper and of everything that has run in it."""
        number = self.next_id()
        event = self.expect(number)
        self.send({"do": "stats", "id": number})
        return float((await event)["cpu"])

    def close(self) -> None:
        """Close; all pending events fail with `RunLostError`."""
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
                _fail(future)
        for action in self.on_close:
            action()


class Zygote:
    """A warm interpreter of one tier that runs programs and forks trees. Create with `Zygote.start`."""

    def __init__(self, process: subprocess.Popen[bytes], end: socket.socket, tier: Tier, folder: Path | None) -> None:
        self._process, self.pid = process, process.pid
        self.tier = tier
        self.link = Link(end, self.kill, folder)
        self._watchdog: asyncio.Task[None] | None = None

    @classmethod
    async def start(cls, tier: Tier, level: Level, folder: Path | None) -> Zygote:
        """Start a zygote and wait until it is warm. Without namespaces its scratch folders are in `folder`.

        Raises:
            IsolationError: the machine refuses a mechanism of the level.
            TierMissingError: the packages of the tier are not installed.
            SandboxError: it did not start; the message contains its stderr.
        """
        ours, theirs = channel.pair()
        with tempfile.TemporaryFile() as stderr:
            process = spawn("rstar.sandbox.keeper.zygote", theirs, stderr)
            zygote = cls(process, ours, tier, folder)
            try:
                settings: channel.Message = {"mechanisms": LEVELS[level], "folder": folder and str(folder)}
                settings |= {"tier": tier, "path": search_path()}
                ready = zygote.link.expect(0)
                zygote.link.send(settings)
                if not await _arrives(ready, _READY_SECONDS):
                    raise SandboxError(f"the {tier} interpreter was not ready after {_READY_SECONDS:g} s")
                event = ready.result()
            except RunLostError:
                process.wait()
                stderr.seek(0)
                text = stderr.read().decode(errors="replace").strip()
                raise SandboxError(f"the {tier} interpreter did not start: {text or process.returncode}") from None
            except BaseException:
                zygote.link.close()
                raise
        if event["event"] == "ready":
            zygote._watchdog = asyncio.create_task(zygote._watch_answers())
            return zygote
        zygote.link.close()
        if event["event"] == "absent":
            raise TierMissingError(event["reason"])
        raise isolation_error(level, event["mechanism"], event["reason"])

    async def _watch_answers(self) -> None:
        """Close it when it or its template stops answering; its work is retried on another zygote."""
        while self.link.open:
            await asyncio.sleep(_PING_SECONDS)
            number = self.link.next_id()
            pong = self.link.expect(number)
            self.link.send({"do": "ping", "id": number})
            if not await _arrives(pong, _PONG_SECONDS):
                self.link.close()

    def kill(self) -> None:
        """Kill it with all its runs and trees."""
        self.link.close()
        if self._process.returncode is None:
            end_session(self.pid)

    async def close(self) -> None:
        """Close it and wait until it has exited."""
        if self._watchdog is not None:
            self._watchdog.cancel()
        self.link.on_close.clear()
        self.link.close()
        try:
            await asyncio.to_thread(self._process.wait, _EXIT_SECONDS)
        except subprocess.TimeoutExpired:
            end_session(self.pid)
            await asyncio.to_thread(self._process.wait)


class Tree:
    """A keeper of states, forked from a zygote."""

    def __init__(self, zygote: Zygote) -> None:
        ours, theirs = channel.pair()
        self.zygote, self.tier = zygote, zygote.tier
        self._number = zygote.link.next_id()
        zygote.link.send({"do": "tree", "id": self._number}, [theirs.fileno()])
        theirs.close()
        folder = zygote.link.folder
        self.link = Link(ours, self._closed, folder / f"tree{self._number}" if folder else None, shared=True)

    def _closed(self) -> None:
        self.zygote.link.send({"do": "kill", "id": self._number, "hard": True})

    def close(self) -> None:
        """Kill it with all its states."""
        self.link.close()


def _fail(event: asyncio.Future[channel.Message]) -> None:
    """Fail a pending event with `RunLostError`, without a warning if nobody awaits it."""
    event.set_exception(RunLostError("the keeper has gone"))
    event.exception()  # marks the exception as retrieved


async def _arrives(event: asyncio.Future[channel.Message], seconds: float) -> bool:
    """Whether an event arrives in time, or the keeper dies.

    This process may have been too busy to read it, so there is a short second wait.
    """
    for timeout in (seconds, seconds / 10):
        if event in (await asyncio.wait((event,), timeout=timeout))[0]:
            return True
    return False


def isolation_error(level: Level, mechanism: str, reason: str) -> IsolationError:
    """The error for a level that this machine does not support."""
    advice = {
        "namespaces": "allow unprivileged user namespaces (in a container: run it with a seccomp and AppArmor profile"
        " that permits unshare and mount), or ask for the level 'no-namespaces'",
        "landlock": "use a kernel with Landlock (5.13 or later, in its list of security modules), or ask for the level"
        " 'limits', for code that you trust",
        "seccomp": "use a kernel with seccomp user notification (5.5 or later) on x86_64 or aarch64, or ask for the"
        " level 'limits', for code that you trust",
    }.get(mechanism, "run it as an ordinary user")
    return IsolationError(f"isolation level '{level}' is not possible here: {mechanism} refused ({reason}); {advice}")
