"""Questions about processes take a bounded part of the keeper's time."""

from __future__ import annotations

import itertools
import time

from rstar.sandbox import channel
from rstar.sandbox.keeper.processes import PipeQuota, Run, look_at


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
