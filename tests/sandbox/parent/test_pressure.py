"""All programs together stay under a bound, and none suffers for what others use."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rstar.errors import SandboxError
from rstar.sandbox import Limits, LocalSandbox
from rstar.sandbox.parent import pressure
from rstar.sandbox.parent.pressure import Pressure, machine_share
from tests.sandbox.conftest import descendants


@dataclass(eq=False)
class Program:
    used: int
    old: bool = False
    most: int = 100
    beside: int = 0
    group: bool = False
    ends: list[str] = field(default_factory=list)

    async def usage(self) -> int:
        return self.used

    def give_way(self) -> None:
        self.ends.append("gave way")
        self.used = 0

    def exceed(self) -> None:
        self.ends.append("exceeded")


@dataclass
class Caches:
    memory: int = 0

    def shrink(self, size: int) -> None:
        self.memory = max(0, self.memory - max(size, 0))


PROGRAMS = st.lists(st.builds(Program, st.integers(0, 100), st.booleans()), max_size=12)


async def look(bound: Pressure, programs: list[Program]) -> None:
    """Let the pressure look once at programs that run."""
    for program in programs:
        bound._programs[program] = 0
    await asyncio.gather(*map(bound._count, programs))
    bound._relieve()


@given(PROGRAMS, st.integers(0, 300), st.integers(0, 500))
def test_what_matters_least_goes_until_the_rest_fits(programs: list[Program], cached: int, total: int) -> None:
    before = {id(program): program.used for program in programs}
    caches = Caches(cached)
    asyncio.run(look(Pressure(total, caches), programs))
    ended = [program for program in programs if program.ends]
    stayed = [program for program in programs if not program.ends]
    assert sum(program.used for program in stayed) + caches.memory <= total
    if ended:
        assert caches.memory == 0, "caches go first"
        last = min((program.old, before[id(program)]) for program in ended)
        assert all((program.old, program.used) <= last for program in stayed)
        assert sum(program.used for program in stayed) + last[1] > total, "no more than had to"
    elif sum(before.values()) + cached > total:
        assert caches.memory < cached


def test_a_group_may_not_use_more_than_one_program() -> None:
    group, single = Program(150, group=True), Program(150)
    asyncio.run(look(Pressure(1_000, Caches()), [group, single]))
    assert (group.ends, single.ends) == (["exceeded"], [])


def test_nothing_is_watched_that_cannot_exceed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pressure, "_LOOK_SECONDS", 0.001)

    async def work() -> list[bool]:
        bound = Pressure(750, Caches())  # thrice what they may map, for page tables
        seen = []
        with bound.watching(Program(0)), bound.watching(Program(0)):
            seen.append(bound._looking is not None)
            with bound.watching(Program(0)):
                seen.append(bound._looking is not None)
                await asyncio.sleep(0.02)
            await asyncio.sleep(0.02)
            seen.append(bound._looking is not None)
        return seen

    assert asyncio.run(work()) == [False, True, False]


def test_a_reservation_waits_for_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pressure, "_LOOK_SECONDS", 0.001)

    async def work() -> list[str]:
        bound, order = Pressure(100, Caches(40)), []

        async def hold(name: str, size: int) -> None:
            async with bound.reserve(size):
                assert bound._used() <= 100
                order.append(name)
                await asyncio.sleep(0.01)

        await asyncio.gather(hold("a", 60), hold("b", 50), hold("c", 100))
        return sorted(order)

    assert asyncio.run(work()) == ["a", "b", "c"]


def test_programs_that_need_too_much_together_all_end_well() -> None:
    """Each takes 120 of 300 MB, and waits: three at a time are too many."""
    code = "import time\na = bytearray(120 << 20)\ntime.sleep({})\nprint('done')"

    async def work() -> tuple[list[str], int]:
        limits = Limits(seconds=20, memory_mb=200)
        async with LocalSandbox(workers=5, limits=limits, total_mb=300) as sandbox:
            start = sandbox.start()
            step = asyncio.create_task(start.run(code.format(0.4)))
            runs = asyncio.gather(step, *(sandbox.run(code.format(0.4 + n / 10)) for n in range(4)))
            most = 0
            while not runs.done():
                await asyncio.sleep(0.02)
                most = max(most, sum(map(_own, descendants(os.getpid()))))
            (_, first), *others = await runs
            return [result.stdout for result in (first, *others)], most

    shown, most = asyncio.run(work())
    assert shown == ["done\n"] * 5
    assert most < 600 << 20


def _own(process: int) -> int:
    try:
        lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) for line in lines if line.startswith("Private_Dirty")) << 10


def test_states_go_before_programs() -> None:
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


def test_more_than_all_may_have_is_refused() -> None:
    async def work() -> None:
        async with LocalSandbox(total_mb=300) as sandbox:
            with pytest.raises(SandboxError, match=r"asks for 400 MB of memory; all together may use 300"):
                await sandbox.run("1", limits=Limits(memory_mb=400))

    asyncio.run(work())


def test_share_of_this_machine() -> None:
    physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert 0 < machine_share() <= 0.6 * physical


@pytest.mark.parametrize(("group", "used", "ends"), [(True, 101, ["exceeded"]), (True, 99, []), (False, 120, [])])
def test_what_has_its_memory_reserved_keeps_its_own_limits(
    group: bool, used: int, ends: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pressure, "_LOOK_SECONDS", 0.001)
    monkeypatch.setattr(pressure, "_WARM", 10)

    async def work() -> list[list[str]]:
        bound = Pressure(10, Caches())  # all of it is used: nobody else would stay
        told = []
        for program in (Program(used, group=group, beside=20), Program(131, beside=20)):
            with bound.watching(program, kept=True):
                await asyncio.sleep(0.05)
            told.append(program.ends[:1])
        await asyncio.sleep(0.01)
        assert bound._looking is None
        return told

    assert asyncio.run(work()) == [ends, ["exceeded"]]
