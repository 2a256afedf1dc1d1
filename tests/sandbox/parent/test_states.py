"""States: immutable, forked rather than replayed, dropped under a budget and rebuilt by replaying."""

from __future__ import annotations

import asyncio
import itertools
import os
import sys
import time
from dataclasses import replace
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rstar.errors import SandboxError
from rstar.sandbox import LEVELS, Level, Limits, LocalSandbox, Result, probe
from rstar.sandbox.parent import execution
from rstar.sandbox.parent.local import LocalState
from rstar.sandbox.parent.memory import MemoryWatch
from rstar.sandbox.parent.nodes import Node, Root
from rstar.sandbox.parent.scheduler import Scheduler
from rstar.sandbox.parent.states import _locked
from rstar.sandbox.parent.threads import ThreadBudget
from tests.sandbox.conftest import QUICK, Box, descendants, settles

NAMES = ("a", "b", "c")
EXPRESSIONS = (
    "{0} + 1", "{0} * 2 + {1}", "[{0}, {1}]", "str({0})", "({0}, {0})", "random.random()", "{{{0!r}: 1}}", "1 / {2}",
    "len(open('f').read())", "open('f', 'a').write(str({0}))", "next(counter)",
)  # fmt: skip


@st.composite
def programs(draw: st.DrawFn) -> list[str]:
    """Steps of assignments, some of which fail."""
    lines = st.builds(
        lambda name, expression, x, y, n: f"{name} = {expression.format(x, y, n)}",
        st.sampled_from(NAMES), st.sampled_from(EXPRESSIONS), st.sampled_from(NAMES), st.sampled_from(NAMES),
        st.integers(0, 2),
    )  # fmt: skip
    return draw(st.lists(st.lists(lines, min_size=1, max_size=3).map("\n".join), min_size=1, max_size=5))


FIRST = "import random, itertools\ncounter = itertools.count()\na = b = c = 1\nopen('f', 'w').close()"
SHOW = "print(a, b, c, next(counter), open('f').read(), random.random())"


def straight(steps: list[str]) -> str:
    """One program that does what the steps do: a step that fails ends there, and the next one goes on."""
    blocks = [f"try:\n{_indented(step)}\nexcept Exception: pass" for step in steps]
    return "\n".join([FIRST, *blocks, SHOW])


def _indented(code: str) -> str:
    return "\n".join(f"    {line}" for line in code.splitlines())


async def forked(sandbox: LocalSandbox, steps: list[str]) -> list[str]:
    """What `SHOW` says after each step, asked of a side branch; every step is also run twice."""
    state: LocalState | None = sandbox.start()
    shown = []
    for code in [FIRST, *steps]:
        assert state is not None
        (after, _), (twin, _) = await asyncio.gather(state.run(code), state.run(code))
        assert after is not None
        assert twin is not None
        views = [(await one.run(SHOW))[1].stdout for one in (after, twin)]
        assert views[0] == views[1]
        shown.append(views[0])
        twin.release()
        state.release()
        state = after
    assert state is not None
    state.release()
    return shown


@settings(max_examples=15)
@given(steps=programs())
def test_steps_equal_the_straight_run(steps: list[str], box: Box) -> None:
    shown = box.do(forked(box.sandbox, steps))
    for count in (0, len(steps)):
        assert shown[count] == box.run(straight(steps[:count])).stdout


def test_branches_do_not_see_each_other(box: Box) -> None:
    async def branches() -> list[str]:
        start = box.sandbox.start()
        root, _ = await start.run("x = [0]\nopen('f', 'w').write('0')")
        assert root is not None
        children = await asyncio.gather(
            *(root.run(f"x.append({n})\nopen('f', 'a').write('{n}')\nopen('g', 'w').write('{n}')") for n in range(6))
        )
        views = []
        for child, _ in children:
            assert child is not None
            _, result = await child.run("import os\nx, open('f').read(), open('g').read(), sorted(os.listdir())")
            views.append(result.stdout)
        _, result = await root.run("import os\nx, open('f').read(), os.listdir()")
        return [result.stdout, *views]

    seen = box.do(branches())
    assert seen[0] == "([0], '0', ['f'])\n"
    assert seen[1:] == [f"([0, {n}], '0{n}', '{n}', ['f', 'g'])\n" for n in range(6)]


