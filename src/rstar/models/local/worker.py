"""Worker process of `rstar.models.local.pool`: runs a local model for its parent.

A single thread reads new orders, generates one token for each sample of the batch, and sends finished completions.
Messages are pickles over a connection that both processes trust:

* first the `Loading` of the model and the parent's process id;
* then `Ask`, `Cancel` and `LoadWeights` orders;
* replies are lists of (key, completions), the first one empty and sent once the model is loaded; new weights are
  acknowledged by their key without completions. A failure is sent as its text, the last message.

The process ends when its parent does, however that happens: the connection closes or, if a fork of the parent still
holds it open, the parent process id changes.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import deque
from multiprocessing.connection import Connection
from typing import IO, Any, NamedTuple

import torch
from safetensors.torch import load

from rstar.errors import ConfigError
from rstar.models.decoder_files import build_decoder, load_decoder
from rstar.models.engine import Completion, Request
from rstar.models.local.batch import Batch, Job
from rstar.models.local.engine import Loading, file_stamps
from rstar.models.local.tokens import TokenText

LOOK = 1.0
"""Seconds between checks that the parent is alive, while idle."""


class Ask(NamedTuple):
    """A request; `limit` is its max_tokens, capped by the room left in the context."""

    key: int
    request: Request
    limit: int


class Cancel(NamedTuple):
    """Cancels the request with this key."""

    key: int


class LoadWeights(NamedTuple):
    """New weights: a state dictionary in safetensors format. Samples in flight finish with the old weights first."""

    key: int
    weights: bytes
    version: int


Order = Ask | Cancel | LoadWeights
Ended = list[tuple[int, list[Completion]]]

_BOOT = """
import sys
sys.path[:] = sys.argv[2:]
from rstar.models.local.worker import main
main(int(sys.argv[1]))
"""
"""Imports this module from the parent's path, without the parent's main program."""


def spawn(link: Connection[Any, Any], said: IO[bytes]) -> subprocess.Popen[bytes]:
    """Start a worker on `link`, which is closed in this process; its stderr goes to `said`.

    It runs in its own session, so Ctrl-C in a terminal reaches only the parent.
    """
    with link:
        return subprocess.Popen(
            [sys.executable, "-c", _BOOT, str(link.fileno()), *sys.path], start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=said, pass_fds=[link.fileno()],
        )  # fmt: skip


def main(descriptor: int) -> None:
    """Serve the parent until its end of the connection closes."""
    link: Connection[Any, Any] = Connection(descriptor)
    try:
        loading: Loading
        loading, parent = link.recv()
        if loading.threads is not None:
            torch.set_num_threads(loading.threads)
        batch = loading.batch(load_decoder(loading.folder), TokenText(loading.folder))
        if file_stamps(loading.folder) != loading.stamps:
            raise ConfigError(f"{loading.folder}: the model was replaced after it had been opened")
        link.send([])
        with torch.inference_mode():
            serve(link, batch, parent)
    except (EOFError, ConnectionError):
        pass  # the parent is gone
    except Exception as error:
        link.send(f"{type(error).__name__}: {error}")


def serve(link: Connection[Any, Any], batch: Batch, parent: int) -> None:
    """Execute orders while process `parent` lives. Raises `EOFError` or `ConnectionError` when `link` closes."""
    waiting: deque[Job] = deque()
    jobs: dict[int, Job] = {}
    loads: deque[LoadWeights] = deque()
    while os.getppid() == parent:
        seconds = 0.0 if batch.busy or waiting or loads else LOOK
        while link.poll(seconds):
            _take(link.recv(), jobs, waiting, loads)
            seconds = 0.0
        batch.drop_cancelled()
        if loads and not batch.busy:
            new = loads.popleft()
            batch.load(build_decoder(batch.model.config, load(new.weights), "new weights"), new.version)
            link.send([(new.key, [])])
        if not loads:
            batch.start(batch.admit(waiting))
        batch.step()
        ended, batch.ended = batch.ended, []
        if ended:
            done: Ended = [(key, job.results()) for key, job in jobs.items() if job in ended]
            for key, _ in done:
                del jobs[key]
            link.send(done)


def _take(order: Order, jobs: dict[int, Job], waiting: deque[Job], loads: deque[LoadWeights]) -> None:
    match order:
        case Ask(key, request, limit):
            jobs[key] = Job(request, limit)
            waiting.append(jobs[key])
        case Cancel(key):
            if (job := jobs.pop(key, None)) is not None:  # None: already ended
                job.cancelled = True
        case LoadWeights():
            loads.append(order)
