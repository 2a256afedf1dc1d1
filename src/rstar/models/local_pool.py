"""`LocalPool`: a small model in several processes, as one `Engine`.

The steps of a small model are many short operations that one interpreter hardly runs fast enough, and in the process
of a search they contend with the search itself. So this engine has worker processes (`rstar.models.local_worker`), each
with a copy of the model and a batch of its own. Starting one takes seconds of a processor, which a single question is
not worth: until work has lasted as long, and while the workers load the model, an engine in this process serves.

Invariants, beside those of `LocalEngine`:

* Who computes a request changes nothing: completions do not depend on company, and all compute with equal settings and
  the same weights. A worker refuses a folder whose files have changed since.
* The contexts that come from one call of `context` have one home, whose cache holds what they begin with; they leave it
  only for a worker with clearly less to do.
* A worker that ends is an `EngineError` that names it, for its requests and for all later ones, until the engine is
  closed and opened again. Nobody waits for a worker that is gone.
* Workers end with the engine, and with this process however that ends.
* The event loop never waits for a worker: a thread for each sends, another receives.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection, Pipe
from queue import SimpleQueue
from types import TracebackType
from typing import IO, Any, Self

from rstar.errors import EngineError
from rstar.models.engine import Completion, Context, Request
from rstar.models.local import Loading, LocalEngine
from rstar.models.local_batch import Job
from rstar.models.local_futures import call, finish, refuse
from rstar.models.local_worker import Ended, Order, spawn

PATIENCE = 2.0
"""Seconds of work that are waited for before workers are started, about as many as that takes."""

SLACK = 16
"""A text leaves its home for a worker with this many samples under way less."""

MOST = 4
"""More workers than this wait for the one process that searches: its part is above a fifth of the model's."""


