"""One sandbox per test module, driven from plain test functions."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

from rstar.sandbox import Limits, LocalSandbox, Result
from rstar.sandbox.parent.local import LocalState

T = TypeVar("T")

QUICK = Limits(seconds=20, memory_mb=128, scratch_mb=4)


class Box:
    """A sandbox and the event loop it lives in."""

    def __init__(self, runner: asyncio.Runner, sandbox: LocalSandbox) -> None:
        self.runner, self.sandbox = runner, sandbox

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(work)

    def run(self, code: str, stdin: str | None = None, limits: Limits | None = None) -> Result:
        return self.do(self.sandbox.run(code, stdin, limits))

    def steps(self, *codes: str) -> list[Result]:
        """Run one after the other, each from the state that the one before left."""

        async def chain() -> list[Result]:
            state: LocalState | None = self.sandbox.start()
            states, results = [state], []
            for code in codes:
                assert state is not None
                state, result = await state.run(code)
                states.append(state)
                results.append(result)
            for one in states:
                if one is not None:
                    one.release()
            return results

        return self.do(chain())


@pytest.fixture(scope="module")
def box() -> Iterator[Box]:
    with asyncio.Runner() as runner:
        sandbox = LocalSandbox(workers=4, limits=QUICK)
        runner.run(sandbox.__aenter__())
        yield Box(runner, sandbox)
        runner.run(sandbox.__aexit__(None, None, None))


def descendants(process: int) -> set[int]:
    """All processes below `process`, zombies left out."""
    parents: dict[int, int] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                fields = Path(f"/proc/{name}/stat").read_text(errors="replace").rpartition(")")[2].split()
            except OSError:
                continue
            if fields[0] != "Z":
                parents[int(name)] = int(fields[1])
    found, more = {process}, True
    while more:
        more = {child for child, parent in parents.items() if parent in found} - found
        found |= more
    return found - {process}


def settles(check: Any, seconds: float = 10.0) -> bool:
    """Whether `check` becomes true within a while: processes take a moment to go."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if check():
            return True
        time.sleep(0.02)
    return bool(check())