def test_parents_may_be_released_first(box: Box) -> None:
    async def chain() -> str:
        state: LocalState | None = box.sandbox.start()
        for number in range(6):
            assert state is not None
            after, _ = await state.run(f"x{number} = {number}")
            state.release()
            state.release()
            state = after
        assert state is not None
        _, result = await state.run("x0 + x1 + x2 + x3 + x4 + x5")
        state.release()
        return result.stdout

    assert box.do(chain()) == "15\n"


def test_a_released_state_cannot_be_run(box: Box) -> None:
    state = box.sandbox.start()
    state.release()
    with pytest.raises(SandboxError, match="released"):
        box.do(state.run("1"))


def test_release_ends_the_processes(box: Box) -> None:
    box.run("1")
    assert settles(lambda: box.run("1").ok and len(box.sandbox._states._frozen) == 0)
    before = descendants(os.getpid())

    async def chain() -> list[LocalState]:
        states = [box.sandbox.start()]
        for number in range(4):
            after, _ = await states[-1].run(f"x = {number}")
            assert after is not None
            states.append(after)
        return states

    states = box.do(chain())
    assert len(descendants(os.getpid()) - before) == 6  # a keeper, its template and four states
    for state in states:
        state.release()
    assert settles(lambda: descendants(os.getpid()) <= before)


def test_frozen_states_use_no_processor(box: Box) -> None:
    busy = "import threading\ndef spin():\n    while True: pass\nthreading.Thread(target=spin, daemon=True).start()"

    async def frozen() -> float:
        start = box.sandbox.start()
        state, result = await start.run(busy)
        assert result.ok
        before = await box.sandbox.cpu_seconds()
        await asyncio.sleep(0.5)
        used = await box.sandbox.cpu_seconds() - before
        start.release()
        assert state is not None
        state.release()
        return used

    assert box.do(frozen()) < 0.25


def with_sandbox(work: Any, limits: Limits = QUICK, **options: Any) -> Any:
    async def session() -> Any:
        async with LocalSandbox(limits=limits, **options) as sandbox:
            return await work(sandbox)

    return asyncio.run(session())


async def three_chains(sandbox: LocalSandbox) -> tuple[list[str], int]:
    """What states of three interleaved chains hold, asked again and again, and the most processes there were."""
    start = sandbox.start()
    chains: list[list[LocalState]] = [[start], [start], [start]]
    most = 0
    for step in range(4):
        for number, states in enumerate(chains):
            after, _ = await states[-1].run(f"import random\nx{step} = ({number}, random.random())\nprint('noise')")
            assert after is not None
            states.append(after)
            most = max(most, len(sandbox._states._frozen))
    views = []
    for _ in range(2):
        for states in chains:
            for state in (states[4], states[2]):
                _, result = await state.run("[v for k, v in sorted(globals().items()) if k[0] == 'x']")
                views.append(result.stdout)
                most = max(most, len(sandbox._states._frozen))
    return views, most


def test_cold_states_are_rebuilt() -> None:
    cold, few = with_sandbox(three_chains, max_states=5)
    warm, many = with_sandbox(three_chains, max_states=500)
    assert cold == warm
    assert few <= 4
    assert many > 8


def test_memory_budget() -> None:
    async def work(sandbox: LocalSandbox) -> tuple[int, list[str]]:
        start = sandbox.start()
        states = []
        for number in range(6):
            state, result = await start.run(f"x = bytearray([{number}]) * (20 << 20)")
            assert result.ok
            states.append(state)
        assert sandbox._states.memory <= 64 << 20
        values = [(await state.run("x[0], len(x)"))[1].stdout for state in states if state is not None]
        return len(sandbox._states._frozen), values

    processes, values = with_sandbox(work, memory_budget_mb=64)
    assert 1 <= processes <= 3
    assert values == [f"({number}, {20 << 20})\n" for number in range(6)]


@pytest.mark.parametrize(
    "code",
    [
        "import numpy\na = numpy.ones(140 << 17)",  # on huge pages, where the machine has them
        "a = bytearray(140 << 20)",
        "import numpy\nfor _ in range(4):\n    b = numpy.ones(140 << 17)\ndel b\na = numpy.ones(140 << 17)",
    ],
)
def test_memory_is_counted_whatever_the_pages(code: str) -> None:
    async def work() -> None:
        async with LocalSandbox(limits=Limits(memory_mb=512), memory_budget_mb=1_000) as sandbox:
            start = sandbox.start()
            states = [(await start.run(code))[0] for _ in range(4)]
            assert all(states)
            assert 4 * 140 << 20 <= sandbox._states.memory <= 4 * 160 << 20

    asyncio.run(work())


