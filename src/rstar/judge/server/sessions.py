"""Sessions: notebooks that live between calls. No host may have all of them (see `shares`).

A session is the chain of its cells; the interpreter that ran them is a cache in some worker. So a session survives its
worker (another one runs the cells again), and a copy of it costs nothing.
"""

from __future__ import annotations

import itertools
import time
import uuid
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from rstar.judge.queue.jobs import Cell
from rstar.judge.queue.shares import Shares


@dataclass(frozen=True, slots=True)
class Session:
    """One session as it is now.

    Attributes:
        state: id of its interpreter state, "" for a fresh one.
        worker: who has the state.
        cells: what has run, in order.
        size: bytes of the cells, as they are sent.
        host: whose it is.
    """

    state: str = ""
    worker: str = ""
    cells: tuple[Cell, ...] = ()
    size: int = 0
    host: str = ""


@dataclass(slots=True)
class Sessions:
    """The sessions of one API process, the one not used for longest first.

    Attributes:
        places: for sessions.
        memory: bytes for their cells, and for whatever else clients have in memory.
        idle: seconds after which one ends that is not used.
    """

    places: Shares
    memory: Shares
    idle: float
    _held: OrderedDict[str, Session] = field(default_factory=OrderedDict)
    _used: dict[str, float] = field(default_factory=dict)
    _busy: dict[str, int] = field(default_factory=dict)
    _holders: dict[str, int] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self._held)

    def fits(self, session: Session) -> bool:
        """Whether there is room for another one."""
        return self.places.fits(session.host) and self.memory.fits(session.host, session.size)

    def get(self, name: str, *, use: bool = True) -> Session | None:
        """A session by its id. `use`: it is not idle."""
        if use and name in self._held:
            self._touch(name)
        return self._held.get(name)

    @contextmanager
    def working(self, name: str) -> Iterator[None]:
        """A session in which something runs does not end for being idle."""
        self._busy[name] = self._busy.get(name, 0) + 1
        try:
            yield
        finally:
            self._busy[name] -= 1
            if not self._busy[name]:
                del self._busy[name]
            if name in self._held:
                self._touch(name)

    def _touch(self, name: str) -> None:
        self._used[name] = time.monotonic()
        self._held.move_to_end(name)

    def add(self, session: Session) -> str:
        """Keep a new session. Returns its id."""
        name = uuid.uuid4().hex
        self.put(name, session)
        return name

    def put(self, name: str, session: Session) -> list[tuple[str, str]]:
        """Set what a session is. Returns (worker, state) of states that no session has any more."""
        unused = self.drop(name)
        self.places.add(session.host)
        self.memory.add(session.host, session.size)
        self._held[name] = session
        self._touch(name)
        if session.state:
            self._holders[session.state] = self._holders.get(session.state, 0) + 1
            unused = [one for one in unused if one[1] != session.state]
        return unused

    def drop(self, name: str) -> list[tuple[str, str]]:
        """End a session. Returns as `put`."""
        session = self._held.pop(name, None)
        self._used.pop(name, None)
        if session is None:
            return []
        self.places.add(session.host, -1)
        self.memory.add(session.host, -session.size)
        if not session.state:
            return []
        self._holders[session.state] -= 1
        if self._holders[session.state]:
            return []
        del self._holders[session.state]
        return [(session.worker, session.state)]

    def expire(self) -> list[tuple[str, str]]:
        """End the sessions that have been idle for too long. Returns as `put`."""
        unused: list[tuple[str, str]] = []
        limit = time.monotonic() - self.idle
        idle = list(itertools.takewhile(lambda name: self._used[name] <= limit, self._held))
        for name in idle:
            if name not in self._busy:
                unused += self.drop(name)
        return unused
