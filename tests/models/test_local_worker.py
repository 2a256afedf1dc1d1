"""What a worker does with orders; with processes, in `test_local_pool`."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from multiprocessing.connection import Pipe
from pathlib import Path
from typing import Any

import pytest
import torch

from rstar.models.decoder_files import load_decoder
from rstar.models.engine import Context, Request
from rstar.models.local import Loading
from rstar.models.local_batch import Batch
from rstar.models.local_tokens import TokenText
from rstar.models.local_worker import serve
from tests.models.tiny_models import BOS, write_model


@pytest.fixture
def batch(tmp_path: Path) -> Batch:
    write_model(tmp_path)
    return Loading(tmp_path, (), 3, "float32", "cpu", 1).batch(load_decoder(tmp_path), TokenText(tmp_path))


@pytest.fixture
def link(batch: Batch) -> Iterator[Any]:
    """To a thread that serves with `batch`, and has ended afterwards."""
    mine, theirs = Pipe()

    def run() -> None:
        with torch.inference_mode(), pytest.raises(EOFError):
            serve(theirs, batch, os.getppid())

    thread = threading.Thread(target=run)
    thread.start()
    yield mine
    mine.close()
    thread.join()


def request(seed: int, **settings: Any) -> Request:
    return Request(Context("", (BOS, 97, seed)), seed=seed, **settings)


def test_replies_carry_the_keys_of_their_orders(link: Any) -> None:
    for key in range(20):
        link.send((key, request(key, n=key % 3 + 1), 4))
    found: dict[int, list[Any]] = {}
    while len(found) < 20:
        found |= dict(link.recv())
    assert {key: len(completions) for key, completions in found.items()} == {key: key % 3 + 1 for key in range(20)}
    assert all(len(completion.ids) <= 4 for completions in found.values() for completion in completions)
    for key in (3, 11):  # the same request under another key
        link.send((key + 100, request(key, n=key % 3 + 1), 4))
        assert link.recv() == [(key + 100, found[key])]


def test_a_cancelled_request_is_computed_no_further(link: Any, batch: Batch) -> None:
    for key in range(30):
        link.send((key, request(key, n=8, temperature=2.0), 240))
    for key in range(30):
        link.send((key, None, 0))
    link.send((1, None, 0))  # one that is not there
    link.send((99, request(0), 3))
    ((key, _),) = link.recv()
    assert key == 99
    assert not batch.busy
    assert not link.poll(0)


def test_nobody_serves_a_parent_that_is_gone(batch: Batch) -> None:
    _mine, theirs = Pipe()
    serve(theirs, batch, os.getppid() + 1)