def test_memory_that_was_given_back_does_not_count() -> None:
    async def work() -> None:
        async with LocalSandbox(limits=Limits(memory_mb=512)) as sandbox:
            state, _ = await sandbox.start().run("for _ in range(5):\n    a = bytearray(140 << 20)\n    del a")
            assert state is not None
            assert sandbox._states.memory <= 32 << 20

    asyncio.run(work())


def test_memory_of_a_state_counts_as_long_as_a_fork_of_it_lives() -> None:
    async def work() -> None:
        async with LocalSandbox(limits=Limits(memory_mb=512), memory_budget_mb=1_000) as sandbox:
            first, _ = await sandbox.start().run("a = bytearray(140 << 20)")
            assert first is not None
            second, _ = await first.run("x = 1")
            assert second is not None
            first.release()
            assert sandbox._states.memory >= 140 << 20
            second.release()
            assert sandbox._states.memory < 32 << 20

    asyncio.run(work())


def test_an_owner_with_few_states_keeps_them() -> None:
    """However many another one has, and also while all that those hold is in use."""

    async def work(sandbox: LocalSandbox) -> tuple[list[str], list[str]]:
        code = "import os\nx = os.urandom(8)\nprint(x)"
        mine = [await sandbox.start("me").run(code) for _ in range(2)]
        others = [await sandbox.start("other").run(code) for _ in range(12)]
        await asyncio.gather(*(state.run(code) for state, _ in others if state))
        shown = [(await state.run("print(x)"))[1].stdout for state, _ in mine if state]
        return [result.stdout for _, result in mine], shown

    made, shown = with_sandbox(work, max_states=10)
    assert made == shown


def test_a_state_that_cannot_be_rebuilt_ends_what_would_run_from_it() -> None:
    """Here code that ends differently each time; better no state than a wrong one."""

    async def work(sandbox: LocalSandbox) -> None:
        state = None
        while state is None:
            after, result = await sandbox.start().run("import os\nassert os.urandom(1)[0] < 60")
            state = after if result.ok else None
        outcomes = set()
        for _ in range(40):
            sandbox._states.close()
            after, result = await state.run("1")
            outcomes.add((after is None, result.status, result.error and result.error.message))
        assert outcomes == {
            (False, "ok", None),
            (True, "killed", "the state could not be rebuilt: its step 1 ended in 'ok' before and in 'error' now"),
        }  # fmt: skip

    with_sandbox(work)


def test_budget_that_nothing_fits_in() -> None:
    async def work(sandbox: LocalSandbox) -> list[str]:
        state: LocalState | None = sandbox.start()
        seen = []
        for _ in range(3):
            assert state is not None
            state, result = await state.run("x = globals().get('x', 0) + 1\nx")
            seen.append(result.stdout)
        return seen

    assert with_sandbox(work, max_states=1) == ["1\n", "2\n", "3\n"]


@pytest.mark.parametrize("options", [{"max_states": 12}, {"memory_budget_mb": 64}], ids=["count", "memory"])
@pytest.mark.parametrize("same", [True, False], ids=["one start", "many starts"])
def test_who_holds_most_loses_states(same: bool, options: dict[str, int]) -> None:
    """Not who used theirs long ago: such a client's states would be rebuilt with other random values."""

    async def work(sandbox: LocalSandbox) -> bool:
        modest = [sandbox.start("modest")]
        for _ in range(2):
            state, _ = await modest[-1].run("import os\nx = os.urandom(8)")
            assert state is not None
            modest.append(state)
        _, before = await modest[-1].run("x")
        starts, states = [sandbox.start("greedy")], []
        for _ in range(20):
            if not same:
                starts.append(sandbox.start("greedy"))
            states.append((await starts[-1].run("y = bytearray(4 << 20)"))[0])
        _, after = await modest[-1].run("x")
        assert any(state is not None and state._node.process is None for state in states)
        return before.stdout == after.stdout

    assert with_sandbox(work, **options)


