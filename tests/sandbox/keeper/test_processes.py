"""Questions about processes take a bounded part of the keeper's time."""

from __future__ import annotations

import itertools
import os
import subprocess
import time
from typing import cast

import pytest

from rstar.sandbox import channel
from rstar.sandbox.keeper import processes
from rstar.sandbox.keeper.proc import Proc
from rstar.sandbox.keeper.processes import Children, PipeQuota, Run, look_at


def test_what_takes_long_to_look_at_is_looked_at_rarely() -> None:
    """Among 10,000 runs, the pause after a look of 10 ms is longer than any test. Each run has its own."""
    ours, theirs = channel.pair()
    with ours, theirs:
        slow, quick = (Run(number, ours, "", None) for number in (1, 2))
        numbers = itertools.count(7)

        def takes_long(_: Run) -> int:
            end = time.thread_time() + 0.01
            while time.thread_time() < end:
                pass
            return next(numbers)

        assert [look_at(slow, "memory", takes_long, 10_000) for _ in range(3)] == [7, 7, 7]
        assert look_at(slow, "unlinked", takes_long, 10_000) == 8
        assert [look_at(quick, "memory", lambda _: next(numbers), 0) for _ in range(3)] == [9, 10, 11]


def test_many_programs_have_fewer_pipes_each() -> None:
    """The kernel gives one user 1,024 pipes of the usual size."""

    def held(programs: int) -> int:
        count = 0
        quota = PipeQuota(lambda: count)
        while quota.allows(programs):
            count += 1
        return count

    assert held(1) == held(16) == 32
    assert held(34) * 34 <= 512
    assert held(34) >= 8
    assert held(1_000) >= 2


def test_counts_of_pipes_take_a_small_part_of_the_time_for_all_programs_together() -> None:
    """Among 10,000 programs, the pause after a count of 2 ms is longer than any test."""
    counted = 0

    def count() -> int:
        nonlocal counted
        counted += 1
        end = time.thread_time() + 0.002
        while time.thread_time() < end:
            pass
        return 1_000

    alone, among_many = PipeQuota(count), PipeQuota(count)
    while alone.allows(1) or counted < 3:
        pass
    counted = 0
    while among_many.allows(10_000):
        pass
    for _ in range(1_000):
        assert not among_many.allows(10_000)
    assert counted == 1


def test_killing_waits_for_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that needs a processor to die must not hold up the others."""
    children = Children(cast(Proc, None), adopts_orphans=False, leads_groups=False)
    child = subprocess.Popen(["sleep", "1000"])
    blocked: list[object] = []
    monkeypatch.setattr(processes.select, "poll", lambda: blocked.append(1))
    reports: list[int] = []
    children.kill_and_report(child.pid, lambda status, _: reports.append(os.waitstatus_to_exitcode(status)))
    assert not blocked
    while not reports:
        children.reap()
        time.sleep(0.001)
    assert reports == [-9]
    child.returncode = -9
