"""Worker process of `rstar.models.local.pool`: runs a local model for its parent.

A single thread reads new orders, generates one token for each sample of the batch, and sends finished completions.
Messages are pickles over a connection that both processes trust:

* first the `ModelSettings` of the model and the parent's process id;
* then `Complete`, `Cancel` and `LoadWeights` orders;
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
from rstar.models.local.engine import ModelSettings, file_stamps
from rstar.models.local.tokens import TokenText

POLL_SECONDS = 1.0
"""Seconds between checks that the parent is alive, while idle."""


class Complete(NamedTuple):
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


Order = Complete | Cancel | LoadWeights
Results = list[tuple[int, list[Completion]]]

_BOOT = """
import sys
sys.path[:] = sys.argv[2:]
from rstar.models.local.worker import main
main(int(sys.argv[1]))
"""
"""Imports this module from the parent's path, without the parent's main program."""


def spawn(connection: Connection[Any, Any], stderr: IO[bytes]) -> subprocess.Popen[bytes]:
    """Start a worker on `connection`, which is closed in this process; its stderr goes to `stderr`.

    It runs in its own session, so Ctrl-C in a terminal reaches only the parent.
    """
    with connection:
        return subprocess.Popen(
            [sys.executable, "-c", _BOOT, str(connection.fileno()), *sys.path], start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=stderr, pass_fds=[connection.fileno()],
        )  # fmt: skip


def main(descriptor: int) -> None:
    """Serve the parent until its end of the connection closes."""
    connection: Connection[Any, Any] = Connection(descriptor)
    try:
        settings: ModelSettings
        settings, parent = connection.recv()
        torch.set_num_threads(settings.threads)
        batch = settings.batch(load_decoder(settings.folder), TokenText(settings.folder))
        if file_stamps(settings.folder) != settings.stamps:
            raise ConfigError(f"{settings.folder}: the model was replaced after it had been opened")
        connection.send([])
        with torch.inference_mode():
            serve(connection, batch, parent)
    except (EOFError, ConnectionError):
        pass  # the parent is gone
    except Exception as error:
        connection.send(f"{type(error).__name__}: {error}")


def serve(connection: Connection[Any, Any], batch: Batch, parent: int) -> None:
    """Execute orders while process `parent` lives. Raises `EOFError` or `ConnectionError` when `connection` closes."""
    waiting: deque[Job] = deque()
    jobs: dict[int, Job] = {}
    loads: deque[LoadWeights] = deque()
    while os.getppid() == parent:
        seconds = 0.0 if batch.busy or waiting or loads else POLL_SECONDS
        while connection.poll(seconds):
            _accept(connection.recv(), jobs, waiting, loads)
            seconds = 0.0
        batch.drop_cancelled()
        if loads and not batch.busy:
            new = loads.popleft()
            batch.load(build_decoder(batch.model.config, load(new.weights), "new weights"), new.version)
            connection.send([(new.key, [])])
        if not loads:
            batch.start(batch.admit(waiting))
        batch.step()
        ended, batch.ended = batch.ended, []
        if ended:
            done: Results = [(key, job.results()) for key, job in jobs.items() if job in ended]
            for key, _ in done:
                del jobs[key]
            connection.send(done)


def _accept(order: Order, jobs: dict[int, Job], waiting: deque[Job], loads: deque[LoadWeights]) -> None:
    match order:
        case Complete(key, request, limit):
            jobs[key] = Job(request, limit)
            waiting.append(jobs[key])
        case Cancel(key):
            if (job := jobs.pop(key, None)) is not None:  # None: already ended
                job.cancelled = True
        case LoadWeights():
            loads.append(order)
