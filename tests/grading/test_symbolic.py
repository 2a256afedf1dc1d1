"""The worker processes: threads, event loops, limits, and processes that are lost."""

import asyncio
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from rstar.grading import grade, is_equivalent, symbolic
from rstar.grading.parser import parse

PAIR = (r"\sqrt{8}", r"2\sqrt{2}")


def test_no_process_is_started_before_it_is_needed():
    code = (
        "from rstar.grading import grade, symbolic; import sys;"
        "assert grade('0.5', '1/2').correct and not grade('x', '7').correct;"
        "assert symbolic.worker_pids() == [] and 'sympy' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_many_threads_get_their_own_answers():
    cases = [(rf"(x+{k})^2", rf"x^2+{2 * k}x+{k * k + k % 2}", k % 2 == 0) for k in range(1, 25)]
    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(lambda case: is_equivalent(*case[:2]), cases))
    assert found == [equal for *_, equal in cases]
    assert 0 < len(symbolic.worker_pids()) <= symbolic.MOST_WORKERS


def test_inside_an_event_loop():
    async def both() -> list[bool]:
        return await asyncio.gather(
            asyncio.to_thread(is_equivalent, *PAIR), asyncio.to_thread(is_equivalent, r"\sqrt{8}", r"3\sqrt{2}")
        )

    assert asyncio.run(both()) == [True, False]


def test_a_killed_worker_is_replaced():
    assert is_equivalent(*PAIR)
    killed = symbolic.worker_pids()
    assert killed
    for pid in killed:
        os.kill(pid, signal.SIGKILL)
    assert is_equivalent(*PAIR)
    assert not set(killed) & set(symbolic.worker_pids())


def test_a_question_that_takes_too_long_is_a_timeout_and_the_next_one_is_answered():
    with pytest.raises(symbolic.SymbolicTimeoutError):
        symbolic.same_function(parse("9^{9^{9}}"), parse("5+x"))  # grade never asks this: its size is checked first
    assert symbolic.same_function(*map(parse, PAIR))[0]


def test_a_timeout_is_a_verdict_that_does_not_match(monkeypatch):
    monkeypatch.setattr("rstar.grading.exact.check_size", lambda node: None)
    monkeypatch.setattr("rstar.grading.exact.value_of", lambda node: None)
    verdict = grade("5+x", "9^{9^{9}}")
    assert verdict.outcome == "timeout"
    assert not verdict.correct


def test_a_worker_that_cannot_start_is_an_error_verdict(monkeypatch):
    monkeypatch.setattr(symbolic, "_POOL", symbolic._Pool())
    monkeypatch.setattr(sys, "executable", "/nonexistent/python")
    assert grade(*PAIR).outcome == "error"


def test_a_forked_child_starts_its_own_workers():
    assert is_equivalent(*PAIR)
    child = os.fork()
    if not child:
        try:
            os._exit(0 if symbolic.worker_pids() == [] and is_equivalent(*PAIR) else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert is_equivalent(*PAIR)


@pytest.mark.parametrize("text", ["__import__('os').system('true')", "x.__class__", "lambda: 0", "f(open)"])
def test_python_is_not_an_expression(text):
    assert grade("x+1", text).outcome in ("wrong", "unparseable")
