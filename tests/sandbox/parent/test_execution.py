"""When the time of a run is up: what it has waited for a processor does not count."""

import asyncio
import itertools
import json
import os
import time
from collections.abc import Sequence
from dataclasses import asdict
from types import SimpleNamespace
from typing import Any, cast

import pytest

from rstar.sandbox.api import Limits, Result
from rstar.sandbox.keeper.proc import Proc, Progress
from rstar.sandbox.parent import execution
from rstar.sandbox.parent.execution import MAX_STRETCH, Execution, read_report
from rstar.sandbox.parent.memory import MemoryWatch
from rstar.sandbox.parent.pool import Link
from rstar.sandbox.parent.scheduler import Scheduler
from rstar.sandbox.parent.threads import ThreadBudget

SECONDS = 0.2


class Keeper:
    """A link to a keeper whose run dies at once, or never ends and comes as far as it is said."""

    folder = None
    new_folder_name = str
    started_at = 0.0

    def __init__(self, progress: Sequence[Progress] = (), death: dict[str, Any] | None = None) -> None:
        self._progress, self.queries, self.death = list(progress), 0, death
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}

    def close(self) -> None:
        """A keeper that answers is not ended."""
        raise AssertionError

    def next_id(self) -> int:
        return len(self._waiting) + 1

    def expect(self, number: int) -> asyncio.Future[dict[str, Any]]:
        return self._waiting.setdefault(number, asyncio.get_running_loop().create_future())

    def send(self, message: dict[str, Any], _files: Sequence[int] = ()) -> None:
        match message["do"]:
            case "progress":
                now = self._progress[min(self.queries, len(self._progress) - 1)]
                self.queries += 1
                self._waiting[message["id"]].set_result({"started_at": self.started_at, **asdict(now)})
            case "kill":
                self._waiting[message["id"]].set_result({"event": "ended", "signal": 9, "cpu": 0.1})
            case "run":
                self.started_at = time.monotonic()
                if self.death:
                    self._waiting[message["id"]].set_result({"event": "ended", **self.death})


class NoCache:
    memory = 0

    def shrink(self, size: int) -> None: ...


async def run(keeper: Keeper, limits: Limits, processes: int = 2) -> Result:
    async with Scheduler(1, 1, MemoryWatch(1 << 40, NoCache()), ThreadBudget(1 << 20)).slot() as slot:
        execution = Execution(cast(Link, keeper), limits, slot, processes=processes)
        outcome = await execution.outcome({"do": "run", "id": keeper.next_id()})
    return outcome.result


@pytest.fixture(autouse=True)
def _others_are_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """How busy the machine is must not decide what is added."""
    monkeypatch.setattr(execution, "_CPU_TIME", SimpleNamespace(used=lambda: None))


def seconds_until_timeout(progress: Sequence[Progress]) -> tuple[float, int]:
    keeper = Keeper(progress)
    result = asyncio.run(run(keeper, Limits(seconds=SECONDS)))
    assert result.status == "timeout"
    return result.seconds, keeper.queries


@pytest.mark.parametrize(
    ("progress", "queries", "least"),
    [
        ([Progress(0.0, SECONDS, ready=True)], 1, SECONDS),  # computes all the time
        ([Progress(0.0, 0.0, ready=False)], 1, SECONDS),  # sleeps
        ([Progress(0.15, 0.05, ready=True), Progress(0.15, 0.2, ready=True)], 2, SECONDS + 0.15),
        # It waits still, which the kernel has not added up; then it has, and it computes.
        ([Progress(0.1, 0.1, ready=True)] * 3 + [Progress(0.2, 0.1, ready=True), Progress(0.2, 9, ready=True)], 5, 0.5),
        # Two threads had a processor each, and waited for each other: nothing was lost.
        ([Progress(5.0, 2 * SECONDS, ready=True)], 1, SECONDS),
        # Many processes, of which most have ended: nobody can tell what they have had.
        ([Progress(5.0, 0.0, ready=True, processes=3)], 1, SECONDS),
        ([Progress(0.1, 0.1, ready=True, processes=2), Progress(0.1, 9, ready=True, processes=2)], 2, SECONDS + 0.1),
        # What had waited has ended, and who waits for it has not come to it, or is not even awake.
        ([Progress(0.1, 0.1, ready=True), Progress(0.0, 0.1, ready=False), Progress(0.0, 0.1, ready=False)], 3, 0.35),
        ([Progress(0.1, 0.1, ready=True), Progress(0.0, 0.1, ready=True), Progress(0.0, 9, ready=True)], 3, 0.35),
        ([Progress(0.1, 0.1, ready=True), Progress(0.0, 9, ready=True)], 2, SECONDS + 0.1),
    ],
)  # fmt: skip
def test_what_it_waited_is_added(progress: list[Progress], queries: int, least: float) -> None:
    seconds, times = seconds_until_timeout(progress)
    assert (times, seconds >= least) == (queries, True)


def test_compilers_work_one_after_the_other() -> None:
    waits = [Progress(0.15, 0.05, ready=True, processes=4), Progress(0.15, 9, ready=True, processes=4)]
    for processes, queries in ((3, 1), (4, 2)):
        keeper = Keeper(waits)
        assert asyncio.run(run(keeper, Limits(seconds=SECONDS), processes)).status == "timeout"
        assert keeper.queries == queries


