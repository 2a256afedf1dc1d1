"""`LocalPool`: a small model in several processes, as one `Engine`.

The steps of a small model are many short operations that one interpreter hardly runs fast enough, and in the process
of a search they contend with the search itself. So this engine has worker processes (`rstar.models.local.worker`), each
with a copy of the model and a batch of its own. Starting one takes seconds of a processor, which a single question is
not worth: until work has lasted as long, and while the workers load the model, an engine in this process serves.

Invariants, beside those of `LocalEngine` and `Replicas`:

* Which process computes a request changes nothing: completions do not depend on company, and all processes compute with
  equal settings and the same weights. A worker refuses a folder whose files have changed since.
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
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from multiprocessing.connection import Connection, Pipe
from queue import SimpleQueue
from typing import IO, Any, Self

from safetensors.torch import save

from rstar.errors import EngineError
from rstar.lifecycle import together
from rstar.models.decoder import Decoder
from rstar.models.engine import Capacity, Completion, Context, Engine, Request, Weights
from rstar.models.local.engine import Loading, LocalEngine
from rstar.models.local.futures import call, finish, refuse
from rstar.models.local.worker import Ask, Cancel, Ended, LoadWeights, Order, spawn
from rstar.models.replicas import Replicas

PATIENCE = 2.0
"""Seconds of work that are waited for before workers are started, about as many as that takes."""

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
    """A worker process as seen from here, as an `Engine`.

    Args:
        front: the engine in this process, which says how the model is loaded and checks requests.
        packed: weights to take before anything else, and their version; None: those of the folder.

    Raises:
        EngineError: no process can be started. It returns before the process has loaded the model.
    """

    def __init__(self, front: LocalEngine, packed: tuple[bytes, int] | None = None) -> None:
        self.name, self.max_context, self.version = front.name, front.max_context, 0
        self.ready = False
        self.failure: EngineError | None = None
        """Why the process has ended."""
        self._front, loading, name = front, front.loading, front.name
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
        if packed is not None:
            self._outbox.put(LoadWeights(next(self._keys), *packed))
            self.version = packed[1]
        for thread in self._threads:
            thread.start()

    def context(self, text: str) -> Context:
        """See `Engine.context`."""
        return self._front.context(text)

    def append(self, context: Context, text: str) -> Context:
        """See `Engine.append`."""
        return self._front.append(context, text)

    async def complete(self, request: Request) -> Sequence[Completion]:
        """See `Engine.complete`. Raises `EngineError` when the process ends first."""
        limit = self._front.job(request).limit
        request = replace(request, context=Context("", request.context.ids))
        return await self._ask(lambda key: Ask(key, request, limit))

    async def load(self, weights: Weights, version: int) -> None:
        """See `Engine.load`."""
        await self.load_packed(pack(await asyncio.to_thread(self._front.decoder, weights)), version)

    async def load_packed(self, packed: bytes, version: int) -> None:
        """`load` of what `pack` made."""
        await self._ask(lambda key: LoadWeights(key, packed, version))
        self.version = version

    def capacity(self) -> Capacity:
        """See `Engine.capacity`."""
        return self._front.capacity()

    async def _ask(self, order: Callable[[int], Ask | LoadWeights]) -> Sequence[Completion]:
        """Send an order and wait for its answer."""
        future: asyncio.Future[Sequence[Completion]] = asyncio.get_running_loop().create_future()
        with self._lock:
            self.check()
            key = next(self._keys)
            self._pending[key] = future
        self._outbox.put(order(key))
        try:
            return await future
        except asyncio.CancelledError:
            self._outbox.put(Cancel(key))
            raise
        finally:
            with self._lock:
                self._pending.pop(key, None)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        """The pool ends its workers: `kill`, then `join`."""

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


def pack(decoder: Decoder) -> bytes:
    """The weights of a decoder in the form of safetensors."""
    packed: bytes = save({name: tensor.detach().cpu().contiguous() for name, tensor in decoder.state_dict().items()})
    return packed


def _reason(code: int, said: IO[bytes]) -> str:
    """Why a process has ended with `code`, as far as that and the end of its stderr tell."""
    if code < 0:
        return f"signal {-code} ended it ({signal.strsignal(-code)})"
    said.seek(0)
    lines = said.read().decode(errors="replace").split("\n")
    last = next((line for line in reversed(lines) if line.strip()), "")
    return f"it ended with status {code}" + (f": {last.strip()}" if last else "")


class LocalPool(Replicas):
    """An `Engine` of worker processes, and one in this process until they are there; see the module's docstring.

    Args:
        engine: computes in this process, and says how the workers load the model.
        workers: number of worker processes, > 0.
        patience: seconds after the first request before which no worker is started.
    """

    def __init__(self, engine: LocalEngine, workers: int, patience: float = PATIENCE) -> None:
        super().__init__([engine])
        self.tokens = engine.tokens
        self.workers: list[Worker] = []
        self._front, self._count, self._patience = engine, workers, patience
        self._packed: tuple[bytes, int] | None = None
        self._waiting = 0
        self._since: float | None = None

    async def complete(self, request: Request) -> Sequence[Completion]:
        """See `Engine.complete`. Raises `EngineError` also for a worker that cannot be started or has ended."""
        self._front.job(request)
        for worker in self.workers:
            worker.check()
        self._waiting += 1
        try:
            if self._users and not self.workers and self._worth_it():
                self.workers = [Worker(self._front, self._packed) for _ in range(self._count)]
            return await super().complete(request)
        finally:
            self._waiting -= 1

    async def load(self, weights: Weights, version: int) -> None:
        """See `Engine.load`. Workers that are started later begin with these weights."""
        decoder = await asyncio.to_thread(self._front.decoder, weights)
        packed = await asyncio.to_thread(pack, decoder)
        await self._front.load(decoder, version)  # first: what it refuses, no worker takes
        self._packed = packed, version
        await together(worker.load_packed(packed, version) for worker in self.workers)

    def _ready(self) -> Sequence[Engine]:
        return [worker for worker in self.workers if worker.ready] or [self._front]

    def _worth_it(self) -> bool:
        """Whether work has lasted long enough for workers, and there is more of it than one text."""
        now = time.monotonic()
        self._since = self._since or now
        return self._waiting > 1 and now - self._since >= self._patience

    async def _open(self) -> None:
        self._since = None
        await super()._open()

    async def _close(self) -> None:
        closing, self.workers = self.workers, []
        for worker in closing:
            worker.kill()
        for worker in closing:
            worker.join()
        await super()._close()
