"""`LocalPool`: a small model in several processes, as one `Engine`.

A step of a small model is many short operations that one interpreter can hardly run fast enough, and in the search
process they contend with the search. So the pool has worker processes (`rstar.models.local.worker`), each with its own
copy of the model and its own batch. Starting a worker costs seconds of CPU time, too much for a single question: until
work has lasted that long, and while the workers load the model, an engine in this process serves requests.

Invariants, in addition to those of `LocalEngine` and `Replicas`:

* Results do not depend on which process computes a request: completions do not depend on the rest of the batch, and all
  processes use the same settings and weights. A worker refuses a folder whose files have changed since it was read.
* When a worker exits, its requests and all later ones raise an `EngineError` that names it, until the engine is closed
  and reopened. No request waits for a dead worker.
* Workers end with the engine, and with this process however it ends.
* The event loop never blocks on a worker: each worker has a sender thread and a receiver thread.
"""

from __future__ import annotations

import asyncio
import itertools
import math
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
from typing import IO, Any

from safetensors.torch import save

from rstar.errors import EngineError
from rstar.lifecycle import call_in_loop, set_exception, set_result
from rstar.models.decoder import Decoder
from rstar.models.engine import Completion, Context, Request, Weights
from rstar.models.local.engine import LocalEngine, ModelSettings
from rstar.models.local.worker import Cancel, Complete, LoadWeights, Order, Results, spawn
from rstar.models.replicas import Replica, Replicas
from rstar.models.scheduler import Scheduler

START_DELAY = 2.0
"""Seconds of work before workers are started, about the cost of starting them."""

QUEUED = 2
"""Samples given to a worker at a time, in batches."""

RESIDENT = 1.5
"""Rollouts that a worker may have before a new one waits, in batches. The rows that hold prompts are two batches: with
more rollouts, a prompt is overwritten before the next turn needs it."""

MAX_WORKERS = 4
"""Maximum number of workers: more would wait for the search process, whose share is over a fifth of the model's."""