def test_long_solutions() -> None:
    """Nothing recurses along a chain of states, neither a run nor a rebuilding."""
    depth, stack = 300, 200

    async def work(sandbox: LocalSandbox) -> list[str]:
        state, _ = await sandbox.start().run("x = 1")
        for _ in range(depth):
            assert state is not None
            state, _ = await state.run("x += 1")
        assert state is not None
        before, shown = sys.getrecursionlimit(), []
        sys.setrecursionlimit(stack)
        try:
            for code in ("x", "import sympy\nx"):
                shown.append((await state.run(code))[1].stdout)
            sandbox._states.close()
            shown.append((await state.run("x"))[1].stdout)
        finally:
            sys.setrecursionlimit(before)
        return shown

    assert with_sandbox(work, max_states=40) == [f"{depth + 1}\n"] * 3


def test_a_dropped_handle_is_released(box: Box) -> None:
    async def drop() -> None:
        await (await _state(box)).run("1")

    box.do(drop())
    assert settles(lambda: box.run("1").ok and len(box.sandbox._states._frozen) == 0)


async def _state(box: Box) -> LocalState:
    state, _ = await box.sandbox.start().run("x = 1")
    assert state is not None
    return state


TAKES_THREADS = """
import threading
threading.stack_size(32_768)
wait = threading.Event().wait
def take(most):
    count = 0
    try:
        while count < most:
            threading.Thread(target=wait, daemon=True).start()
            count += 1
    except RuntimeError:
        pass
    return count
print(take({most}))
"""


def test_states_with_threads_leave_some_to_others() -> None:
    """Each of the states may rest with many threads, and the next one finds as many."""

    async def work(sandbox: LocalSandbox) -> list[str]:
        start, _ = await sandbox.start().run("x = 1")
        assert start is not None
        found = [await start.run(TAKES_THREADS.format(most=200)) for _ in range(8)]
        assert all(state for state, _ in found)
        return [result.stdout for _, result in found]

    assert with_sandbox(work) == ["200\n"] * 8


@pytest.mark.parametrize("level", [level for level in LEVELS if level != "limits" and not probe().missing(level)])
def test_states_with_threads_leave_some_to_other_solutions(level: Level) -> None:
    """All frozen states together have few enough, and a solution with few keeps its own."""

    async def work() -> tuple[list[str], int, bool]:
        async with LocalSandbox(level, limits=QUICK) as sandbox:
            modest, _ = await sandbox.start().run(TAKES_THREADS.format(most=10))
            assert modest is not None
            process = modest._node.process
            found = [await sandbox.start().run(TAKES_THREADS.format(most=200)) for _ in range(8)]
            threads = sum(process.threads - 1 for process in sandbox._states._frozen.values())
            return [result.stdout for _, result in found], threads, modest._node.process is process

    shown, threads, kept = asyncio.run(work())
    assert shown == ["200\n"] * 8
    assert 400 <= threads <= 512
    assert kept


def test_runs_that_take_all_threads_keep_nobody_from_being_forked() -> None:
    async def work(sandbox: LocalSandbox) -> tuple[int, list[str]]:
        start, _ = await sandbox.start().run("x = 1")
        assert start is not None
        takes = TAKES_THREADS.format(most=10_000) + "import time\ntime.sleep(2)"
        greedy = [asyncio.create_task(start.run(takes)) for _ in range(5)]
        await asyncio.sleep(1)
        others = await asyncio.gather(*(start.run("print(x)") for _ in range(20)))
        taken = sum(int(result.stdout) for _, result in await asyncio.gather(*greedy))
        return taken, [result.stdout for _, result in others]

    roomy = replace(QUICK, memory_mb=512)  # a thread that finds no memory to begin with is waited for without end
    taken, others = with_sandbox(work, roomy)
    assert 900 < taken < 1_100
    assert others == ["1\n"] * 20


AWAKE = """
import sys, time
frame = sys._getframe()
while frame.f_code.co_name != "serve":
    frame = frame.f_back
names = frame.f_globals
fork, taken = names["_fork"], []
"""

BEFORE_IT_FORKS = """
def threads(*arguments):
    taken.append(take(10_000))
    time.sleep(1)
    return fork(*arguments)
names["_fork"] = threads
"""

