"""The parent's side of the keepers: starting zygotes and trees, talking to them, ending them."""

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
from rstar.sandbox.jail.paths import search_path
from rstar.sandbox.levels import LEVELS, Level
from rstar.sandbox.parent.spawn import spawn
from rstar.sandbox.tiers import Tier

_EXIT_SECONDS = 3.0
_READY_SECONDS = 120.0
_PING_SECONDS, _PONG_SECONDS = 2.0, 10.0


class LostError(SandboxError):
    """A keeper has gone, or a state in it: what was under way there can be done again elsewhere."""


class StateGoneError(LostError):
    """Only the state to be forked has gone, or cannot be forked."""


class SingleError(StateGoneError):
    """A state that cannot be copied: only its own process can go on."""


class AbsentError(Exception):
    """A tier cannot be had: its packages are not installed."""


class Link:
    """A connection to one keeper: orders out, events in, each with the number of the run that it is about.

    `folder` is where the scratch folders of its runs are, when they are on a disk that others use, too; `shared`: each
    run can write to all of it.
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
        self._numbers = 0
        self._secret = secrets.token_bytes(16)
        self.on_gone: Callable[[int], object] = lambda number: None
        self.open = True
        end.setblocking(False)
        self._loop.add_reader(end, self._read)

    def number(self) -> int:
        """A fresh number for a run or request."""
        self._numbers += 1
        return self._numbers

    def folder_of(self, number: int) -> str:
        """What the scratch folder of a run is called. Other runs of the tree must not know it."""
        name = f"{number}-{hashlib.blake2b(str(number).encode(), key=self._secret, digest_size=8).hexdigest()}"
        if self.folder is not None:
            self._names.add(name)
        return name

    def writable(self, name: str) -> tuple[str, Set[str]]:
        """Where a run with the scratch folder `name` can write, and the names there that are other runs' folders."""
        return (str(self.folder), self._names - {name}) if self._shared else (f"{self.folder}/{name}", set())

    def expect(self, number: int) -> asyncio.Future[channel.Message]:
        """The next event about `number`. Raises `LostError` when the keeper goes."""
        future: asyncio.Future[channel.Message] = self._loop.create_future()
        if self.open:
            self._waiting[number] = future
        else:
            _lose(future)
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
                _lose(future)
        for action in self.on_close:
            action()


class Zygote:
    """A warm interpreter of one tier that runs programs and makes trees. Start with `Zygote.start`."""

    def __init__(self, process: subprocess.Popen[bytes], end: socket.socket, tier: Tier, folder: Path | None) -> None:
        self._process = process
        self.tier = tier
        self.link = Link(end, self.kill, folder)
        self._watching: asyncio.Task[None] | None = None

    @classmethod
    async def start(cls, tier: Tier, level: Level, folder: Path | None) -> Zygote:
        """Start one and wait until it is warm. Scratch folders are in `folder` unless it has namespaces.

        Raises:
            IsolationError: the machine refuses a mechanism of the level.
            AbsentError: the packages of the tier are not installed.
            SandboxError: it did not start; the message has what it said.
        """
        ours, theirs = channel.pair()
        with tempfile.TemporaryFile() as said:
            process = spawn("rstar.sandbox.keeper.zygote", theirs, said)
            zygote = cls(process, ours, tier, folder)
            try:
                settings: channel.Message = {"mechanisms": LEVELS[level], "folder": folder and str(folder)}
                settings |= {"tier": tier, "path": search_path()}
                ready = zygote.link.expect(0)
                zygote.link.send(settings)
                if not await _comes(ready, _READY_SECONDS):
                    raise SandboxError(f"the {tier} interpreter was not ready after {_READY_SECONDS:g} s")
                event = ready.result()
            except LostError:
                process.wait()
                said.seek(0)
                text = said.read().decode(errors="replace").strip()
                raise SandboxError(f"the {tier} interpreter did not start: {text or process.returncode}") from None
            except BaseException:
                zygote.link.close()
                raise
        if event["event"] == "ready":
            zygote._watching = asyncio.create_task(zygote._watch())
            return zygote
        zygote.link.close()
        if event["event"] == "absent":
            raise AbsentError(event["reason"])
        raise refusal(level, event["mechanism"], event["reason"])

    async def _watch(self) -> None:
        """End it when it, or its template, does not answer any more: what it had to do is done by another one."""
        while self.link.open:
            await asyncio.sleep(_PING_SECONDS)
            number = self.link.number()
            pong = self.link.expect(number)
            self.link.send({"do": "ping", "id": number})
            if not await _comes(pong, _PONG_SECONDS):
                self.link.close()

    def kill(self) -> None:
        """End it, and all runs and trees in it."""
        self.link.close()
        if self._process.poll() is None:
            self._process.kill()

    async def close(self) -> None:
        """End it and wait for the end."""
        if self._watching is not None:
            self._watching.cancel()
        self.link.on_close.clear()
        self.link.close()
        try:
            await asyncio.to_thread(self._process.wait, _EXIT_SECONDS)
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
        self.link = Link(ours, self._closed, folder / f"tree{self._number}" if folder else None, shared=True)

    def _closed(self) -> None:
        self.zygote.link.send({"do": "kill", "id": self._number, "hard": True})

    def close(self) -> None:
        """End it and all of its states."""
        self.link.close()


def _lose(event: asyncio.Future[channel.Message]) -> None:
    """Tell who waits for an event that the keeper has gone; if nobody does any more, that is no error."""
    event.set_exception(LostError("the keeper has gone"))
    event.exception()  # has been seen


async def _comes(event: asyncio.Future[channel.Message], seconds: float) -> bool:
    """Whether an event comes in time, or the keeper has gone.

    When time is up it may wait to be read, because this process was busy, so there is another chance.
    """
    for patience in (seconds, seconds / 10):
        done, _ = await asyncio.wait((event,), timeout=patience)
        if done:
            return True
    return False


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
