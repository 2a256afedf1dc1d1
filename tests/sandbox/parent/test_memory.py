"""All programs together stay under a watch, and none suffers for what others use."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rstar.errors import SandboxError
from rstar.sandbox import Limits, LocalSandbox
from rstar.sandbox.parent import memory
from rstar.sandbox.parent.memory import MemoryWatch, memory_for_programs


@dataclass(eq=False)
class Program:
    used: int
    background: bool = False
    memory_limit: int = 100
    scratch_limit: int = 0
    starts_processes: bool = False
    ends: list[str] = field(default_factory=list)

    async def usage(self) -> int:
        return self.used

    def evict(self) -> None:
        self.ends.append("evicted")
        self.used = 0

    def end_over_limit(self) -> None:
        self.ends.append("exceeded")


@dataclass
class Cache:
    memory: int = 0

    def shrink(self, size: int) -> None:
        self.memory = max(0, self.memory - max(size, 0))


PROGRAMS = st.lists(st.builds(Program, st.integers(0, 100), st.booleans()), max_size=12)


async def poll(watch: MemoryWatch, programs: list[Program]) -> None:
    """Let the watch check running programs once."""
    for program in programs:
        watch._programs[program] = 0
    await asyncio.gather(*map(watch._measure, programs))
    watch._free_memory()


@given(PROGRAMS, st.integers(0, 300), st.integers(0, 500))
def test_least_important_programs_are_evicted_until_the_rest_fits(
    programs: list[Program], cached: int, total: int
) -> None:
    before = {id(program): program.used for program in programs}
    cache = Cache(cached)
    asyncio.run(poll(MemoryWatch(total, cache), programs))
    ended = [program for program in programs if program.ends]
    stayed = [program for program in programs if program.used]
    assert sum(program.used for program in stayed) + cache.memory <= total
    if ended:
        assert cache.memory == 0, "caches go first"
        last = min((program.background, before[id(program)]) for program in ended)
        assert all((program.background, program.used) <= last for program in stayed)
        assert sum(program.used for program in stayed) + last[1] > total, "no more than necessary"
    elif sum(before.values()) + cached > total:
        assert cache.memory < cached


def test_a_program_with_children_has_one_limit() -> None:
    starts_processes, single = Program(150, starts_processes=True), Program(150)
    asyncio.run(poll(MemoryWatch(1_000, Cache()), [starts_processes, single]))
    assert (starts_processes.ends, single.ends) == (["exceeded"], [])


def test_watch_runs_only_while_programs_could_exceed_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_POLL_SECONDS", 0.001)

    async def work() -> list[bool]:
        watch = MemoryWatch(750, Cache())  # thrice what they may map, for page tables
        seen = []
        with watch.watch(Program(0)), watch.watch(Program(0)):
            seen.append(watch._watcher is not None)
            with watch.watch(Program(0)):
                seen.append(watch._watcher is not None)
                await asyncio.sleep(0.02)
            await asyncio.sleep(0.02)
            seen.append(watch._watcher is not None)
        return seen

    assert asyncio.run(work()) == [False, True, False]


def test_reservation_waits_for_free_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_POLL_SECONDS", 0.001)

    async def work() -> list[str]:
        watch, order = MemoryWatch(100, Cache(40)), []

        async def hold(name: str, size: int) -> None:
            async with watch.reserve(size):
                assert watch._used() <= 100
                order.append(name)
                await asyncio.sleep(0.01)

        await asyncio.gather(hold("a", 60), hold("b", 50), hold("c", 100))
        return sorted(order)

    assert asyncio.run(work()) == ["a", "b", "c"]


def test_reservations_are_served_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small ones would else pass a large one for ever."""
    monkeypatch.setattr(memory, "_POLL_SECONDS", 0.001)

    async def work() -> list[int]:
        watch, order = MemoryWatch(100, Cache()), []

        async def hold(size: int) -> None:
            async with watch.reserve(size):
                order.append(size)
                await asyncio.sleep(0.01)

        sizes = [30, 90, 10, 40, 11]
        runs = []
        for size in sizes:
            runs.append(asyncio.create_task(hold(size)))
            await asyncio.sleep(0)
        await asyncio.gather(*runs)
        assert order == sizes
        return order

    asyncio.run(work())