def worthwhile(engine: LocalEngine, processors: int | None = None) -> int:
    """How many worker processes help `engine` in a search, on so many processors (default: those of this process).

    Of the processor time of a tree search with the bundled model about half is the model's; the rest is the search's
    own and the sandbox's. Models that keep several processors busy, or an accelerator, need no workers.
    """
    if processors is None:
        processors = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    return min(processors // 2, MOST) if engine.light else 0


class Worker:
    """A worker process as seen from here."""

    def __init__(self, name: str, loading: Loading) -> None:
        """Start the process; returns before it has loaded the model.

        Raises:
            EngineError: no process can be started.
        """
        self.ready = False
        self.failure: EngineError | None = None
        """Why the process has ended."""
        self.load = 0
        """Samples under way."""
        self._closing = False
        self._lock = threading.Lock()
        self._keys = itertools.count()
        self._pending: dict[int, asyncio.Future[Sequence[Completion]]] = {}
        self._outbox: SimpleQueue[Order | None] = SimpleQueue()
        self._said = tempfile.TemporaryFile()  # noqa: SIM115  (closed by the thread that reads)
        self._link: Connection[Any, Any]
        self._link, theirs = Pipe()
        try:
            self._process = spawn(theirs, self._said)
        except OSError as error:
            raise EngineError(f"{name}: no worker process can be started: {error}") from error
        self.pid = self._process.pid
        self._name = f"{name}: worker process {self.pid}"
        self._threads = [
            threading.Thread(target=target, name=f"rstar {self._name}", args=args, daemon=True)
            for target, args in ((self._write, ((loading, os.getpid()),)), (self._read, ()))
        ]
        for thread in self._threads:
            thread.start()

    async def complete(self, job: Job) -> Sequence[Completion]:
        """The completions of `job`. Raises `EngineError` when the process ends first."""
        request = job.request
        future: asyncio.Future[Sequence[Completion]] = asyncio.get_running_loop().create_future()
        with self._lock:
            self.check()
            key = next(self._keys)
            self._pending[key] = future
            self.load += request.n
        self._outbox.put((key, replace(request, context=Context("", request.context.ids)), job.limit))
        try:
            return await future
        except asyncio.CancelledError:
            self._outbox.put((key, None, 0))
            raise
        finally:
            with self._lock:
                self._pending.pop(key, None)
                self.load -= request.n

    def check(self) -> None:
        """Raise `EngineError` when the process has ended."""
        if self.failure is not None:
            raise EngineError(str(self.failure)) from self.failure

    def kill(self) -> None:
        """End the process, whatever it is doing. Its requests fail."""
        self._closing = True
        self._process.kill()

    def join(self) -> None:
        """Wait until nothing of a killed worker is left."""
        for thread in self._threads:
            thread.join()
        self._link.close()

    def _write(self, first: tuple[Loading, int]) -> None:
        """A thread: send what lies in the outbox."""
        with suppress(OSError):  # the reader notices, too
            self._link.send(first)
            while (order := self._outbox.get()) is not None:
                self._link.send(order)

    def _read(self) -> None:
        """A thread: receive until the process ends."""
        reason = ""
        with suppress(EOFError, OSError):
            while True:
                message: Ended | str = self._link.recv()
                if isinstance(message, str):
                    reason = message
                    continue
                self.ready = True
                for key, completions in message:
                    with self._lock:
                        future = self._pending.get(key)
                    if future is not None:
                        call(future.get_loop(), finish, future, completions)
        self._end(reason)

    def _end(self, reason: str) -> None:
        self._process.kill()  # it has closed its end: if it is still there, it is on its way out
        code = self._process.wait()
        reason = "it was closed" if self._closing else reason or _reason(code, self._said)
        with self._lock:
            self.ready = False
            self.failure = EngineError(f"{self._name}: {reason}")
            futures = list(self._pending.values())
        for future in futures:
            call(future.get_loop(), refuse, future, self.failure)
        self._outbox.put(None)
        self._said.close()


def _reason(code: int, said: IO[bytes]) -> str:
    """Why a process has ended with `code`, as far as that and the end of its stderr tell."""
    if code < 0:
        return f"signal {-code} ended it ({signal.strsignal(-code)})"
    said.seek(0)
    lines = said.read().decode(errors="replace").split("\n")
    last = next((line for line in reversed(lines) if line.strip()), "")
    return f"it ended with status {code}" + (f": {last.strip()}" if last else "")


@dataclass(slots=True, eq=False)
class _Home:
    """Where the texts that grow from one beginning are computed."""

    worker: Worker | None = None


@dataclass(frozen=True, slots=True, eq=False)
class _Housed(Context):
    """A context that knows its home; equal to any other of the same text and ids."""

    home: _Home = field(default_factory=_Home)

    def extend(self, completion: Completion) -> Context:
        return _Housed(self.text + completion.text, self.ids + completion.ids, self.home)


class LocalPool:
    """An `Engine` of worker processes, and one in this process until they are there; see the module's docstring."""

    def __init__(self, engine: LocalEngine, workers: int, patience: float = PATIENCE) -> None:
        """Nothing is started yet.

        Args:
            engine: computes in this process, and says how the workers load the model.
            workers: number of worker processes, > 0.
            patience: seconds after the first request before which no worker is started.
        """
        self.name, self.max_context = engine.name, engine.max_context
        self.tokens = engine.tokens
        self.workers: list[Worker] = []
        self._engine, self._count, self._patience = engine, workers, patience
        self._users = 0
        self._under_way = 0
        self._since: float | None = None

    def context(self, text: str) -> Context:
        """`text` as the start of a context, and of those that will continue it."""
        start = self._engine.context(text)
        return _Housed(start.text, start.ids)

    def append(self, context: Context, text: str) -> Context:
        """`context` followed by `text`, which is tokenised on its own, without BOS."""
        longer = self._engine.append(context, text)
        return _Housed(longer.text, longer.ids, context.home) if isinstance(context, _Housed) else longer

    async def complete(self, request: Request) -> Sequence[Completion]:
        """`request.n` completions, in order.

        Raises:
            ContextFullError: the context is as long as the model's, or longer.
            EngineError: a context without ids, an engine that is not open, a failure of the model, or a worker that
                cannot be started or has ended.
        """
        job = self._engine.job(request)
        for worker in self.workers:
            worker.check()
        self._under_way += 1
        try:
            if self._users and not self.workers and self._worth_it():
                for _ in range(self._count):
                    self.workers.append(Worker(self.name, self._engine.loading))
            chosen = self._choose(request.context)
            return await (self._engine.complete(request) if chosen is None else chosen.complete(job))
        finally:
            self._under_way -= 1

    def _worth_it(self) -> bool:
        """Whether work has lasted long enough for workers, and there is more of it than one text."""
        now = time.monotonic()
        self._since = self._since or now
        return self._under_way > 1 and now - self._since >= self._patience

    def _choose(self, context: Context) -> Worker | None:
        """Who computes what follows `context`; None is the engine in this process."""
        ready = [worker for worker in self.workers if worker.ready]
        if not ready:
            return None
        least = min(ready, key=lambda worker: worker.load)
        if not isinstance(context, _Housed):
            return least
        home = context.home
        if home.worker not in ready or home.worker.load >= least.load + SLACK:
            home.worker = least
        return home.worker

    async def __aenter__(self) -> Self:
        self._users += 1
        if self._users == 1:
            self._since = None
            await self._engine.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._users -= 1
        if self._users == 0:
            closing, self.workers = self.workers, []
            for worker in closing:
                worker.kill()
            for worker in closing:
                worker.join()
            await self._engine.__aexit__(kind, error, trace)
