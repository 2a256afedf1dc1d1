"""A worker at a queue in memory: places that come back, and answers that cannot be sent."""

import asyncio
import gc
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rstar.judge.queue import frames
from rstar.judge.queue.broker import MemoryBroker
from rstar.judge.queue.jobs import Answer, Job
from rstar.judge.worker.worker import AHEAD, SocketSource, Worker
from rstar.sandbox.parent.scheduler import FOREGROUND_SECONDS

SLOTS = 2


class Executor:
    """Does what the code of a job says."""

    def __init__(self) -> None:
        self.running = self.most = 0

    async def execute(self, job: Job) -> Answer:
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            if job.code == "sleep":
                await asyncio.sleep(100)
            return Answer(job.id, stdout="x" * 20_000 if job.code == "large" else "done")
        finally:
            self.running -= 1

    def forget(self, states: list[str]) -> None:
        pass


def job(name: str, code: str = "") -> Job:
    return Job(name, "me", "python", code, expires=time.time() + 60)


def with_worker(test: Any, folder: Path, old: int) -> None:
    async def run() -> None:
        executor, path = Executor(), folder / "socket"
        async with MemoryBroker(path) as broker:
            worker = Worker(SocketSource(str(path), "w"), executor, SLOTS, old)  # type: ignore[arg-type]
            working = asyncio.create_task(worker.run())
            await asyncio.wait_for(test(broker, executor), 100)
            working.cancel()
            await asyncio.gather(working, return_exceptions=True)
            assert executor.running == 0

    asyncio.run(run())


def test_an_answer_that_is_too_large_to_be_sent_fails_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames, "LARGEST", 10_000)

    async def test(broker: MemoryBroker, _: Executor) -> None:
        futures = [broker.submit(job(str(number), code)) for number, code in enumerate(["", "large", ""] * 3)]
        outcomes = [(await future).outcome for future in futures]
        assert outcomes == ["done", "failed", "done"] * 3

    with_worker(test, tmp_path, 0)


def test_long_calls_hold_no_places_as_far_as_there_is_room(tmp_path: Path) -> None:
    async def test(broker: MemoryBroker, executor: Executor) -> None:
        names = [f"sleep{number}" for number in range(4 + AHEAD * SLOTS)]
        sleeping = [broker.submit(replace(job(name, "sleep"), client=name)) for name in names]
        await asyncio.sleep(10 * FOREGROUND_SECONDS)
        assert executor.running == len(sleeping)  # old ones, and all places but the last
        short = broker.submit(job("short"))
        await asyncio.sleep(4 * FOREGROUND_SECONDS)
        assert not short.done()
        sleeping[0].cancel()
        assert (await short).stdout == "done"

    with_worker(test, tmp_path, 5)


def test_calls_that_are_cancelled_give_their_places_back(tmp_path: Path) -> None:
    async def test(broker: MemoryBroker, executor: Executor) -> None:
        for pause in (0.0, 0.001, 4 * FOREGROUND_SECONDS):  # before they have begun, as they do, when they are old
            for number in range(30):
                future = broker.submit(job(f"{pause}-{number}", "sleep"))
                await asyncio.sleep(pause / 30)
                future.cancel()
            assert [(await broker.submit(job(f"{pause}-{n}"))).stdout for n in range(100, 110)] == ["done"] * 10
        while executor.running:
            await asyncio.sleep(0.01)

    with_worker(test, tmp_path, 3)


def test_nothing_is_left_of_an_answered_call(tmp_path: Path) -> None:
    """Neither here nor at the queue, and without a garbage collection, which is rare: calls may be large."""

    async def test(broker: MemoryBroker, executor: Executor) -> None:
        gc.collect()
        gc.disable()
        try:
            for number in range(5):
                await broker.submit(job(f"short{number}"))
                old = broker.submit(job(f"old{number}", "sleep"))
                await asyncio.sleep(4 * FOREGROUND_SECONDS)
                old.cancel()
            while executor.running:
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.05)
            left = [found for found in gc.get_objects() if type(found) in (Job, Answer)]
            assert not [found for found in left if found.id.startswith(("short", "old"))]
        finally:
            gc.enable()

    for old in (0, 3):
        with_worker(test, tmp_path, old)
