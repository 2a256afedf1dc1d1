"""Sessions: notebooks that persist between calls. `quotas` limits the sessions of one host.

A session is the chain of its cells; the interpreter that ran them is a cache in some worker. So a session survives its
worker (another one replays the cells), and copying it is free.
"""

from __future__ import annotations

import itertools
import time
import uuid
from collections import Counter, OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from rstar.judge.queue.jobs import Cell
from rstar.judge.queue.quotas import Charge, ClientQuotas
from rstar.judge.server.guard import NoRoomError

_FULL_SECONDS = 10
"""Seconds after which a client may try again if there is no room for a session."""


@dataclass(frozen=True, slots=True)
class Session:
    """Immutable snapshot of one session.

    Attributes:
        state: id of its interpreter state, "" for a fresh one.
        worker: the worker that holds the state.
        cells: executed cells, in order.
        size: bytes that the cells take in a packed job, see `Cell.size`.
        memory: bytes that the cells occupy, see `Cell.memory`.
        host: the client host that owns it.
    """

    state: str = ""
    worker: str = ""
    cells: tuple[Cell, ...] = ()
    size: int = 0
    memory: int = 0
    host: str = ""


@dataclass(slots=True)
class Sessions:
    """The sessions of one API process, least recently used first.

    Attributes:
        quota: shares of the session count.
        memory: shares of the bytes that clients occupy, cells included.
        idle: seconds after which an unused session ends.
    """

    quota: ClientQuotas
    memory: ClientQuotas
    idle: float
    _sessions: OrderedDict[str, Session] = field(default_factory=OrderedDict)
    _used: dict[str, float] = field(default_factory=dict)
    _busy: Counter[str] = field(default_factory=Counter)
    _state_users: Counter[str] = field(default_factory=Counter)

    def __len__(self) -> int:
        return len(self._sessions)

    @contextmanager
    def reserve(self, host: str, count: int, size: int) -> Iterator[None]:
        """Hold room for `count` more sessions and `size` more bytes of a host while the block, which may wait, runs.

        The block puts the sessions that take this room; what it does not put is free again.

        Raises:
            NoRoomError: there is no such room.
        """
        sessions, memory = Charge(self.quota, host), Charge(self.memory, host)
        try:
            if not sessions.take(count):
                raise NoRoomError(f"{len(self)} sessions leave no room for another", _FULL_SECONDS)
            if not memory.take(size):
                raise NoRoomError("the cells of all sessions leave no room for more", _FULL_SECONDS)
            yield
        finally:
            sessions.release()
            memory.release()

    def get(self, name: str, *, use: bool = True) -> Session | None:
        """A session by id. `use` resets its idle time."""
        if use and name in self._sessions:
            self._touch(name)
        return self._sessions.get(name)

    @contextmanager
    def in_use(self, name: str) -> Iterator[None]:
        """Keep a session from expiring while a cell runs in it. A cell for which there is no room does not count."""
        self._busy[name] += 1
        is_refused = False
        try:
            yield
        except NoRoomError:
            is_refused = True
            raise
        finally:
            self._busy[name] -= 1
            if not self._busy[name]:
                del self._busy[name]
            if name in self._sessions and not is_refused:
                self._touch(name)

    def _touch(self, name: str) -> None:
        self._used[name] = time.monotonic()
        self._sessions.move_to_end(name)

    def add(self, session: Session) -> str:
        """Add a new session, whose room is reserved. Returns its id."""
        name = uuid.uuid4().hex
        self.put(name, session)
        return name

    def put(self, name: str, session: Session) -> list[tuple[str, str]]:
        """Replace a session; what it takes more is reserved.

        Returns (worker, state) of states that no session uses any more.
        """
        unused = self.drop(name)
        self.quota.add(session.host)
        self.memory.add(session.host, session.memory)
        self._sessions[name] = session
        self._touch(name)
        if session.state:
            self._state_users[session.state] += 1
            unused = [(worker, state) for worker, state in unused if state != session.state]
        return unused

    def drop(self, name: str) -> list[tuple[str, str]]:
        """End a session. Returns unused states, as `put`."""
        session = self._sessions.pop(name, None)
        self._used.pop(name, None)
        if session is None:
            return []
        self.quota.add(session.host, -1)
        self.memory.add(session.host, -session.memory)
        self._state_users[session.state] -= 1
        if self._state_users[session.state] > 0:
            return []
        del self._state_users[session.state]
        return [(session.worker, session.state)] if session.state else []

    def expire(self) -> list[tuple[str, str]]:
        """End sessions that have been idle too long. Returns unused states, as `put`."""
        unused: list[tuple[str, str]] = []
        limit = time.monotonic() - self.idle
        for name in list(itertools.takewhile(lambda name: self._used[name] <= limit, self._sessions)):
            if name not in self._busy:
                unused += self.drop(name)
        return unused
