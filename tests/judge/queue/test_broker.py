"""The queue in memory, with workers that are only sockets."""

import asyncio
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rstar.judge.queue import frames, jobs
from rstar.judge.queue.broker import MAX_DEATHS, BusyError, MemoryBroker
from rstar.judge.queue.frames import Frames
from rstar.judge.queue.jobs import Answer, Cell, Job, pack_answer, pack_job, read_answer, read_job
from rstar.sandbox.api import Limits


def job(name: str, life: float = 60.0) -> Job:
    return Job(name, "me", "python", "1", expires=time.time() + life)


class Worker:
    """One end of the socket, and what has come through it."""

    def __init__(self, name: str = "w", capacity: int = 1_000) -> None:
        self.name, self.capacity = name, capacity
        self.jobs: list[Job] = []
        self.said: list[tuple[bytes, bytes]] = []

    async def call(self, path: Path, credit: int) -> None:
        loop = asyncio.get_running_loop()
        _, self.link = await loop.create_unix_connection(lambda: Frames(self._hear, lambda _: None), str(path))
        self.link.send(frames.HELLO, f"{self.name}\n4\n{self.capacity}".encode())
        self.link.send(frames.READY, str(credit).encode())

    def _hear(self, _: Frames, tag: bytes, body: bytes) -> None:
        self.said.append((tag, body))
        if tag == frames.JOB:
            self.jobs.append(read_job(body))

    def answer(self, name: str) -> None:
        self.link.send(frames.ANSWER, pack_answer(Answer(name, worker=self.name, stdout="done")))
        self.link.send(frames.READY, b"1")

    @property
    def names(self) -> list[str]:
        return [job.id for job in self.jobs]


def with_broker(
    test: Callable[[MemoryBroker, Path], Coroutine[Any, Any, None]], tmp_path: Path, most: int = 100
) -> None:
    async def run() -> None:
        async with MemoryBroker(tmp_path / "socket", most) as broker:
            await asyncio.wait_for(test(broker, tmp_path / "socket"), 100)

    asyncio.run(run())


async def until(what: Callable[[], bool]) -> None:
    while not what():
        await asyncio.sleep(0.005)


def test_jobs_wait_for_workers_and_the_most_urgent_goes_first(tmp_path: Path) -> None:
    async def test(broker: MemoryBroker, path: Path) -> None:
        futures = {name: broker.submit(job(name, life)) for name, life in (("late", 90), ("soon", 5), ("mid", 40))}
        assert (await broker.load()).waiting == 3
        worker = Worker()
        await worker.call(path, 2)
        await until(lambda: len(worker.jobs) == 2)
        assert worker.names == ["soon", "mid"]
        worker.answer("soon")
        assert (await futures["soon"]).stdout == "done"
        await until(lambda: len(worker.jobs) == 3)
        load = await broker.load()
        assert (load.waiting, load.running, load.slots) == (0, 2, 4)

    with_broker(test, tmp_path)


def test_what_a_dead_worker_had_is_done_by_another_but_not_for_ever(tmp_path: Path) -> None:
    async def test(broker: MemoryBroker, path: Path) -> None:
        futures = [broker.submit(job("a", 0.3)), broker.submit(job("b"))]
        for number in range(MAX_DEATHS - 1):
            worker = Worker(str(number))
            await worker.call(path, 1)
            await until(lambda worker=worker: worker.names == ["a"])  # type: ignore[misc]
            await asyncio.sleep(0.4)  # it has begun, so its time to begin does not matter any more
            worker.link.close()
            await until(lambda: not broker._workers)
        last = Worker("last")
        await last.call(path, 1)
        await until(lambda: last.names == ["a"])
        last.link.close()
        answer = await futures[0]
        assert (answer.outcome, "died while running this call" in answer.message) == ("failed", True)
        good = Worker("good")
        await good.call(path, 5)
        await until(lambda: good.names == ["b"])
        good.answer("b")
        assert (await futures[1]).worker == "good"

    with_broker(test, tmp_path)


def test_time_runs_out_while_nobody_is_there(tmp_path: Path) -> None:
    async def test(broker: MemoryBroker, path: Path) -> None:
        answer = await broker.submit(job("a", 0.05))
        assert answer.outcome == "expired"

    with_broker(test, tmp_path)


def test_who_does_not_wait_any_more_costs_nothing(tmp_path: Path) -> None:
    async def test(broker: MemoryBroker, path: Path) -> None:
        first, second = broker.submit(job("a")), broker.submit(job("b"))
        worker = Worker()
        await worker.call(path, 1)
        await until(lambda: worker.names == ["a"])
        first.cancel(), second.cancel()
        await until(lambda: (frames.CANCEL, b"a") in worker.said)
        assert (await broker.load()).running == 0
        worker.link.send(frames.READY, b"1")
        third = broker.submit(job("c"))
        await until(lambda: worker.names == ["a", "c"])
        worker.answer("c")
        assert (await third).id == "c"

    with_broker(test, tmp_path)