def test_a_run_that_ends_when_its_time_is_up_costs_nobody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its keeper does not know it any more when it is asked how far it has come; that is not a run that never began."""
    monkeypatch.setattr(execution, "_START_SECONDS", 0.0)

    class Late(Keeper):
        closed = False

        def close(self) -> None:
            self.closed = True

        def send(self, message: dict[str, Any], _files: Sequence[int] = ()) -> None:
            if message["do"] == "progress":
                self._waiting[1].set_result({"event": "ended", "signal": None, "code": 3, "cpu": 0.1})
                self._waiting[message["id"]].set_result({"started_at": None, **asdict(Progress())})
            else:
                super().send(message)

    keeper = Late()
    result = asyncio.run(run(keeper, Limits(seconds=SECONDS)))
    assert (result.status, result.exit_code, keeper.closed) == ("killed", 3, False)


def test_there_is_an_end_to_it() -> None:
    seconds, _ = seconds_until_timeout([Progress(1_000.0, 0.0, ready=True)])
    assert seconds > 0.95 * MAX_STRETCH * SECONDS  # the first look is a little early


@pytest.mark.parametrize(
    ("death", "status"),
    [
        ({"signal": 24, "cpu": 1.8}, "timeout"),  # SIGXCPU
        ({"signal": 9, "cpu": 1.6}, "timeout"),  # the kernel's count of ticks is higher
        ({"signal": 9, "cpu": 0.3}, "killed"),
        ({"signal": 11, "cpu": 1.6}, "killed"),
        ({"signal": None, "code": 1, "cpu": 2.1}, "timeout"),
    ],
)
def test_why_it_died(death: dict[str, Any], status: str) -> None:
    assert asyncio.run(run(Keeper(death=death), Limits(seconds=2))).status == status


def test_progress_of_a_child() -> None:
    reading, writing = os.pipe()
    if not (child := os.fork()):
        os.read(reading, 1)
        os._exit(0)
    try:
        while (idle := Proc().progress(child)).ready:
            pass
        assert idle.ran < 1
    finally:
        os.write(writing, b"x")
        os.waitpid(child, 0)
        os.close(reading)
        os.close(writing)
    assert Proc().progress(child) == Progress()
    if not (child := os.fork()):
        while True:
            pass
    try:
        busy = [Proc().progress(child)]
        while busy[-1].ran - busy[0].ran < 0.05:
            busy.append(Proc().progress(child))
        assert any(one.ready for one in busy)
        assert [one.ran for one in busy] == sorted(one.ran for one in busy)
    finally:
        os.kill(child, 9)
        os.waitpid(child, 0)


@pytest.mark.parametrize(
    ("report", "expected"),
    [
        ({"kind": "K" * 5_000, "message": "m" * 60_000, "line": 3}, ("K" * 2_000, "m" * 2_000, 3)),
        ({"kind": "E", "message": "", "line": True}, ("E", "", None)),
        ({"kind": "E", "message": "", "line": 10**300}, ("E", "", None)),
        ({"kind": "E", "message": "\ud800", "line": None}, ("E", "?", None)),
    ],
)
def test_reports_are_believed_as_far_as_they_go(report: dict[str, Any], expected: tuple[str, str, int | None]) -> None:
    error = read_report(json.dumps({"status": "error", **report})).error
    assert error is not None
    assert (error.kind, error.message, error.line) == expected


def test_a_report_with_control_characters_is_read() -> None:
    error = read_report('{"status": "error", "kind": "a\0b", "message": "\1", "line": 1}').error
    assert error is not None
    assert (error.kind, error.message, error.line) == ("a\0b", "\1", 1)


@pytest.mark.parametrize(("others", "most"), [(0.0, 0.5), (0.1, 0.6), (None, 10.0)])
def test_no_more_is_added_than_others_have_had(
    others: float | None, most: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run whose threads wait for each other, half of the time asleep: the kernel says that it waited."""
    used = itertools.chain([5.0], itertools.repeat(5.1 + (others or 0.0)))
    processors = SimpleNamespace(used=lambda: None if others is None else next(used))
    monkeypatch.setattr(execution, "_CPU_TIME", processors)
    seconds, _ = seconds_until_timeout([Progress(0.08 * step, 0.1, ready=True) for step in range(1, 12)])
    assert SECONDS <= seconds <= SECONDS + most
    assert others is not None or seconds > SECONDS + 0.6


def test_a_look_at_the_files_that_ends_after_the_run_kills_nothing() -> None:
    """It would start a clock at whose end the keeper is closed, with all its runs."""
    keeper = Keeper(death={"signal": None, "code": 1, "cpu": 0.0})

    async def work() -> bool:
        async with Scheduler(1, 1, MemoryWatch(1 << 40, NoCache()), ThreadBudget(1 << 20)).slot() as slot:
            execution = Execution(cast(Link, keeper), Limits(), slot)
            await execution.outcome({"do": "run", "id": keeper.next_id()})
        answer = asyncio.get_running_loop().create_future()
        answer.set_result({"held": 1 << 40})
        execution._check_disk_use(answer)
        return execution._keeper_timer is None

    assert asyncio.run(work())
