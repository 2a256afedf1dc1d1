"""Environments: which tools an agent has for a problem, how long it may try, and when it was right.

A user's own environment is a class with the members of `Environment`, named as ``module:Class``. It may subclass
`Mathematics` and change what differs.
"""

from __future__ import annotations

import asyncio
import importlib
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from rstar.agent.programs import last_block, passes
from rstar.agent.tools import PYTHON_TOOLS, STANDARD_IO, PythonSession, Session, Tool
from rstar.agent.trial import TrialNotebook
from rstar.agent.verifiers import PREFIX, TasksetEnvironment
from rstar.agent.workup import ASK, ORDER, WORKUP_TOOLS, Record, WorkupSession, made, plain_name
from rstar.errors import ConfigError
from rstar.grading import verify
from rstar.grading.checks import test_cases, workup_needs
from rstar.grading.find.boxes import boxed
from rstar.judge.client import JudgeSandbox
from rstar.problems import Problem
from rstar.sandbox.api import Limits, Sandbox
from rstar.tiny.workup import stage_rewards
from rstar.trajectories import Trajectory

if TYPE_CHECKING:
    from rstar.answers import AnswerKey


@runtime_checkable
class Environment(Protocol):
    """What an agent works in."""

    system: str
    """System message for chat models."""

    tools: Sequence[Tool]
    """The tools that the model is told about."""

    max_turns: int
    """Maximum number of turns, the answer's included, unless `search.max_turns` says otherwise."""

    def start(self, problem: Problem, sandbox: Sandbox, limits: Limits) -> Session:
        """The tools at the beginning of a rollout."""
        ...

    def answer(self, text: str) -> str | None:
        """The final answer in the text of a turn without calls; None if there is none."""
        ...

    async def reward(self, key: AnswerKey, trajectory: Trajectory, sandbox: Sandbox, limits: Limits) -> float:
        """The reward of a finished trajectory, in [-1, 1]; above 0 counts as correct.

        An environment that also rewards the stages on the way gives at most 0 to a wrong final answer, so that the sign
        of a reward says whether the answer is right, and its size how well the trajectory went.

        Called after the rollout, by code that holds the key. Raises `SandboxError` if the sandbox fails: the rollouts
        then count as never made.
        """
        ...


GIVEN_UP = "unknown"
"""Answer of a rollout that gives up."""


class Mathematics:
    """Problems with one final answer, and Python to work them out (arXiv 2508.20722, section 2)."""

    system = (
        "Solve the problem step by step. You can call tools to compute or to check, and you see what they return. "
        "Check a result before you give it. Write your reasoning between <reason> and </reason>, and the final answer "
        "as <answer>\\boxed{…}</answer>."
    )
    tools: Sequence[Tool] = PYTHON_TOOLS
    max_turns = 10

    def start(self, problem: Problem, sandbox: Sandbox, limits: Limits) -> Session:
        """See `Environment.start`."""
        names = {tool.name for tool in self.tools}
        return PythonSession(sandbox, limits, [tool for tool in PYTHON_TOOLS if tool.name in names])

    def answer(self, text: str) -> str | None:
        """The content of the last box."""
        return boxed(text)

    async def reward(self, key: AnswerKey, trajectory: Trajectory, sandbox: Sandbox, limits: Limits) -> float:
        """1 for a correct answer, else 0. Nothing is subtracted: a penalty can be gamed, and a filter cannot.

        If the tools run in a judge service, the service also compares the answers, so that no trainer waits for it.
        """
        if trajectory.answer is None:
            return 0.0
        if isinstance(sandbox, JudgeSandbox) and key.check is None:
            return float(await sandbox.verify(key.answer, trajectory.answer))
        return float((await asyncio.to_thread(verify, key, trajectory.answer)).correct)


class Puzzles(Mathematics):
    """Trial and error: an attempt is a cell that checks itself, and what comes back tells where it failed.

    A cell that fails changes nothing, so the next one can go on from the moves that held. Moves that led nowhere can be
    taken back.
    """

    system = (
        "Solve the puzzle by trial and error. Try moves in the notebook, with assertions that check every move. A cell "
        "that fails changes nothing: then try other moves, or take back the last ones. When a solution holds, give it "
        "as <answer>\\boxed{…}</answer>."
    )
    tools: Sequence[Tool] = TrialNotebook.tools
    max_turns = 48

    def start(self, problem: Problem, sandbox: Sandbox, limits: Limits) -> Session:
        """See `Environment.start`."""
        return TrialNotebook(sandbox, limits)