BEFORE_ITS_HELLO = """
class Link:
    def __init__(self, link):
        self.link = link
    def __getattr__(self, name):
        return getattr(self.link, name)
    def send(self, packet):
        if packet == b"hello":
            taken.append(take(10_000))
            time.sleep(1)
        self.link.send(packet)
names["_fork"] = lambda link, *rest: fork(Link(link), *rest)
"""


@pytest.mark.parametrize("when", [BEFORE_IT_FORKS, BEFORE_ITS_HELLO], ids=["fork", "hello"])
def test_a_state_that_is_forked_gets_no_threads(when: str) -> None:
    """It may have more than others then, so that it can be forked, and others would find none."""

    async def work(sandbox: LocalSandbox) -> tuple[list[str], str]:
        start, _ = await sandbox.start().run("x = 1")
        assert start is not None
        greedy, result = await start.run(TAKES_THREADS.format(most=0) + AWAKE + when)
        assert greedy is not None, result
        fork = asyncio.create_task(greedy.run("print(taken)"))
        await asyncio.sleep(0.3)
        others = await asyncio.gather(*(start.run(TAKES_THREADS.format(most=100)) for _ in range(3)))
        _, taken = await fork
        return [result.stdout for _, result in others], taken.stdout

    assert with_sandbox(work) == (["100\n"] * 3, "[0]\n")


MANY_MAPS = """
import ctypes
call = ctypes.CDLL(None).mmap
call.restype, call.argtypes = ctypes.c_void_p, [ctypes.c_void_p, *[ctypes.c_long] * 5]
def take(count):
    for number in range(count):
        call(None, 4096, 1 + number % 2, 34, -1, 0)
take(30_000)
"""


@pytest.mark.parametrize(
    ("code", "least"),
    [
        ("_ = open('file', 'wb').write(bytes(3 << 20))", 3),
        (TAKES_THREADS.format(most=200), 4),
        (
            """
import ctypes
call = ctypes.CDLL(None).mmap
call.restype, call.argtypes = ctypes.c_void_p, [ctypes.c_void_p, *[ctypes.c_long] * 5]
for at in range(2_000):
    ctypes.c_byte.from_address(call(0x10_0000_0000 + (at << 30), 4096, 3, 34, -1, 0)).value = 1
""",
            20,
        ),
        (MANY_MAPS, 12),
        ("import socket\nkept = [socket.socketpair() for _ in range(50)]", 20),
    ],
    ids=["files", "threads", "page tables", "memory maps", "sockets"],
)
def test_memory_that_is_not_pages_counts(code: str, least: int) -> None:
    async def work(sandbox: LocalSandbox) -> int:
        state, result = await sandbox.start().run(code)
        assert state is not None, result
        return sandbox._states.memory

    assert with_sandbox(work) >= least << 20


def test_memory_maps_of_forks_count() -> None:
    """A fork copies the maps of its source, and hardly runs."""

    async def work(sandbox: LocalSandbox) -> list[int]:
        state, result = await sandbox.start().run(MANY_MAPS)
        assert state is not None, result
        states, sizes = [state], [sandbox._states.memory]
        for _ in range(3):
            after, _ = await state.run("1")
            assert after is not None
            states.append(after)
            sizes.append(sandbox._states.memory)
        return sizes

    sizes = with_sandbox(work)
    assert all(after - before > 7 << 20 for before, after in itertools.pairwise(sizes)), sizes


def test_runs_that_die_by_themselves_harm_no_others() -> None:
    async def work(sandbox: LocalSandbox) -> tuple[set[int | None], set[str]]:
        state, _ = await sandbox.start().run("x = 41")
        assert state is not None

        async def ends(code: str) -> list[Result]:
            return [(await state.run(code))[1] for _ in range(80)]

        dying, well = "import os; os._exit(3)", "print(x + 1)"
        found = await asyncio.gather(*(ends(code) for code in [dying, well] * 3))
        died, lived = ([result for results in found[first::2] for result in results] for first in (0, 1))
        return {result.exit_code for result in died}, {result.stdout for result in lived}

    assert with_sandbox(work) == ({3}, {"42\n"})


