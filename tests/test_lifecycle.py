"""What many callers share is opened once and closed last; jobs run together, bounded, and end together."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import aclosing
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rstar.lifecycle import SharedContext, gather_or_cancel, run_bounded


class Door(SharedContext):
    """Takes its time; notes what was done; fails to open as often as it is told to."""

    def __init__(self, failures: int = 0) -> None:
        super().__init__()
        self.log: list[str] = []
        self.failures = failures

    async def _open(self) -> None:
        await asyncio.sleep(0)
        if self.failures:
            self.failures -= 1
            self.log.append("fails")
            raise OSError("stuck")
        self.log.append("open")

    async def _close(self) -> None:
        await asyncio.sleep(0)
        self.log.append("close")


def test_nested_use_opens_once_and_closes_last() -> None:
    door = Door()

    async def run() -> None:
        async with door as first:
            async with door as second:
                assert first is second is door
            assert door.log == ["open"]
        assert door.log == ["open", "close"]
        async with door:
            assert door.log == ["open", "close", "open"]

    asyncio.run(run())
    assert door.log == ["open", "close"] * 2


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=8))
def test_concurrent_users_never_meet_a_closed_one(times: list[tuple[int, int]]) -> None:
    door = Door()

    async def use(before: int, inside: int) -> None:
        for _ in range(before):
            await asyncio.sleep(0)
        async with door:
            for _ in range(inside + 1):
                assert door.log[-1] == "open"
                await asyncio.sleep(0)

    async def run() -> None:
        await asyncio.gather(*(use(*time) for time in times))

    asyncio.run(run())
    assert door.log == ["open", "close"] * (len(door.log) // 2)
    assert door.log


def test_one_that_fails_to_open_is_not_open() -> None:
    door = Door(failures=2)

    async def run() -> None:
        with pytest.raises(OSError, match="stuck"):
            async with door:
                raise AssertionError("not open")
        assert door.log == ["fails"], "nothing to close"
        failed, opened = await asyncio.gather(door.__aenter__(), door.__aenter__(), return_exceptions=True)
        assert isinstance(failed, OSError)
        assert opened is door, "the next user tries again"
        async with door:
            pass
        assert door.log == ["fails", "fails", "open"]
        await door.__aexit__(None, None, None)

    asyncio.run(run())
    assert door.log == ["fails", "fails", "open", "close"]


def test_an_error_inside_closes_and_goes_on() -> None:
    door = Door()

    async def run() -> None:
        async with door:
            with pytest.raises(KeyError):
                async with door:
                    raise KeyError
            assert door.log == ["open"]

    asyncio.run(run())
    assert door.log == ["open", "close"]


def test_one_event_loop_after_the_other() -> None:
    door = Door()

    async def run() -> None:
        async def use() -> None:
            async with door:
                await asyncio.sleep(0)

        await asyncio.gather(*(use() for _ in range(3)))

    for times in (1, 2):
        asyncio.run(run())
        assert door.log == ["open", "close"] * times


def test_a_cancelled_user_who_waits_leaves_the_others_alone() -> None:
    door = Door()

    async def run() -> None:
        first, second = (asyncio.create_task(door.__aenter__()) for _ in range(2))
        await asyncio.sleep(0)
        second.cancel()
        await first
        await asyncio.gather(second, return_exceptions=True)
        assert second.cancelled()
        await door.__aexit__(None, None, None)

    asyncio.run(run())
    assert door.log == ["open", "close"]


class Count:
    """How many jobs run, how many ever ran at once, and which have ended, and how."""

    def __init__(self) -> None:
        self.now = self.most = 0
        self.began: list[int] = []
        self.cancelled: list[int] = []

    async def job(self, name: int, steps: int, fails: bool = False) -> int:
        self.began.append(name)
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            for _ in range(steps):
                await asyncio.sleep(0)
            if fails:
                raise ValueError(name)
            return name
        except asyncio.CancelledError:
            await asyncio.sleep(0)  # ends later than it is told to
            self.cancelled.append(name)
            raise
        finally:
            self.now -= 1


def test_together_is_in_the_order_of_its_parts() -> None:
    count = Count()

    async def run() -> None:
        assert await gather_or_cancel(count.job(name, 5 - name) for name in range(5)) == list(range(5))
        assert await gather_or_cancel([]) == []

    asyncio.run(run())
    assert count.most == 5


def test_together_ends_the_others_when_one_fails() -> None:
    count = Count()

    async def run() -> None:
        with pytest.raises(ValueError, match="1"):
            await gather_or_cancel(count.job(name, name * 3, fails=name in (1, 3)) for name in range(5))
        assert (count.now, sorted(count.cancelled)) == (0, [2, 3, 4])
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(run())


def test_together_ends_all_when_it_is_cancelled() -> None:
    count = Count()

    async def run() -> None:
        task = asyncio.create_task(gather_or_cancel(count.job(name, 10**9) for name in range(3)))
        while len(count.began) < 3:
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert sorted(count.cancelled) == [0, 1, 2]

    asyncio.run(run())


JOBS = st.lists(st.tuples(st.integers(0, 6), st.booleans()), max_size=12)


@given(JOBS, st.integers(1, 5))
def test_bounded_keeps_its_limit_and_yields_each_job_once(jobs: list[tuple[int, bool]], limit: int) -> None:
    count = Count()
    taken = 0

    def given_out() -> Any:
        nonlocal taken
        for name, (steps, fails) in enumerate(jobs):
            taken += 1
            assert taken <= len(done) + limit, "no job is taken before there is room"
            yield f"job {name}", count.job(name, steps, fails)

    done: list[str] = []

    async def run() -> None:
        async for key, task in run_bounded(given_out(), limit):
            name = int(key.removeprefix("job "))
            done.append(key)
            assert task.done()
            if jobs[name][1]:
                assert isinstance(task.exception(), ValueError)
            else:
                assert task.result() == name

    asyncio.run(run())
    assert sorted(done) == sorted(f"job {name}" for name in range(len(jobs)))
    assert count.most <= limit
    assert count.now == 0


def test_bounded_yields_in_the_order_of_completion_and_failures_last() -> None:
    async def run() -> list[str]:
        gate = asyncio.Event()

        async def job(fails: bool, waits: bool = True) -> None:
            if waits:
                await gate.wait()
            if fails:
                raise ValueError

        jobs = {"bad": job(True), "good": job(False), "quick": job(False, waits=False)}
        found = []
        async for key, task in run_bounded(jobs.items(), 3):
            found.append(key)
            task.exception()
            if key == "quick":
                gate.set()
        return found

    assert asyncio.run(run()) == ["quick", "good", "bad"]


@given(st.integers(1, 5), st.integers(0, 4))
def test_bounded_cancels_the_rest_when_it_is_closed(limit: int, taken: int) -> None:
    count = Count()

    async def run() -> None:
        found: list[int] = []
        jobs: AsyncIterator[tuple[int, Coroutine[Any, Any, int]]]
        async with aclosing(run_bounded(((name, count.job(name, 3 * name)) for name in range(20)), limit)) as jobs:
            async for name, _ in jobs:
                found.append(name)
                if len(found) > taken:
                    break
        assert count.now == 0
        assert set(found).isdisjoint(count.cancelled)
        assert len(found) == taken + 1
        assert len(count.began) < 20
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(run())


def test_bounded_ends_its_jobs_when_it_is_cancelled() -> None:
    count = Count()

    async def run() -> None:
        async def use() -> None:
            async with aclosing(run_bounded(((name, count.job(name, 10**9)) for name in range(3)), 2)) as jobs:
                async for _ in jobs:
                    raise AssertionError("none is done")

        task = asyncio.create_task(use())
        while len(count.began) < 2:
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert sorted(count.cancelled) == [0, 1]

    asyncio.run(run())
