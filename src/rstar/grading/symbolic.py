"""Questions to sympy behind a hard limit: a few warm processes that are killed and replaced when one takes too long.

`same_function` and `digits_of` may be called from any thread, inside a running event loop's worker threads, and after
a fork. No process is started before the first question. Nothing depends on signals, timers or the main thread of the
caller. Each question has `rstar.grading.worker.CPU_SECONDS` of CPU time in its worker, so that a verdict does not
depend on how busy the machine is, and `WALL_SECONDS` on the caller's clock as a backstop.
"""

from __future__ import annotations

import atexit
import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

from rstar.grading.lexer import UnreadableError
from rstar.grading.nodes import CONSTANTS, Apply, Node, Number, Symbol

WALL_SECONDS = 6.0
START_SECONDS = 60.0
MOST_WORKERS = 2


class SymbolicTimeoutError(Exception):
    """The question took longer than the limit; its worker has been killed."""


class SymbolicError(Exception):
    """sympy could not answer, or its process could not be started."""


def same_function(first: Node, second: Node) -> tuple[bool, str]:
    """Whether two arithmetic expressions are equal, and why; see `rstar.grading.worker` for what equal means.

    Raises:
        UnreadableError: one of them is more than arithmetic.
        SymbolicTimeoutError: the limit was reached.
        SymbolicError: sympy failed.
    """
    answer = _POOL.ask(["compare", encode(first), encode(second)])
    return bool(answer["equal"]), str(answer["why"])


def proportional(first: Node, second: Node) -> bool:
    """Whether one expression is the other times a constant, and neither is zero. Raises like `same_function`."""
    crossed = (Apply("*", (first, _renamed(second))), Apply("*", (_renamed(first), second)))
    if not same_function(*crossed)[0]:
        return False
    return not any(same_function(side, Number(Fraction(0)))[0] for side in (first, second))


def digits_of(constant: Node) -> str | None:
    """40 significant digits of a real constant; None when it is not a real number. Raises like `same_function`."""
    value = _POOL.ask(["digits", encode(constant)])["value"]
    return None if value is None else str(value)


def worker_pids() -> list[int]:
    """Process ids of the workers that wait for a question now."""
    return _POOL.pids()


def encode(node: Node) -> list[Any]:
    """A tree as the worker reads it."""
    if isinstance(node, Number):
        return ["n", str(node.value.numerator), str(node.value.denominator)]
    if isinstance(node, Symbol) and node.name != "∞":
        return ["s", node.name]
    if isinstance(node, Apply) and node.op != "±":
        return ["a", node.op, *map(encode, node.args)]
    raise UnreadableError("not an arithmetic expression")


def _renamed(node: Node) -> Node:
    """The same expression in other variables."""
    if isinstance(node, Symbol) and node.name not in CONSTANTS:
        return Symbol(node.name + "*")
    return Apply(node.op, tuple(map(_renamed, node.args))) if isinstance(node, Apply) else node


class _LostError(Exception):
    """A worker ended for a reason of its own: killed by somebody, out of memory."""


class _Worker:
    """One process, used by one thread at a time."""

    def __init__(self) -> None:
        package = str(Path(__file__).parents[2])
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "rstar.grading.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            env=os.environ | {"PYTHONPATH": os.pathsep.join([package, *filter(None, sys.path)])},
            start_new_session=True,
        )
        self._unread = b""
        try:
            self._line(START_SECONDS)
        except BaseException:
            self.kill()
            raise

    @property
    def pid(self) -> int:
        return self._process.pid

    def ask(self, question: Sequence[Any]) -> dict[str, Any]:
        """The answer to one question. Raises: SymbolicTimeoutError; _LostError when the process has gone."""
        assert self._process.stdin is not None
        unsent = memoryview(json.dumps(question).encode() + b"\n")
        try:
            while unsent:
                unsent = unsent[os.write(self._process.stdin.fileno(), unsent) :]
        except BrokenPipeError as error:
            raise _LostError from error
        answer: dict[str, Any] = json.loads(self._line(WALL_SECONDS))
        return answer

    def _line(self, seconds: float) -> bytes:
        assert self._process.stdout is not None
        descriptor = self._process.stdout.fileno()
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        end = time.monotonic() + seconds
        while b"\n" not in self._unread:
            if not poll.poll(max(0.0, end - time.monotonic()) * 1000):
                raise SymbolicTimeoutError("no answer within the limit")
            data = os.read(descriptor, 1 << 16)
            if not data:
                if self._process.wait() == -signal.SIGPROF:
                    raise SymbolicTimeoutError("its CPU time was used up")
                raise _LostError
            self._unread += data
        line, _, self._unread = self._unread.partition(b"\n")
        return line

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        self.close()

    def close(self) -> None:
        """Let go of the pipes: an idle worker sees the end of its input and leaves."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()


class _Pool:
    """At most `MOST_WORKERS` processes; a thread that finds none free waits."""

    def __init__(self) -> None:
        self._reset()

    def _reset(self) -> None:
        self._slots = threading.BoundedSemaphore(MOST_WORKERS)
        self._lock = threading.Lock()
        self._idle: list[_Worker] = []

    def ask(self, question: Sequence[Any]) -> dict[str, Any]:
        """The answer to one question, from a second worker if the first one was lost."""
        with self._slots:
            for _ in range(MOST_WORKERS + 1):  # all idle ones may be gone; then a fresh one is asked
                try:
                    answer = self._ask_one(question)
                except _LostError:
                    continue
                if "error" in answer:
                    raise SymbolicError(answer["error"])
                return answer
        raise SymbolicError("the worker process was lost")

    def _ask_one(self, question: Sequence[Any]) -> dict[str, Any]:
        with self._lock:
            worker = self._idle.pop() if self._idle else None
        try:
            worker = worker or _Worker()
        except OSError as error:
            raise SymbolicError(f"the worker process could not be started: {error}") from error
        try:
            answer = worker.ask(question)
        except BaseException:  # also when the caller is interrupted: an answer that nobody reads would be left in it
            worker.kill()
            raise
        with self._lock:
            self._idle.append(worker)
        return answer

    def pids(self) -> list[int]:
        with self._lock:
            return [worker.pid for worker in self._idle]

    def close(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for worker in idle:
            worker.kill()

    def forget(self) -> None:
        """In a forked child: the workers belong to the parent, and a lock may be held by a thread that is not here."""
        inherited = self._idle
        self._reset()
        for worker in inherited:
            worker.close()


_POOL = _Pool()
atexit.register(_POOL.close)
os.register_at_fork(after_in_child=_POOL.forget)
