"""Executes one job: Python in the sandbox, C++ with the compiler, math answers with the grader.

Every job gets an answer. A failure of this machine is retried, then answered as ``failed``, never as the program's own
failure.

When a zygote dies, any of its runs may have killed it. All of them run again, a few at a time, and one at a time after
a second death; after the third, a job fails. So a job that kills zygotes runs three times and takes few others with it.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from dataclasses import replace

from rstar.errors import SandboxError
from rstar.grading import grade
from rstar.judge.queue.jobs import Answer, Job
from rstar.judge.settings import JudgeSettings
from rstar.judge.worker.cpp import Compiler
from rstar.sandbox import LocalSandbox, MemoryHeldError, OversizedRunError, Result, RunLostError, State

_PAUSES = (0.1, 0.5, 2.0, 5.0, 10.0, 10.0)
"""Seconds before each retry after a sandbox failure, which may be temporary (a full disk)."""

MAX_LOSSES = 3
"""Lost zygotes after which a job fails."""

_TRIAL_SIZES = (8, 1)
"""Jobs that begin their second, and their third, attempt together."""

_TRIAL_SECONDS = 2.0
"""A job that has run for so long holds up no other trial."""

_LOG = logging.getLogger("rstar.judge")


class Executor:
    """Executes jobs concurrently; the sandbox decides how many run.

    Args:
        name: this worker's name, for `Answer.worker`.
        sandbox: an open sandbox.
        settings: the service's settings.
        max_states: session states kept. Beyond it, the host with most states loses its least recently used one, which
            is rebuilt on demand.
    """

    def __init__(self, name: str, sandbox: LocalSandbox, settings: JudgeSettings, max_states: int = 4_096) -> None:
        self._name, self._sandbox, self._max_states = name, sandbox, max_states
        self._compiler = Compiler(sandbox, settings.compile_seconds, settings.compile_mb)
        self._states: dict[str, OrderedDict[str, State]] = {}  # by host
        self._hosts: dict[str, str] = {}  # by state
        self._trials = [asyncio.Semaphore(size) for size in _TRIAL_SIZES]

    async def execute(self, job: Job) -> Answer:
        """Execute a job; raises nothing but cancellation."""
        most = self._sandbox.total // 2 >> 20
        if job.limits.memory_mb > most:  # leave memory for other jobs
            message = f"{job.limits.memory_mb} MB of memory is too much; a call may have at most {most} MB here"
            return Answer(job.id, "invalid", self._name, message=message)
        pauses, losses = iter(_PAUSES), 0
        while True:
            try:
                async with _held(self._trials[losses - 1], _TRIAL_SECONDS) if losses else nullcontext():
                    return await self._attempt(job)
            except OversizedRunError as error:
                return Answer(job.id, "invalid", self._name, message=str(error))
            except MemoryHeldError as error:  # it has waited for long
                return Answer(job.id, "failed", self._name, message=str(error))
            except RunLostError as error:
                _LOG.warning("job %s: %s", job.id, error)
                losses += 1
                if losses == MAX_LOSSES:
                    message = f"{MAX_LOSSES} interpreters died while running this call"
                    return Answer(job.id, "failed", self._name, message=message)
            except (SandboxError, OSError) as error:
                message = f"{type(error).__name__}: {error}"
                _LOG.warning("job %s: %s", job.id, message)
                if (pause := next(pauses, None)) is None:
                    return Answer(job.id, "failed", self._name, message=message)
                await asyncio.sleep(pause)
            except Exception as error:
                _LOG.exception("job %s", job.id)
                return Answer(job.id, "failed", self._name, message=f"{type(error).__name__}: {error}")

    async def _attempt(self, job: Job) -> Answer:
        match job.kind:
            case "python":
                result = await self._sandbox.run(job.code, job.stdin, job.limits, echo=job.echo)
                return self._answer(job, _program_result(result))
            case "cpp":
                return self._answer(job, await self._compiler.run(job.code, job.stdin, job.limits))
            case "math":
                return await self._verify(job)
            case "cell":
                return await self._cell(job)

    def forget(self, states: list[str]) -> None:
        """Release states that are no longer needed."""
        for name in states:
            if name in self._hosts:
                self._pop(name).release()

    async def _cell(self, job: Job) -> Answer:
        if job.state and job.state not in self._hosts and not job.history:
            return Answer(job.id, "lost", self._name)
        state = await self._state(job)
        if state is None:
            lost = ("StateLost", "the session could not be rebuilt: its code ended differently this time", None)
            return Answer(job.id, worker=self._name, status="killed", error=lost)
        after, result = await state.run(job.code, job.limits)
        answer = self._answer(job, result)
        if after is not None:
            self._store(job.id, after, job.host)
            answer.lives = True
        return answer

    async def _state(self, job: Job) -> State | None:
        """The source state of a cell, rebuilt if this worker lacks it; None if a cell now ends differently."""
        if not job.state:
            return self._sandbox.start(job.host)
        if job.state in self._hosts:
            states = self._states[self._hosts[job.state]]
            states.move_to_end(job.state)
            return states[job.state]
        state: State | None = self._sandbox.start(job.host)
        for cell in job.history:
            assert state is not None
            state, result = await state.run(cell.code, cell.limits)
            if state is None or result.status != cell.status:
                return None
        assert state is not None
        self._store(job.state, state, job.host)
        return state

    def _store(self, name: str, state: State, host: str) -> None:
        if name in self._hosts:
            self._pop(name)
        self._hosts[name] = host
        self._states.setdefault(host, OrderedDict())[name] = state
        if len(self._hosts) > self._max_states:
            largest = max(self._states.values(), key=len)
            self._pop(next(iter(largest))).release()

    def _pop(self, name: str) -> State:
        host = self._hosts.pop(name)
        state = self._states[host].pop(name)
        if not self._states[host]:
            del self._states[host]
        return state

    async def _verify(self, job: Job) -> Answer:
        if job.expected is None:
            return Answer(job.id, "invalid", self._name, message="math needs an expected_output")
        verdict = await asyncio.to_thread(grade, job.expected, job.code)
        readable = verdict.outcome in ("correct", "wrong")
        return Answer(
            job.id,
            worker=self._name,
            status="ok" if readable else "timeout" if verdict.outcome == "timeout" else "error",
            success=verdict.correct,
            stderr="" if verdict.correct else f"{verdict.reason}: {verdict.gold_form!r}, {verdict.prediction_form!r}",
        )

    def _answer(self, job: Job, result: Result) -> Answer:
        error = result.error
        matches = job.expected is None or result.stdout.strip() == job.expected.strip()
        return Answer(
            job.id,
            worker=self._name,
            status=result.status,
            success=result.ok and matches,
            stdout=result.stdout[: job.shown],  # the rest would only take memory on the way
            stderr=result.stderr[: job.shown],
            truncated=result.truncated or max(len(result.stdout), len(result.stderr)) > job.shown,
            seconds=result.seconds,
            exit_code=result.exit_code,
            signal=result.signal,
            error=None if error is None else (error.kind, error.message, error.line),
            values=result.values,
        )


def _program_result(result: Result) -> Result:
    """The result of a Python program, which succeeds with exit code 0 even if `os._exit` skips the interpreter's end.

    So does a C++ program, and a program of Code Judge. A cell that ends like this ends its session, and fails.
    """
    ended_itself = result.status == "killed" and result.exit_code == 0 and result.signal is None
    return replace(result, status="ok") if ended_itself else result


@asynccontextmanager
async def _held(semaphore: asyncio.Semaphore, seconds: float) -> AsyncIterator[None]:
    """Hold a semaphore inside the block, for at most so many seconds."""
    await semaphore.acquire()
    is_held = True

    def release() -> None:
        nonlocal is_held
        if is_held:
            is_held = False
            semaphore.release()

    timer = asyncio.get_running_loop().call_later(seconds, release)
    try:
        yield
    finally:
        timer.cancel()
        release()
