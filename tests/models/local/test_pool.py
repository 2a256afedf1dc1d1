"""The pool against one engine: the same completions, and nothing left behind however processes end."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from rstar.config import EngineConfig
from rstar.errors import ContextFullError, EngineError
from rstar.models.engine import Completion, Context, Engine, Request
from rstar.models.local.engine import LocalEngine
from rstar.models.local.pool import MAX_WORKERS, LocalPool, Worker, useful_workers
from rstar.models.local.worker import Cancel
from rstar.models.spec import open_engine
from rstar.specs import parse_model
from tests.models.local.pools import LONG, all_of, pool, requests, texts, until, using, warm
from tests.models.tiny_models import write_model


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model")
    write_model(path)
    return path


def gone(pid: int) -> bool:
    """Whether there is no such process, or only what is left of one that nobody has waited for."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def test_is_an_engine(folder: Path) -> None:
    engine = pool(folder)
    assert isinstance(engine, Engine)
    assert (engine.name, engine.max_context) == (f"hf:{folder}", 256)


def test_completions_are_those_of_one_engine(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = LocalEngine(folder, batch=8, threads=1)

    async def alone() -> list[list[Completion]]:
        async with one:
            return await all_of(one, requests(one, 40))

    expected, engine = asyncio.run(alone()), pool(folder)

    async def use() -> None:
        # First while the workers load, later by them alone.
        assert await all_of(engine, requests(engine, 40)) == expected
        await warm(engine)
        monkeypatch.setattr(engine._front, "complete", None)
        assert await all_of(engine, requests(engine, 40)) == expected
        assert await all_of(engine, requests(engine, 40)[::-1]) == expected[::-1]
        assert [engine.under_way(worker) for worker in engine.workers] == [0, 0]

    using(engine, use, warmed=False)


def test_a_text_stays_at_home(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine, asked, complete = pool(folder), list[Worker](), Worker.complete

    async def noted(self: Worker, request: Request) -> Sequence[Completion]:
        asked.append(self)
        return await complete(self, request)

    async def use() -> None:
        monkeypatch.setattr(Worker, "complete", noted)
        for text in texts(6):
            context = engine.context(text)
            for seed in range(4):
                (completion,) = await engine.complete(Request(context, max_tokens=5, seed=seed))
                context = engine.append(context.extend(completion), "12")
        homes = [set(asked[4 * text : 4 * text + 4]) for text in range(6)]
        assert all(len(home) == 1 for home in homes)
        assert set.union(*homes) == set(engine.workers)

    using(engine, use)


def test_contexts_compare_as_contexts_do(folder: Path) -> None:
    engine = pool(folder)
    one, same, other = engine.context("abc"), engine.context("abc"), engine.context("b")
    assert one == same != other
    assert hash(one) == hash(same)
    assert (one.text, one.ids) == (engine._front.context("abc").text, engine._front.context("abc").ids)


def test_workers_wait_for_work_that_lasts(folder: Path) -> None:
    patient, eager = pool(folder, start_delay=1e9), pool(folder)

    async def many() -> None:
        await all_of(patient, requests(patient, 20))
        assert not patient.workers

    async def one_by_one() -> None:
        for request in requests(eager, 4):
            await eager.complete(request)
        assert not eager.workers

    using(patient, many, warmed=False)
    using(eager, one_by_one, warmed=False)


def test_what_waits_while_workers_start_goes_to_them(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = pool(folder, start_delay=1e9)
    asked = [Request(engine.context(text), max_tokens=10, n=8, seed=i) for i, text in enumerate(texts(8))]
    complete, here, go_on = engine._front.complete, list[int](), asyncio.Event()

    async def held(request: Request) -> Sequence[Completion]:
        here.append(request.seed)
        await go_on.wait()
        return await complete(request)

    async def use() -> None:
        monkeypatch.setattr(engine._front, "complete", held)
        tasks = [asyncio.create_task(engine.complete(request)) for request in asked[:6]]
        await until(lambda: bool(here))
        monkeypatch.setattr(engine, "_start_delay", 0.0)
        tasks.append(asyncio.create_task(engine.complete(asked[6])))
        await until(lambda: bool(engine.workers) and all(worker.ready for worker in engine.workers))
        await engine.complete(asked[7])
        assert 0 < len(here) < 6
        await asyncio.gather(*(task for i, task in enumerate(tasks) if i not in here))
        assert not any(tasks[i].done() for i in here)
        go_on.set()
        found = [list(await task) for task in tasks]
        assert found == await all_of(engine._front, asked[:7])

    using(engine, use, warmed=False)


def test_requests_that_cannot_be(folder: Path) -> None:
    engine = pool(folder, 1)

    async def use() -> None:
        with pytest.raises(ContextFullError, match="256 tokens of context fill"):
            await engine.complete(Request(Context("", (1,) * 256)))
        with pytest.raises(EngineError, match=r"engine\.context"):
            await engine.complete(Request(Context("text")))
        assert engine.under_way(engine.workers[0]) == 0

    using(engine, use)
    with pytest.raises(EngineError, match="not open"):
        asyncio.run(all_of(engine, requests(engine, 1)))


def test_cancelling_is_told_to_the_worker(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = pool(folder, 1)

    async def use() -> None:
        (worker,) = engine.workers
        sent: list[Any] = []
        send = worker._connection.send
        monkeypatch.setattr(worker._connection, "send", lambda order: (sent.append(order), send(order)))
        tasks = [asyncio.create_task(engine.complete(Request(engine.context(text), **LONG))) for text in texts(4)]
        await until(lambda: len(sent) == 4)
        for task in tasks:
            task.cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(isinstance(result, asyncio.CancelledError) for result in results)
        assert engine.under_way(worker) == 0
        await all_of(engine, requests(engine, 1))
        assert sent[4:8] == [Cancel(ask.key) for ask in sent[:4]]

    using(engine, use)


def test_a_worker_that_dies_fails_its_requests_and_all_later_ones(folder: Path) -> None:
    engine = pool(folder)

    async def use() -> None:
        tasks = [asyncio.create_task(engine.complete(Request(engine.context(text), **LONG))) for text in texts(8)]
        await until(lambda: all(engine.under_way(worker) for worker in engine.workers))
        dead, other = engine.workers
        os.kill(dead.pid, signal.SIGKILL)
        named = f"worker process {dead.pid}: signal 9"
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert {type(result) for result in results} == {EngineError, list}
        assert all(named in str(result) for result in results if isinstance(result, EngineError))
        assert other.ready
        with pytest.raises(EngineError, match=named):
            await engine.complete(requests(engine, 1)[0])

    async def again() -> None:
        assert len(await all_of(engine, requests(engine, 9))) == 9

    using(engine, use)
    using(engine, again, warmed=False)


def test_a_model_that_a_worker_cannot_load(tmp_path: Path) -> None:
    write_model(tmp_path)
    engine = pool(tmp_path, 1)
    (tmp_path / "config.json").unlink()

    async def use() -> None:
        with pytest.raises(EngineError, match=r"worker process \d+: ConfigError: .*config\.json"):
            await warm(engine)

    using(engine, use, warmed=False)


def test_a_model_that_was_replaced_is_refused(tmp_path: Path) -> None:
    write_model(tmp_path)
    engine = pool(tmp_path, 1)
    write_model(tmp_path, seed=1)

    async def use() -> None:
        with pytest.raises(EngineError, match="the model was replaced after it had been opened"):
            await warm(engine)

    using(engine, use, warmed=False)


def test_a_worker_that_cannot_start_tells_its_last_words(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = pool(folder, 1)
    monkeypatch.setattr(sys, "path", [])

    async def use() -> None:
        with pytest.raises(EngineError, match=r"it ended with status 1: ModuleNotFoundError"):
            await warm(engine)

    using(engine, use, warmed=False)


def test_no_process_can_be_started(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = pool(folder, 1)
    monkeypatch.setattr(sys, "executable", "/nowhere/python")

    async def use() -> None:
        with pytest.raises(EngineError, match=r"cannot start a worker process: .*/nowhere/python"):
            await all_of(engine, requests(engine, 2))

    using(engine, use, warmed=False)


def test_closing_ends_the_workers_and_refuses_what_is_under_way(folder: Path) -> None:
    engine = pool(folder, 1)

    async def scenario() -> list[int]:
        async with engine:
            await warm(engine)
            async with engine:  # a second user
                pass
            pids = [worker.pid for worker in engine.workers]
            task = asyncio.create_task(engine.complete(Request(engine.context("a"), **LONG)))
            await until(lambda: any(engine.under_way(worker) for worker in engine.workers))
        with pytest.raises(EngineError, match="it was closed"):
            await task
        return pids

    pids = asyncio.run(scenario())
    assert len(pids) == 1
    assert all(map(gone, pids))


def test_closing_while_workers_start(folder: Path) -> None:
    engine = pool(folder)

    async def scenario() -> list[int]:
        async with engine:
            await all_of(engine, requests(engine, 2))
            return [worker.pid for worker in engine.workers]

    assert all(map(gone, asyncio.run(scenario())))


PROGRAM = """
import asyncio, os, signal, sys, time
from pathlib import Path
from rstar.models.engine import Request
from rstar.models.local.engine import LocalEngine
from rstar.models.local.pool import LocalPool

async def main():
    async with LocalPool(LocalEngine(Path(sys.argv[1]), batch=8, threads=1), 1, 0.0) as engine:
        async def forever(i):
            while True:
                await engine.complete(Request(engine.context("ab"), 200, n=2, seed=i, temperature=2.0))
        tasks = [asyncio.create_task(forever(i)) for i in range(8)]
        while not (engine.workers and all(worker.ready for worker in engine.workers)):
            await asyncio.sleep(0.01)
        kept = None
        if sys.argv[2] == "fork":
            kept = os.fork()
            if kept == 0:  # a process that holds the connections open, and nothing else
                os.closerange(0, 3)
                time.sleep(1000)
        print(*(worker.pid for worker in engine.workers), kept or 0, flush=True)
        await asyncio.gather(*tasks)

signal.signal(signal.SIGINT, signal.default_int_handler)  # who starts the tests may ignore it
asyncio.run(main())
"""


@pytest.fixture
def start(folder: Path) -> Iterator[Callable[[str], tuple[subprocess.Popen[str], list[int], int]]]:
    """Starts a program that keeps a worker busy: it, its workers, and the process that it forked or 0."""
    begun: list[int] = []

    def program(how: str) -> tuple[subprocess.Popen[str], list[int], int]:
        process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(folder), how], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True, start_new_session=True,
        )  # fmt: skip
        assert process.stdout is not None
        *workers, kept = map(int, process.stdout.readline().split())
        begun.extend(pid for pid in (process.pid, *workers, kept) if pid)
        return process, workers, kept

    yield program
    for pid in begun:
        if not gone(pid):
            os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("how", ["plain", "fork"])
def test_workers_end_when_their_parent_is_killed(start: Any, how: str) -> None:
    process, workers, kept = start(how)
    assert not any(map(gone, workers))
    process.kill()
    process.wait()
    assert not kept or not gone(kept)
    while not all(map(gone, workers)):  # the test's own time limit ends this
        time.sleep(0.05)


def test_ctrl_c_ends_everything(start: Any) -> None:
    process, workers, _ = start("plain")
    os.killpg(process.pid, signal.SIGINT)
    _, said = process.communicate()
    assert process.returncode == -signal.SIGINT
    assert said.rstrip().endswith("KeyboardInterrupt")
    assert all(map(gone, workers))


def test_what_helps(folder: Path, tmp_path: Path) -> None:
    small = LocalEngine(folder)
    assert [useful_workers(small, processors) for processors in (1, 2, 3, 4, 8, 64)] == [
        0,
        1,
        1,
        2,
        MAX_WORKERS,
        MAX_WORKERS,
    ]
    assert useful_workers(small) == useful_workers(small, len(os.sched_getaffinity(0)))
    assert useful_workers(LocalEngine(folder, threads=2), 8) == 0
    write_model(tmp_path, hidden_size=480, intermediate_size=2000)
    assert useful_workers(LocalEngine(tmp_path), 8) == 0


def test_the_setting(folder: Path) -> None:
    spec = f"hf:{folder}"
    assert isinstance(open_engine(parse_model(spec), EngineConfig(processes=0)), LocalEngine)
    for settings, count in ((EngineConfig(processes=3), 3), (EngineConfig(), useful_workers(LocalEngine(folder)))):
        engine = open_engine(parse_model(spec), settings)
        assert engine._count == count if isinstance(engine, LocalPool) else not count