def test_a_cancelled_run_leaves_nobody_awake(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who was to be forked and spins instead is ended, though nobody waits for the fork any more."""
    monkeypatch.setattr(execution, "_KEEPER_SECONDS", 0.5)
    spins = "import sys\nframe = sys._getframe()\nwhile frame.f_code.co_name != 'serve':\n    frame = frame.f_back\n"
    spins += "def spin(link):\n    while True:\n        pass\n"
    spins += "frame.f_globals['channel'].receive = spin"

    async def work(sandbox: LocalSandbox) -> list[bool]:
        state, result = await sandbox.start().run(spins)
        assert state is not None, result
        fork = asyncio.create_task(state.run("print(1)"))
        await asyncio.sleep(0.2)
        fork.cancel()
        await asyncio.gather(fork, return_exceptions=True)
        awake = []
        for _ in range(2):
            before = await sandbox.cpu_seconds()
            await asyncio.sleep(1)
            awake.append(await sandbox.cpu_seconds() - before > 0.2)
        return awake

    assert with_sandbox(work)[-1] is False


def test_a_state_that_grows_when_it_is_forked_is_ended() -> None:
    """Nobody measures it again, so it would be memory that does not count. It is rebuilt when it is wanted."""
    grows = """
import sys
frame = sys._getframe()
while frame.f_code.co_name != "serve":
    frame = frame.f_back
fork, kept = frame.f_globals["_fork"], []
def grow(*arguments):
    kept.append(b"x" * (40 << 20))
    return fork(*arguments)
frame.f_globals["_fork"] = grow
"""

    async def work(sandbox: LocalSandbox) -> tuple[list[str], list[bool]]:
        state, result = await sandbox.start().run(grows)
        assert state is not None, result
        shown, held = [], []
        for _ in range(2):
            _, result = await state.run("print(1)")
            shown.append(result.stdout)
            await asyncio.sleep(0.3)
            held.append(state._node.process is not None)
        return shown, held

    assert with_sandbox(work) == (["1\n"] * 2, [False] * 2)


def test_runs_that_wait_for_a_rebuilt_state_hold_no_slot(box: Box) -> None:
    """A state with a thread cannot be copied: every run from it replays its code first, one after another."""
    kept = (
        "import threading, time\nthreading.Thread(target=time.sleep, args=(60,), daemon=True).start()\ntime.sleep(0.5)"
    )

    async def scenario() -> tuple[float, list[Result]]:
        async with LocalSandbox(workers=2) as sandbox:
            state, result = await sandbox.start().run(kept, Limits(seconds=5))
            assert state is not None, result
            forks = [asyncio.create_task(state.run("1", Limits(seconds=5))) for _ in range(6)]
            await asyncio.sleep(0.3)  # they have begun to wait
            started = time.monotonic()
            others = [await sandbox.run("print(1)", limits=QUICK) for _ in range(3)]
            seconds = time.monotonic() - started
            ended = await asyncio.gather(*forks)
            rest = time.monotonic() - started - seconds
            assert all(fork.ok for _, fork in ended)
            return seconds / rest, others

    share, others = asyncio.run(scenario())
    assert [other.stdout for other in others] == ["1\n"] * 3
    assert share < 1 / 2  # else they waited for most of the replays


@pytest.mark.parametrize("late", range(4))
def test_a_lock_and_slots_never_wait_for_each_other(late: int) -> None:
    """Runs that arrive while the lock passes from one run to the next must not keep the slots that it needs."""

    async def scenario() -> list[str]:
        watch, threads = MemoryWatch(1 << 40, cast(Any, None)), ThreadBudget(100)
        scheduler, node, ended = Scheduler(2, 1, watch, threads), Node(Root()), list[str]()
        go_on = asyncio.Event()

        async def run(name: str, *, first: bool = False) -> None:
            async with scheduler.slot() as slot, _locked(node, slot):
                if first:
                    slot.demote()
                    await go_on.wait()
                ended.append(name)

        tasks = [asyncio.create_task(run("first", first=True))]
        await asyncio.sleep(0.01)
        tasks.append(asyncio.create_task(run("next")))
        await asyncio.sleep(0.01)
        go_on.set()
        for _ in range(late):
            await asyncio.sleep(0)
        tasks += [asyncio.create_task(run(name)) for name in "abc"]
        await asyncio.wait_for(asyncio.gather(*tasks), 60)
        assert (scheduler.foreground._value, scheduler.free_background, node.lock_users) == (2, 1, 0)
        return ended

    assert sorted(asyncio.run(scenario())) == ["a", "b", "c", "first", "next"]