def test_a_reservation_does_not_wait_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_POLL_SECONDS", 0.001)
    monkeypatch.setattr(memory, "MAX_WAIT_SECONDS", 0.2)

    async def work() -> None:
        watch, holder = MemoryWatch(100, Cache()), Program(60)

        async def hold(size: int) -> None:
            async with watch.reserve(size):
                pass

        with watch.watch(holder):
            watch._programs[holder] = holder.used
            waiting = [asyncio.create_task(hold(50)) for _ in range(2)]
            await asyncio.sleep(0.1)
            last = asyncio.create_task(hold(30))
            for error in await asyncio.gather(*waiting, return_exceptions=True):
                assert isinstance(error, memory.MemoryHeldError)
                assert "did not become free within 0.2 s" in str(error)
            await last  # its turn comes when those before it give up
            assert not watch._turns
            cancelled = asyncio.create_task(hold(50))
            await asyncio.sleep(0.01)
            cancelled.cancel()
            await asyncio.gather(cancelled, return_exceptions=True)
            await hold(30)

    asyncio.run(asyncio.wait_for(work(), 100))


def test_programs_make_room_for_one_that_was_evicted_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """New programs could else hold the memory for ever. Nobody is evicted where that would not help."""
    monkeypatch.setattr(memory, "_POLL_SECONDS", 0.001)
    monkeypatch.setattr(memory, "_PATIENCE_SECONDS", 0.05)

    async def work() -> list[list[str]]:
        watch = MemoryWatch(100, Cache())
        programs = [Program(30), Program(25, background=True), Program(20)]
        watch._programs = {program: program.used for program in programs}
        ends = []
        async with asyncio.timeout(5), watch.reserve(40):
            ends += [end for program in programs for end in program.ends]
            with pytest.raises(TimeoutError):  # reservations may take half of the memory
                async with asyncio.timeout(0.2), watch.reserve(40):
                    pass
        return [ends, *(program.ends for program in programs)]

    assert asyncio.run(work()) == [["evicted"], [], ["evicted"], []]


def test_programs_that_exceed_the_bound_together_all_finish(caplog: pytest.LogCaptureFixture) -> None:
    """Each takes 120 of 300 MB, bit by bit, and waits: three at a time are too many."""
    code = (
        "import time\na = []\nfor _ in range(12):\n    a.append(bytearray(10 << 20))\n    time.sleep(0.08)\n"
        "time.sleep({})\nprint('done')"
    )

    async def work() -> list[str]:
        limits = Limits(seconds=20, memory_mb=200)
        async with LocalSandbox(workers=5, limits=limits, total_mb=300) as sandbox:
            step = asyncio.create_task(sandbox.start().run(code.format(0.4)))
            others = [asyncio.create_task(sandbox.run(code.format(0.4 + n / 10))) for n in range(4)]
            (_, first), *rest = await asyncio.gather(step, *others)
            return [result.stdout for result in (first, *rest)]

    assert asyncio.run(work()) == ["done\n"] * 5
    assert "it runs again later" in caplog.text


def test_states_are_dropped_before_programs() -> None:
    async def work() -> None:
        limits = Limits(seconds=20, memory_mb=200)
        async with LocalSandbox(limits=limits, total_mb=400) as sandbox:
            states = [(await sandbox.start().run(f"a = {n}\nb = bytearray(100 << 20)"))[0] for n in range(3)]
            assert sandbox._states.memory > 300 << 20
            result = await sandbox.run("import time\na = bytearray(150 << 20)\ntime.sleep(0.5)\nprint('done')")
            assert result.stdout == "done\n"
            assert sandbox._states.memory < 300 << 20
            for n, state in enumerate(states):
                assert state is not None
                assert (await state.run("print(a, len(b) >> 20)"))[1].stdout == f"{n} 100\n"

    asyncio.run(work())


def test_run_larger_than_the_bound_is_refused() -> None:
    async def work() -> None:
        async with LocalSandbox(total_mb=300) as sandbox:
            with pytest.raises(SandboxError, match=r"memory limit of 400 MB: all runs together may use 300 MB"):
                await sandbox.run("1", limits=Limits(memory_mb=400))

    asyncio.run(work())


def test_default_bound() -> None:
    physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert 0 < memory_for_programs() <= 0.6 * physical


@pytest.mark.parametrize(
    ("starts_processes", "used", "ends"), [(True, 101, ["exceeded"]), (True, 99, []), (False, 120, [])]
)
def test_program_with_reservation_keeps_its_own_limit(
    starts_processes: bool, used: int, ends: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "_POLL_SECONDS", 0.001)
    monkeypatch.setattr(memory, "_WARM_BYTES", 10)

    async def work() -> list[list[str]]:
        watch = MemoryWatch(10, Cache())  # all of it is used: nobody else would stay
        told = []
        for program in (
            Program(used, starts_processes=starts_processes, scratch_limit=20),
            Program(131, scratch_limit=20),
        ):
            with watch.watch(program, reserved=True):
                await asyncio.sleep(0.05)
            told.append(program.ends[:1])
        await asyncio.sleep(0.01)
        assert watch._watcher is None
        return told

    assert asyncio.run(work()) == [ends, ["exceeded"]]
