"""All runs together have a bounded number of threads, and a few runs have many each."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack

import pytest

from rstar.sandbox import Limits, LocalSandbox
from rstar.sandbox.parent.threads import FEWEST, MOST, ThreadBudget

TOTAL, RUNS = 160, 10
GREEDY = """
import threading, time
threading.stack_size(65536)
count, end = 0, threading.Event()
try:
    while count < 400:
        threading.Thread(target=end.wait, daemon=True).start()
        count += 1
except RuntimeError:
    pass
time.sleep(1)
print(count)
"""


@pytest.mark.parametrize("total", [0, 1_000, 8_192, 1 << 20])
def test_shares_leave_something_and_come_back(total: int) -> None:
    budget = ThreadBudget(total)
    with ExitStack() as stack:
        shares = [stack.enter_context(budget.share()) for _ in range(2_000)]
        assert sum(shares) <= total + FEWEST * len(shares)
        assert shares == sorted(shares, reverse=True)
        assert set(shares) <= set(range(FEWEST, MOST + 1))
    assert budget.left == total
    assert shares[0] == max(FEWEST, min(MOST, total // 32))


def test_a_few_programs_have_many_threads() -> None:
    async def run() -> str:
        async with LocalSandbox(workers=2, total_threads=1 << 20) as sandbox:
            return (await sandbox.run(GREEDY, limits=Limits(20))).stdout

    assert 200 < int(asyncio.run(run())) <= MOST


@pytest.mark.parametrize("steps", [False, True], ids=["programs", "steps"])
def test_many_runs_have_few_threads_each(steps: bool) -> None:
    async def count(sandbox: LocalSandbox) -> int:
        if steps:
            _, result = await sandbox.start().run(GREEDY, Limits(20))
        else:
            result = await sandbox.run(GREEDY, limits=Limits(20))
        assert result.ok, result
        return int(result.stdout)

    async def run() -> list[int]:
        async with LocalSandbox(workers=4, total_threads=TOTAL) as sandbox:
            return await asyncio.gather(*(count(sandbox) for _ in range(RUNS)))

    counts = asyncio.run(run())
    assert min(counts) >= FEWEST - 2
    assert sum(counts) <= TOTAL + FEWEST * RUNS