def useful_workers(engine: LocalEngine, processors: int | None = None) -> int:
    """Number of worker processes that speed up a search with `engine` on `processors` (default: those of this process).

    In a tree search with the bundled model, about half of the CPU time is the model's; the rest is the search and the
    sandbox. Models that use several processors or an accelerator need no workers.
    """
    if processors is None:
        processors = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    return min(processors // 2, MAX_WORKERS) if engine.uses_one_processor else 0


class Worker:
    """Client side of a worker process.

    Args:
        front: the engine in this process; defines how the model is loaded and validates requests.
        packed: weights and version to load first; None for those of the folder.

    Raises:
        EngineError: the process cannot be started. The constructor returns before the model is loaded.
    """

    def __init__(self, front: LocalEngine, packed: tuple[bytes, int] | None = None) -> None:
        self.version = 0
        self.ready = False
        self.failure: EngineError | None = None
        """Why the process has ended."""
        self._front, name = front, front.name
        self._closing = False
        self._lock = threading.Lock()
        self._keys = itertools.count()
        self._pending: dict[int, asyncio.Future[Sequence[Completion]]] = {}
        self._outbox: SimpleQueue[Order | None] = SimpleQueue()
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115  (closed by the receiver thread)
        self._connection: Connection[Any, Any]
        self._connection, theirs = Pipe()
        try:
            self._process = spawn(theirs, self._stderr)
        except OSError as error:
            raise EngineError(f"{name}: cannot start a worker process: {error}") from error
        self.pid = self._process.pid
        self._name = f"{name}: worker process {self.pid}"
        self._threads = [
            threading.Thread(target=target, name=f"rstar {self._name}", args=args, daemon=True)
            for target, args in ((self._send_orders, ((front.settings, os.getpid()),)), (self._receive, ()))
        ]
        if packed is not None:
            self._outbox.put(LoadWeights(next(self._keys), *packed))
            self.version = packed[1]
        for thread in self._threads:
            thread.start()

    async def complete(self, request: Request) -> Sequence[Completion]:
        """See `Engine.complete`. Raises `EngineError` if the process ends first."""
        limit = self._front.job(request).limit
        request = replace(request, context=Context("", request.context.ids))
        return await self._execute(lambda key: Complete(key, request, limit))

    async def load(self, packed: bytes, version: int) -> None:
        """Load weights packed by `pack`; see `Engine.load`."""
        await self._execute(lambda key: LoadWeights(key, packed, version))
        self.version = version

    async def _execute(self, order: Callable[[int], Complete | LoadWeights]) -> Sequence[Completion]:
        """Send an order and wait for the reply."""
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

    def check(self) -> None:
        """Raise `EngineError` if the process has ended."""
        if self.failure is not None:
            raise EngineError(str(self.failure)) from self.failure

    def kill(self) -> None:
        """Kill the process immediately. Its requests fail."""
        self._closing = True
        self._process.kill()

    def join(self) -> None:
        """Wait for the threads of a killed worker and close the connection."""
        for thread in self._threads:
            thread.join()
        self._connection.close()

    def _send_orders(self, first: tuple[ModelSettings, int]) -> None:
        """Sender thread: send orders from the outbox."""
        with suppress(OSError):  # the receiver thread notices, too
            self._connection.send(first)
            while (order := self._outbox.get()) is not None:
                self._connection.send(order)

    def _receive(self) -> None:
        """Receiver thread: receive until the process ends."""
        reason = ""
        with suppress(EOFError, OSError):
            while True:
                message: Results | str = self._connection.recv()
                if isinstance(message, str):
                    reason = message
                    continue
                self.ready = True
                for key, completions in message:
                    with self._lock:
                        future = self._pending.get(key)
                    if future is not None:
                        call_in_loop(future.get_loop(), set_result, future, completions)
        self._fail_pending(reason)

    def _fail_pending(self, reason: str) -> None:
        self._process.kill()  # it has closed its end of the connection, so it is exiting anyway
        code = self._process.wait()
        reason = "it was closed" if self._closing else reason or _exit_reason(code, self._stderr)
        with self._lock:
            self.ready = False
            self.failure = EngineError(f"{self._name}: {reason}")
            futures = list(self._pending.values())
        for future in futures:
            call_in_loop(future.get_loop(), set_exception, future, self.failure)
        self._outbox.put(None)
        self._stderr.close()


def pack(decoder: Decoder) -> bytes:
    """Serialise a decoder's weights in safetensors format."""
    packed: bytes = save({name: tensor.detach().cpu().contiguous() for name, tensor in decoder.state_dict().items()})
    return packed


def _exit_reason(code: int, stderr: IO[bytes]) -> str:
    """Describe why a process ended, from its exit code and the last line of its stderr."""
    if code < 0:
        return f"signal {-code} ended it ({signal.strsignal(-code)})"
    stderr.seek(0)
    lines = stderr.read().decode(errors="replace").split("\n")
    last = next((line for line in reversed(lines) if line.strip()), "")
    return f"it ended with status {code}" + (f": {last.strip()}" if last else "")


class LocalPool(Replicas):
    """An `Engine` of worker processes, served in this process until they are ready; see the module docstring.

    Args:
        engine: computes in this process, and defines how the workers load the model.
        workers: number of worker processes, > 0.
        start_delay: minimum seconds between the first request and the start of the workers.
    """

    def __init__(self, engine: LocalEngine, workers: int, start_delay: float = START_DELAY) -> None:
        super().__init__([engine], migrate_below=math.inf)
        self.tokens = engine.tokens
        self.workers: list[Worker] = []
        self._front, self._count, self._start_delay = engine, workers, start_delay
        self._packed: tuple[bytes, int] | None = None
        self._asked = 0
        self._first_request: float | None = None

    async def complete(self, request: Request) -> Sequence[Completion]:
        """See `Engine.complete`. Raises `EngineError` also if a worker cannot be started or has ended."""
        self._front.job(request)
        for worker in self.workers:
            worker.check()
        self._asked += 1
        try:
            if self._users and not self.workers and self._should_start():
                self.workers = [Worker(self._front, self._packed) for _ in range(self._count)]
            return await super().complete(request)
        finally:
            self._asked -= 1

    async def load(self, weights: Weights, version: int) -> None:
        """See `Engine.load`. Workers started later begin with these weights."""
        decoder = await asyncio.to_thread(self._front.decoder, weights)
        packed = await asyncio.to_thread(pack, decoder)
        # The engine in this process comes first: if it refuses the weights, no worker loads them.
        await self._load_each([self._front], lambda engine: engine.load(decoder, version))
        self._packed = packed, version
        await self._load_each(self.workers, lambda worker: worker.load(packed, version), changed=True)

    def _new_scheduler(self) -> Scheduler:
        """A worker's queue should not run empty, so it is given more samples than its batch holds."""
        batch = self._front.capacity().samples
        places = [None] * (1 + self._count)
        return Scheduler(places, self._growth, self._migrate_below, QUEUED * batch, RESIDENT * batch)

    def _places(self) -> Sequence[Replica | None]:
        return [self._front, *self.workers, *[None] * (self._count - len(self.workers))]

    def _ready(self) -> Sequence[Replica]:
        return [worker for worker in self.workers if worker.ready and worker not in self._outdated] or super()._ready()

    def _should_start(self) -> bool:
        """Whether work has lasted long enough to start workers, and more than one request is waiting."""
        now = time.monotonic()
        self._first_request = self._first_request or now
        return self._asked > 1 and now - self._first_request >= self._start_delay

    async def _open(self) -> None:
        self._first_request = None
        await super()._open()

    async def _close(self) -> None:
        closing, self.workers = self.workers, []
        for worker in closing:
            worker.kill()
        for worker in closing:
            worker.join()
        await super()._close()
