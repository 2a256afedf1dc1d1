"""New weights in a pool: in its processes, in the engine in front of them, and in processes that start later."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from rstar.errors import EngineError
from rstar.models.decoder_files import load_decoder
from rstar.models.engine import Completion, Request
from rstar.models.local.engine import LocalEngine
from rstar.models.local.pool import Worker, pack
from tests.models.local.pools import LONG, all_of, pool, requests, texts, until, using, warm
from tests.models.tiny_models import write_model

Found = list[list[Completion]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model")
    write_model(path)
    return path


@pytest.fixture(scope="module")
def new(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("new")
    write_model(path, seed=9)
    return path


def alone(folder: Path, some: Sequence[Request] = ()) -> Found:
    """What one engine that was opened with these weights says."""
    engine = LocalEngine(folder, batch=8, threads=1)

    async def asked() -> Found:
        async with engine:
            return await all_of(engine, list(some) or requests(engine, 20))

    return asyncio.run(asked())


def unversioned(found: Found) -> Found:
    return [[replace(completion, version=0) for completion in some] for some in found]


def versions(found: Found) -> set[int]:
    return {completion.version for some in found for completion in some}


@pytest.mark.parametrize("given", ["folder", "decoder"])
def test_workers_take_new_weights(folder: Path, new: Path, monkeypatch: pytest.MonkeyPatch, given: str) -> None:
    expected, engine = alone(new), pool(folder)
    assert expected != alone(folder)

    async def use() -> None:
        assert versions(await all_of(engine, requests(engine, 20))) == {0}
        await engine.load(new if given == "folder" else load_decoder(new), 3)
        assert engine.version == 3
        assert [worker.version for worker in engine.workers] == [3, 3]
        monkeypatch.setattr(engine._front, "complete", None)
        found = await all_of(engine, requests(engine, 20))
        assert versions(found) == {3}
        assert unversioned(found) == expected

    using(engine, use)


def test_samples_under_way_end_with_the_old_weights(folder: Path, new: Path) -> None:
    engine = pool(folder)
    some = [Request(engine.context(text), seed=seed, **LONG) for seed, text in enumerate(texts(2))]  # type: ignore[arg-type]

    async def use() -> None:
        running = [asyncio.create_task(engine.complete(request)) for request in some]
        await until(lambda: all(engine.under_way(worker) == 8 for worker in engine.workers))
        await asyncio.gather(*(worker.complete(Request(engine.context("a"), 1)) for worker in engine.workers))
        await engine.load(new, 1)  # what was asked before the last texts has begun
        before = [list(await task) for task in running]
        assert versions(before) == {0}
        assert before == expected
        after = await all_of(engine, some)
        assert versions(after) == {1}
        assert unversioned(after) == alone_new

    expected, alone_new = (alone(path, some) for path in (folder, new))
    using(engine, use)


def test_workers_that_start_later_have_the_new_weights(
    folder: Path, new: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected, engine = alone(new), pool(folder)

    async def use() -> None:
        await engine.load(new, 1)
        await engine.load(folder, 2)
        await engine.load(new, 3)
        assert not engine.workers
        assert unversioned(await all_of(engine, requests(engine, 20))) == expected  # first by the engine in front
        await warm(engine)
        assert [worker.version for worker in engine.workers] == [3, 3]
        monkeypatch.setattr(engine._front, "complete", None)
        found = await all_of(engine, requests(engine, 20))
        assert versions(found) == {3}
        assert unversioned(found) == expected

    using(engine, use, warmed=False)
    monkeypatch.undo()

    async def again() -> None:
        assert versions(await all_of(engine, requests(engine, 20))) == {3}

    using(engine, again)


def test_weights_of_another_shape_change_nothing(folder: Path, tmp_path: Path) -> None:
    write_model(tmp_path, hidden_size=96)
    expected, engine = alone(folder), pool(folder, 1)

    async def use() -> None:
        for weights in (tmp_path, load_decoder(tmp_path)):
            with pytest.raises(EngineError, match="another shape"):
                await engine.load(weights, 1)
        with pytest.raises(EngineError, match=r"config\.json"):
            await engine.load(tmp_path / "none", 1)
        assert await all_of(engine, requests(engine, 20)) == expected
        assert engine.version == 0

    using(engine, use)


def test_a_pool_that_is_not_open_takes_no_weights(folder: Path, new: Path) -> None:
    expected, engine = alone(folder), pool(folder, 1)
    with pytest.raises(EngineError, match="not open"):
        asyncio.run(engine.load(new, 1))

    async def use() -> None:
        assert await all_of(engine, requests(engine, 20)) == expected

    using(engine, use)


def test_a_worker_that_dies_fails_the_load(folder: Path, new: Path) -> None:
    engine = pool(folder)

    async def use() -> None:
        dead = engine.workers[0]
        os.kill(dead.pid, signal.SIGSTOP)
        loading = asyncio.create_task(engine.load(new, 1))
        await until(lambda: bool(dead._pending))
        os.kill(dead.pid, signal.SIGKILL)
        with pytest.raises(EngineError, match=f"worker process {dead.pid}: signal 9"):
            await loading

    using(engine, use)


def test_a_worker_alone_equals_the_engine(folder: Path, new: Path) -> None:
    front = LocalEngine(folder, batch=8, threads=1)
    worker = Worker(front)

    async def scenario() -> tuple[Found, Found]:
        before = await all_of(worker, requests(front, 5))
        await worker.load(pack(load_decoder(new)), 4)
        return before, await all_of(worker, requests(front, 5))

    try:
        before, after = asyncio.run(scenario())
    finally:
        worker.kill()
        worker.join()
    assert worker.version == 4
    assert (versions(before), versions(after)) == ({0}, {4})
    assert before == alone(folder, requests(front, 5))
    assert unversioned(after) == alone(new, requests(front, 5))


def test_a_worker_whose_load_is_cancelled_takes_no_requests_until_the_next_load(
    folder: Path, new: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected, engine = alone(new), pool(folder)

    async def use() -> None:
        os.kill(engine.workers[0].pid, signal.SIGSTOP)
        loading = asyncio.create_task(engine.load(new, 1))
        await until(lambda: engine.workers[1].version == 1)
        loading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await loading
        os.kill(engine.workers[0].pid, signal.SIGCONT)
        assert unversioned(await all_of(engine, requests(engine, 20))) == expected
        assert list(engine._ready()) == engine.workers[1:]
        await engine.load(new, 2)
        assert list(engine._ready()) == engine.workers

    using(engine, use)