def test_a_full_queue_refuses_and_no_client_fills_it(tmp_path: Path) -> None:
    async def test(broker: MemoryBroker, path: Path) -> None:
        def accepted(client: str) -> list[asyncio.Future[Answer]]:
            found: list[asyncio.Future[Answer]] = []
            with suppress(BusyError):
                while True:
                    found.append(broker.submit(replace(job(f"{client}{len(found)}"), client=client)))
            return found

        greedy = accepted("greedy")
        assert [len(greedy), len(accepted("modest")), len(accepted("third"))] == [10, 5, 2]
        for future in greedy:
            future.cancel()
        await asyncio.sleep(0)
        assert len(accepted("late")) == 6

    with_broker(test, tmp_path, most=20)


def test_cells_go_to_the_worker_that_has_their_state(tmp_path: Path) -> None:
    async def test(broker: MemoryBroker, path: Path) -> None:
        one, two = Worker("one"), Worker("two")
        await one.call(path, 9)
        await two.call(path, 2)
        await until(lambda: len(broker._workers) == 2)
        cells = [broker.submit(job(f"cell{number}"), prefer="two") for number in range(3)]
        await until(lambda: len(two.jobs) == 2)
        assert not one.jobs
        two.link.close()  # the third one waited for it alone
        await until(lambda: len(one.jobs) == 3)
        for name in one.names:
            one.answer(name)
        assert {(await cell).worker for cell in cells} == {"one"}
        broker.forget(["s", "t"], "one")
        await until(lambda: (frames.FORGET, b"s\nt") in one.said)

    with_broker(test, tmp_path)


def test_cells_take_turns_with_calls(tmp_path: Path) -> None:
    """Busy sessions, whose cells never end, leave others their turns."""

    async def test(broker: MemoryBroker, path: Path) -> None:
        worker = Worker("w")
        await worker.call(path, 1)
        await until(lambda: bool(broker._workers))
        broker.submit(job("first"))
        for client in range(6):
            for number in range(3):
                broker.submit(replace(job(f"{client}-{number}"), kind="cell", client=str(client)), prefer="w")
        for number in range(2):
            broker.submit(replace(job(f"call{number}"), client="modest"))
        await until(lambda: bool(worker.names))
        while len(worker.names) < 21:
            worker.answer(worker.names[-1])
            count = len(worker.names)
            await until(lambda count=count: len(worker.names) > count)  # type: ignore[misc]
        assert worker.names.index("call0") <= 7
        assert worker.names.index("call1") <= 14

    with_broker(test, tmp_path)


@given(st.integers(2, 30), st.data())
@settings(max_examples=25)
def test_only_the_calls_that_kill_workers_are_blamed(tmp_path_factory: Any, count: int, data: st.DataObject) -> None:
    """Workers die at once when they get a bad call, with all that they have; the next one comes."""
    names = [str(number) for number in range(count)]
    bad = data.draw(st.sets(st.sampled_from(names), min_size=1, max_size=3))
    credits = data.draw(st.lists(st.integers(1, 20), min_size=1, max_size=2))

    async def test(broker: MemoryBroker, path: Path) -> None:
        futures = {name: broker.submit(job(name)) for name in names}

        async def work(credit: int) -> None:
            deaths = 0
            while not all(future.done() for future in futures.values()):
                worker = Worker(str(deaths))
                await worker.call(path, credit)
                while not all(future.done() for future in futures.values()):
                    await asyncio.sleep(0.002)  # all that it can have is there
                    if bad & set(worker.names):
                        worker.link.close()
                        deaths += 1
                        break
                    if worker.jobs:
                        worker.answer(worker.jobs.pop(0).id)
                else:
                    worker.link.close()

        await asyncio.gather(*map(work, credits))
        for name, future in futures.items():
            assert (await future).outcome == ("failed" if name in bad else "done"), name

    with_broker(test, tmp_path_factory.mktemp("b"))


def test_a_call_that_is_too_large_to_be_sent_fails_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames, "LARGEST", 10_000)
    cells = tuple(Cell("x" * 3_000) for _ in range(4))

    async def test(broker: MemoryBroker, path: Path) -> None:
        worker = Worker()
        await worker.call(path, 9)
        large = [job("code"), job("history"), job("escapes")]  # as it is sent, a control character has six bytes
        large[0].code, large[1].history, large[2].code = "x" * 10_000, cells, "\x01" * 2_000
        futures = [broker.submit(one) for one in (job("before"), *large, job("after"))]
        await until(lambda: worker.names == ["before", "after"])
        worker.answer("before"), worker.answer("after")
        answers = [await future for future in futures]
        assert [answer.outcome for answer in answers] == ["done", "invalid", "invalid", "invalid", "done"]
        assert "cannot send the call" in answers[1].message

    with_broker(test, tmp_path)