class Programs(Mathematics):
    """Programs from standard input to standard output (arXiv 2508.20722, section 2); the answer is a program.

    The gold answer is a check of kind ``programs``: the program must pass every test case (`rstar.agent.programs`).
    """

    system = (
        "Write a Python program that solves the problem: it reads standard input and writes standard output. Run it "
        "with the tool to test it on examples. Give the final program as a ```python block, without a further call."
    )
    tools: Sequence[Tool] = (STANDARD_IO,)

    def answer(self, text: str) -> str | None:
        """The code of the last fenced block."""
        return last_block(text)

    async def reward(self, key: AnswerKey, trajectory: Trajectory, sandbox: Sandbox, limits: Limits) -> float:
        """1 for a program that passes every test case, else 0."""
        if trajectory.answer is None:
            return 0.0
        return float(await passes(trajectory.answer, test_cases(key.check), sandbox, limits))


class Workup(Mathematics):
    """Staged cases with recorded findings: history, tests, diagnosis. Every stage is rewarded (`rstar.tiny.workup`)."""

    system = (
        "Find the cause of the patient's complaint. First ask about the history, then order tests, and choose each by "
        "what you know so far. Ask and order only what is needed. Give the name of the condition as "
        "<answer>\\boxed{…}</answer>."
    )
    tools: Sequence[Tool] = WORKUP_TOOLS
    max_turns = 12

    def start(self, problem: Problem, sandbox: Sandbox, limits: Limits) -> Session:
        """See `Environment.start`. Raises `DataError` if the problem has no record."""
        return WorkupSession(Record.of(problem))

    async def reward(self, key: AnswerKey, trajectory: Trajectory, sandbox: Sandbox, limits: Limits) -> float:
        """The total of the stages' rewards, in [-0.5, 1]; see `rstar.tiny.workup.StageRewards`."""
        right = await super().reward(key, trajectory, sandbox, limits) > 0
        topics, tests = ([plain_name(name) for name in names] for names in workup_needs(key.check))
        return stage_rewards(topics, tests, made(trajectory, ASK), made(trajectory, ORDER), right=right).total


ENVIRONMENTS: Mapping[str, Callable[[], Environment]] = {
    "mathematics": Mathematics,
    "puzzles": Puzzles,
    "programs": Programs,
    "workup": Workup,
}
"""The environments that come with rstar."""


def open_environment(name: str) -> Environment:
    """An environment by its name.

    Args:
        name: one of `ENVIRONMENTS`; ``verifiers:NAME``, see `rstar.agent.verifiers`; or a user's own as
            ``module:Class``, for which the working directory is searched first.

    Raises:
        ConfigError: no such environment, the import fails, or the class lacks a member.
    """
    if name in ENVIRONMENTS:
        return ENVIRONMENTS[name]()
    if name.startswith(PREFIX):
        return TasksetEnvironment(name.removeprefix(PREFIX))
    module, colon, attribute = name.partition(":")
    if not (module and colon and attribute):
        known = ", ".join(ENVIRONMENTS)
        raise ConfigError(f"environment {name!r}: expected {known}, {PREFIX}NAME, or module:Class of your own")
    sys.path.insert(0, os.getcwd())
    try:
        environment = getattr(importlib.import_module(module), attribute)()
    except ModuleNotFoundError as error:
        raise ConfigError(f"environment {name!r}: {error}; looked for in {os.getcwd()}, then as installed") from error
    except ImportError as error:
        raise ConfigError(f"environment {name!r}: {error}") from error
    except Exception as error:  # of the user's own code, so anything
        raise ConfigError(f"environment {name!r}: {type(error).__name__}: {error}") from error
    finally:
        sys.path.remove(os.getcwd())
    if not isinstance(environment, Environment):
        members = ("system", "tools", "max_turns", "start", "answer", "reward")
        missing = ", ".join(member for member in members if not hasattr(environment, member))
        raise ConfigError(f"environment {name!r}: the class has no {missing}; see rstar.agent.environment.Environment")
    return environment
