"""`LocalEngine`: runs a model folder with torch on this machine, with continuous batching.

One thread owns the model. It computes the prompts of waiting requests, then generates one token at a time for up to
`batch` samples; finished samples make room for others (`rstar.models.local.batch`). The samples of a request share one
prompt computation, and prompts that extend earlier ones compute only the new tokens.

Invariants, in addition to those of `Engine`:

* In float32 on a CPU, the completions of a request are bit-identical whatever is computed beside or before them
  (`rstar.models.local.cached_decoder` explains why; tests check it). Elsewhere they may differ where two tokens are
  nearly tied.
* Log-probabilities are those of the untempered distribution.
* A sample's random numbers depend on seed, sample index and position in the context alone.
* `Completion.ids` are exactly the sampled tokens. When a stop string ends inside a token, `text` ends at the stop
  string and the ids keep the whole token.
* Cancelling a `complete` call frees its rows at the next token.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from rstar.errors import ConfigError, ContextFullError, EngineError
from rstar.lifecycle import SharedContext, call_in_loop, set_exception, set_result
from rstar.models.decoder import Decoder
from rstar.models.decoder_files import DTYPES, load_decoder
from rstar.models.device import is_small, open_device, resolve_device, useful_threads
from rstar.models.engine import Capacity, Completion, Context, Request, Weights
from rstar.models.local.batch import Batch, Job
from rstar.models.local.cached_decoder import ROW_STEP, CachedDecoder
from rstar.models.local.prompts import Prompts
from rstar.models.local.tokens import TokenText


@dataclass(slots=True, eq=False)
class _Update:
    """Pending new weights, and the future of the caller that loads them."""

    decoder: Decoder
    version: int
    future: asyncio.Future[None]


FileStamps = tuple[tuple[str, int, int], ...]


def file_stamps(folder: Path) -> FileStamps:
    """Name, bytes and modification time (ns) of each file of a model; changes when a file is replaced."""
    stats = [(file.name, file.stat()) for file in sorted(folder.glob("*")) if file.suffix in (".json", ".safetensors")]
    return tuple((name, stat.st_size, stat.st_mtime_ns) for name, stat in stats)


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """How a model folder is loaded, ``auto`` resolved: all another process needs to compute the same results.

    Attributes:
        folder: absolute path of the model folder.
        stamps: `file_stamps` of the folder when it was read.
        batch_size: samples generated at once, rounded up to a multiple of `ROW_STEP`.
        dtype: one of `DTYPES`.
        device: a torch device.
        threads: CPU threads.
    """

    folder: Path
    stamps: FileStamps
    batch_size: int
    dtype: str
    device: str
    threads: int

    def batch(self, decoder: Decoder, tokens: TokenText) -> Batch:
        """Create an empty batch with the weights of `decoder`."""
        size = self.batch_size + -self.batch_size % ROW_STEP
        # Twice the batch: the prompt of a search is reused before that many other prompts can overwrite it.
        model = CachedDecoder(decoder, 3 * size, DTYPES[self.dtype], torch.device(self.device))
        return Batch(model, Prompts(model, size, 2 * size), tokens, size)


class LocalEngine(SharedContext):
    """An `Engine` on the weights of a transformers folder; the module docstring states its invariants."""

    def __init__(
        self,
        folder: Path,
        *,
        name: str | None = None,
        batch: int = 64,
        dtype: str = "auto",
        device: str = "auto",
        threads: int | None = None,
        max_context: int | None = None,
    ) -> None:
        """Load the model.

        Args:
            folder: holds ``config.json``, safetensors weights, ``tokenizer.json``.
            name: name of the model in run folders; default ``hf:FOLDER``.
            batch: samples generated at once, rounded up to a multiple of `ROW_STEP`. The KV cache has three times as
                many rows: two thirds keep prompts for reuse.
            dtype: ``float32``, ``bfloat16``, ``float16``, or ``auto``: float32 on a CPU, bfloat16 elsewhere.
            device: a torch device, or ``auto``: cuda if available.
            threads: CPU threads, at most as many as processors; None is one for a small model, else torch's choice.
            max_context: prompt plus completion; default (and maximum) is the model's own limit.

        Raises:
            ConfigError: the folder is missing, incomplete or of an unsupported architecture, the dtype is unknown, or
                the device does not exist.
        """
        super().__init__()
        self.name = name or f"hf:{folder}"
        device, dtype = resolve_device(device, dtype)
        if dtype not in DTYPES:
            raise ConfigError(f"dtype {dtype!r} is not one of auto, {', '.join(DTYPES)}")
        where = open_device(device)
        stamps = file_stamps(folder)
        decoder = load_decoder(folder)
        threads = min(threads, os.cpu_count() or 1) if threads else useful_threads(decoder, where)
        longest = decoder.config.max_position_embeddings
        self.tokens = TokenText(folder)
        self.max_context = min(max_context or longest, longest)
        self.uses_one_processor = threads == 1 and is_small(decoder, where)
        """Whether the model occupies only one processor."""
        self.settings = ModelSettings(folder.absolute(), stamps, batch, dtype, device, threads)
        self._batch = self.settings.batch(decoder, self.tokens)
        self._threads, self._config = threads, decoder.config

        self._thread: threading.Thread | None = None
        # Everything below is shared with the thread and guarded by the condition.
        self._changed = threading.Condition()
        self._running = False
        self._failure: EngineError | None = None
        self._waiting: deque[Job] = deque()
        self._futures: dict[Job, asyncio.Future[Sequence[Completion]]] = {}
        self._update: _Update | None = None

    def context(self, text: str) -> Context:
        """Tokenise `text` as the start of a context."""
        return Context(text, self.tokens.prompt(text))

    def append(self, context: Context, text: str) -> Context:
        """Append `text`, tokenised on its own, without BOS."""
        return Context(context.text + text, context.ids + self.tokens.encode(text))

    async def complete(self, request: Request) -> Sequence[Completion]:
        """Generate `request.n` completions, in order.

        Raises:
            ContextFullError: the context is as long as the model's limit, or longer.
            EngineError: the context has no ids, the engine is not open, or the model failed.
        """
        job = self.job(request)
        future: asyncio.Future[Sequence[Completion]] = asyncio.get_running_loop().create_future()
        with self._changed:
            self._check_open()
            self._waiting.append(job)
            self._futures[job] = future
            self._changed.notify()
        try:
            return await future
        except asyncio.CancelledError:
            job.cancelled = True
            with self._changed:
                self._futures.pop(job, None)
            raise

    def job(self, request: Request) -> Job:
        """Turn `request` into a job for the batch. Raises like `complete` if the request is invalid."""
        length = len(request.context.ids)
        if not length:
            raise EngineError(f"{self.name}: a context without token ids; make it with engine.context(text)")
        if length >= self.max_context:
            raise ContextFullError(f"{self.name}: {length} tokens of context fill max_context {self.max_context}")
        if request.n < 1 or request.max_tokens < 1:
            raise EngineError(f"{self.name}: n and max_tokens must be positive")
        limit = min(request.max_tokens, self.max_context - length)
        return Job(request, limit)

    async def load(self, weights: Weights, version: int) -> None:
        """See `Engine.load`."""
        decoder = await asyncio.to_thread(self.decoder, weights)
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        with self._changed:
            self._check_open()
            if self._update is not None:
                raise EngineError(f"{self.name}: another load is in progress")
            self._update = _Update(decoder, version, future)
            self._changed.notify()
        await future

    def decoder(self, weights: Weights) -> Decoder:
        """Resolve new weights to a decoder. Raises `EngineError` if their shape differs or they cannot be read."""
        try:
            decoder = load_decoder(weights) if isinstance(weights, Path) else weights
        except ConfigError as error:
            raise EngineError(f"{self.name}: {error}") from error
        if decoder.config != self._config:
            raise EngineError(f"{self.name}: new weights of another shape: {decoder.config}, not {self._config}")
        return decoder

    @property
    def version(self) -> int:
        """See `Engine.version`."""
        return self._batch.version

    def capacity(self) -> Capacity:
        """All rows of the batch, each as long as the longest context."""
        return Capacity(self._batch.size, self._batch.size * self.max_context)

    async def _open(self) -> None:
        self._running, self._failure = True, None
        self._thread = threading.Thread(target=self._run, name=f"rstar {self.name}", daemon=True)
        self._thread.start()

    async def _close(self) -> None:
        assert self._thread is not None
        with self._changed:
            self._running = False
            self._changed.notify()
        self._thread.join()  # takes at most one model step
        self._fail_all(EngineError(f"{self.name}: the engine was closed"))

    def _check_open(self) -> None:
        if self._failure is not None:
            raise EngineError(str(self._failure)) from self._failure
        if not self._running:
            raise EngineError(f"{self.name}: the engine is not open; use it in `async with engine:`")

    def _run(self) -> None:
        """Thread body: compute until the engine is closed."""
        torch.set_num_threads(self._threads)
        try:
            with torch.inference_mode():
                self._batch.clear()
                while self._wait():
                    self._batch.step()
                    self._deliver()
        except Exception as error:
            failure = EngineError(f"{self.name}: {type(error).__name__}: {error}")
            failure.__cause__ = error
            with self._changed:
                self._failure = failure
            self._fail_all(failure)

    def _wait(self) -> bool:
        """Wait for work and admit it; returns False when the engine is closed."""
        batch = self._batch
        with self._changed:
            batch.drop_cancelled()
            while self._running and not batch.busy and not self._waiting and self._update is None:
                self._changed.wait()
            if not self._running:
                return False
            if self._update is not None and not batch.busy:
                batch.load(self._update.decoder, self._update.version)
                future, self._update = self._update.future, None
                call_in_loop(future.get_loop(), set_result, future, None)
            admitted = batch.admit(self._waiting) if self._update is None else []
        batch.start(admitted)
        return True

    def _deliver(self) -> None:
        """Resolve the futures of finished jobs, with one wake-up per event loop."""
        ended, self._batch.ended = self._batch.ended, []
        settled: dict[asyncio.AbstractEventLoop, list[tuple[asyncio.Future[Sequence[Completion]], Job]]] = {}
        with self._changed:
            for job in ended:
                if future := self._futures.pop(job, None):
                    settled.setdefault(future.get_loop(), []).append((future, job))
        for loop, pairs in settled.items():
            call_in_loop(loop, _set_results, pairs)

    def _fail_all(self, error: EngineError) -> None:
        with self._changed:
            futures: list[asyncio.Future[Any]] = list(self._futures.values())
            if self._update is not None:
                futures.append(self._update.future)
            self._futures.clear()
            self._waiting.clear()
            self._update = None
        for future in futures:
            call_in_loop(future.get_loop(), set_exception, future, error)


def _set_results(pairs: list[tuple[asyncio.Future[Sequence[Completion]], Job]]) -> None:
    for future, job in pairs:
        set_result(future, job.results())