def test_clients_take_turns(tmp_path: Path) -> None:
    async def test(broker: MemoryBroker, path: Path) -> None:
        for number in range(6):
            broker.submit(replace(job(f"greedy{number}"), client="greedy"))
        broker.submit(replace(job("modest"), client="modest"))
        worker = Worker()
        await worker.call(path, 3)
        await until(lambda: worker.names == ["greedy0", "modest", "greedy1"])

    with_broker(test, tmp_path)


@given(st.lists(st.tuples(st.sampled_from([b"H", b"J"]), st.binary(max_size=300)), max_size=12), st.integers(1, 40))
def test_frames_arrive_whole_however_they_are_cut(messages: list[tuple[bytes, bytes]], size: int) -> None:
    sent = bytearray()

    class Transport:
        def write(self, data: bytes) -> None:
            sent.extend(data)

    came: list[tuple[bytes, bytes]] = []
    sender = Frames(lambda *_: None, lambda _: None)
    sender.connection_made(Transport())  # type: ignore[arg-type]
    for tag, body in messages:
        sender.send(tag, body)
    receiver = Frames(lambda _, tag, body: came.append((tag, body)), lambda _: None)
    for start in range(0, len(sent), size):
        receiver.data_received(bytes(sent[start : start + size]))
    assert came == messages


TEXT = st.text(st.characters(exclude_categories=["Cs"]))
LIMITS = st.builds(Limits, st.floats(0.1, 9), memory_mb=st.integers(16, 99))


@given(TEXT, st.none() | TEXT, st.none() | TEXT, st.lists(st.builds(Cell, TEXT, LIMITS)))
def test_records_survive_the_wire(code: str, stdin: str | None, expected: str | None, history: list[Cell]) -> None:
    sent = replace(job("a"), code=code, stdin=stdin, expected=expected, history=tuple(history), state="s")
    for large in (1 << 16, 0):  # as JSON, with texts behind it
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(jobs, "_LARGE", large)
            packed = pack_job(sent)
        assert read_job(packed) == sent
    bare = replace(sent, code="", stdin=None, expected=None, history=())
    texts = [Cell(code), Cell(stdin or ""), Cell(expected or ""), *history]
    assert len(packed) <= len(pack_job(bare)) + sum(text.size for text in texts)
    answer = Answer("a", stdout=code, error=("E", code, 3), exit_code=1, lives=True)
    assert read_answer(pack_answer(answer)) == answer


@given(st.integers(0, 300), st.integers(-2, 2), st.binary(max_size=4))
def test_a_damaged_job_is_refused(place: int, longer: int, other: bytes) -> None:
    """Cut, or with other bytes in between: it is an error of one kind, whatever is wrong."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jobs, "_LARGE", 0)
        packed = pack_job(replace(job("a"), code="print(1)", stdin="é"))
    end = len(packed) + longer if longer < 0 else len(packed)
    with suppress(ValueError):
        read_job(packed[:place] + other + packed[place + len(other) : end] + b"x" * max(longer, 0))
    for cut in (packed[:place][: len(packed) - 1], packed + b"x"):
        with pytest.raises(ValueError, match=r"."):
            read_job(cut)


def test_no_client_has_all_places(tmp_path: Path) -> None:
    """Long jobs leave places to those who come later; what one client has too much waits."""

    async def test(broker: MemoryBroker, path: Path) -> None:
        worker = Worker(capacity=20)
        await worker.call(path, 20)
        greedy = [broker.submit(replace(job(f"g{n}"), client="greedy")) for n in range(30)]
        await until(lambda: len(worker.jobs) == 10)
        modest = broker.submit(replace(job("m"), client="modest"))
        await until(lambda: "m" in worker.names)
        assert len(worker.jobs) == 11
        worker.answer("m")
        await modest
        worker.answer("g0")
        await greedy[0]
        await until(lambda: "g10" in worker.names)
        assert len(worker.jobs) == 12
        for future in greedy:
            future.cancel()
        await asyncio.sleep(0.05)
        again = [broker.submit(replace(job(f"a{n}"), client="greedy")) for n in range(10)]
        await until(lambda: len([name for name in worker.names if name[0] == "a"]) >= 8)
        worker.link.close()
        await asyncio.sleep(0.05)
        assert not any(future.done() for future in again)

    with_broker(test, tmp_path)


def test_what_waits_for_a_place_begins_when_there_is_one(tmp_path: Path) -> None:
    """Long jobs have given their credit back already: their end says nothing but that they have ended."""

    async def test(broker: MemoryBroker, path: Path) -> None:
        worker = Worker(capacity=8)
        await worker.call(path, 100)
        calls = [broker.submit(replace(job(f"c{n}"), client="one")) for n in range(9)]
        await until(lambda: len(worker.jobs) == 4)
        for done in range(4):
            worker.link.send(frames.ANSWER, pack_answer(Answer(f"c{done}", worker="w")))
            await until(lambda so_far=done: len(worker.jobs) == 5 + so_far)  # type: ignore[misc]
        calls[4].cancel()
        await until(lambda: len(worker.jobs) == 9)

    with_broker(test, tmp_path)
