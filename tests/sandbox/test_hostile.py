"""Hostile code is contained, leaves nothing behind, and does not disturb the next run."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from rstar.sandbox import Result, State

from .conftest import QUICK, Box, descendants, settles
from .hostile import CASES, ENDS, Case

RAW = platform.machine() == "x86_64"  # numbers of raw calls in the cases
MARK = Path("/tmp/rstar-evil")


@pytest.fixture(scope="module", autouse=True)
def nothing_is_left(box: Box) -> Iterator[None]:
    box.run("1"), box.run("import sympy")
    before = descendants(os.getpid())
    yield
    assert settles(lambda: box.run("1").ok and descendants(os.getpid()) <= before), told(before)
    assert box.run("print(6 * 7)").stdout == "42\n"
    assert not MARK.exists()


def told(before: set[int]) -> list[str]:
    """What is left: number, state and parent of each process."""
    left = descendants(os.getpid()) - before
    return [" ".join(Path(f"/proc/{process}/stat").read_text(errors="replace").split()[:4]) for process in left]


SUITABLE = [case for case in CASES if RAW or "syscall(" not in case.code]


def check(case: Case, result: Result) -> None:
    assert result.status in case.expect, result
    assert "LEAK" not in result.stdout
    assert case.says in result.stdout, result
    assert len(result.stdout.encode()) <= QUICK.output_bytes + 3


@pytest.mark.parametrize("case", SUITABLE, ids=lambda case: case.name.replace(" ", "-"))
def test_program(box: Box, case: Case) -> None:
    check(case, box.run(case.code, limits=replace(QUICK, seconds=case.seconds)))
    assert box.run("print(6 * 7)").stdout == "42\n"


@pytest.fixture(scope="module")
def state(box: Box) -> Iterator[State]:
    start = box.sandbox.start()
    state, _ = box.do(start.run("x = 41"))
    assert state is not None
    yield state
    state.release()
    start.release()


@pytest.mark.parametrize("case", SUITABLE, ids=lambda case: case.name.replace(" ", "-"))
def test_step(box: Box, state: State, case: Case) -> None:
    """Also as a step, followed by another one from what it leaves, if anything; its source stays as it was."""
    after, result = box.do(state.run(case.code, replace(QUICK, seconds=case.seconds)))
    check(replace(case, expect=ENDS) if case.lasts else case, result)
    if after is not None:
        _, more = box.do(after.run("print(x + 1)", replace(QUICK, seconds=2.0)))
        assert "LEAK" not in more.stdout
        after.release()
    _, result = box.do(state.run("print(x + 1)"))
    assert result.stdout == "42\n"
