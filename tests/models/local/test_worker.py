"""What a worker does with orders; with processes, in `test_pool`."""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from multiprocessing.connection import Pipe
from pathlib import Path
from typing import Any

import pytest
import torch

from rstar.models.decoder_files import load_decoder
from rstar.models.engine import Completion, Context, Request
from rstar.models.local.batch import Batch, Job
from rstar.models.local.engine import ModelSettings
from rstar.models.local.pool import pack
from rstar.models.local.tokens import TokenText
from rstar.models.local.worker import Cancel, Complete, LoadWeights, serve
from tests.models.tiny_models import BOS, write_model


@pytest.fixture
def batch(tmp_path: Path) -> Batch:
    write_model(tmp_path)
    return ModelSettings(tmp_path, (), 3, "float32", "cpu", 1).batch(load_decoder(tmp_path), TokenText(tmp_path))


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
        link.send(Complete(key, request(key, n=key % 3 + 1), 4))
    found: dict[int, list[Any]] = {}
    while len(found) < 20:
        found |= dict(link.recv())
    assert {key: len(completions) for key, completions in found.items()} == {key: key % 3 + 1 for key in range(20)}
    assert all(len(completion.ids) <= 4 for completions in found.values() for completion in completions)
    for key in (3, 11):  # the same request under another key
        link.send(Complete(key + 100, request(key, n=key % 3 + 1), 4))
        assert link.recv() == [(key + 100, found[key])]


def test_a_cancelled_request_is_computed_no_further(link: Any, batch: Batch) -> None:
    for key in range(30):
        link.send(Complete(key, request(key, n=8, temperature=2.0), 240))
    for key in range(30):
        link.send(Cancel(key))
    link.send(Cancel(1))  # one that is not there
    link.send(Complete(99, request(0), 3))
    ((key, _),) = link.recv()
    assert key == 99
    assert not batch.busy
    assert not link.poll(0)


def test_new_weights_wait_for_what_is_under_way(link: Any, batch: Batch, tmp_path: Path) -> None:
    new = write_model(tmp_path / "new", seed=9)
    link.send(Complete(1, request(1, n=4, temperature=0.0), 60))
    while not batch.busy and not link.poll(0):
        time.sleep(0.001)
    link.send(LoadWeights(2, pack(new), 5))
    link.send(Complete(3, request(1, n=4, temperature=0.0), 60))
    answers: list[tuple[int, list[Completion]]] = []
    while len(answers) < 3:
        answers += link.recv()
    assert [key for key, _ in answers] == [1, 2, 3]
    old, nothing, after = (completions for _, completions in answers)
    assert nothing == []
    assert [{one.version for one in some} for some in (old, after)] == [{0}, {5}]
    assert old[0].ids != after[0].ids
    again = ModelSettings(tmp_path, (), 3, "float32", "cpu", 1).batch(new, batch.tokens)
    job = Job(request(1, n=4, temperature=0.0), 60)
    with torch.inference_mode():
        again.start(again.admit(deque([job])))
        while not again.ended:
            again.step()
    assert [replace(one, version=0) for one in after] == job.results()


def test_nobody_serves_a_parent_that_is_gone(batch: Batch) -> None:
    _mine, theirs = Pipe()
    serve(theirs, batch, os.getppid() + 1)
