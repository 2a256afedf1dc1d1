"""Environments: which tools an agent has for a problem, how long it may try, and when it was right.

A user's own environment is a class with the members of `Environment`, named as ``module:Class``. It may subclass
`Mathematics` and change what differs.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from rstar.agent.tools import NOTEBOOK, PYTHON_TOOLS, PythonSession, Session, Tool
from rstar.errors import ConfigError
from rstar.grading import verify
from rstar.problems import Problem
from rstar.sandbox.api import Limits, Sandbox
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

    def reward(self, key: AnswerKey, trajectory: Trajectory) -> float:
        """The reward of a finished trajectory, in [0, 1]. Called after the rollout, by code that holds the key."""
        ...


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
        return PythonSession(sandbox, limits)

    def reward(self, key: AnswerKey, trajectory: Trajectory) -> float:
        """1 for a correct answer, else 0. Nothing is subtracted: a penalty can be gamed, and a filter cannot."""
        return float(trajectory.answer is not None and verify(key, trajectory.answer).correct)


class Puzzles(Mathematics):
    """Trial and error: an attempt is a cell that checks itself, and what comes back tells where it failed."""

    system = (
        "Solve the puzzle by trial and error. Try a solution in the notebook, with assertions that check every move. "
        "If one fails, try another. When a solution holds, give it as <answer>\\boxed{…}</answer>."
    )
    tools: Sequence[Tool] = (NOTEBOOK,)
    max_turns = 8


ENVIRONMENTS: Mapping[str, Callable[[], Environment]] = {
    "mathematics": Mathematics,
    "puzzles": Puzzles,
}
"""The environments that come with rstar."""


def open_environment(name: str) -> Environment:
    """An environment by its name, or a user's own as ``module:Class``; the working directory is searched first.

    Raises:
        ConfigError: no such environment, the import fails, or the class lacks a member.
    """
    if name in ENVIRONMENTS:
        return ENVIRONMENTS[name]()
    module, colon, attribute = name.partition(":")
    if not (module and colon and attribute):
        raise ConfigError(f"environment {name!r}: expected {', '.join(ENVIRONMENTS)}, or module:Class of your own")
    sys.path.insert(0, os.getcwd())
    try:
        environment = getattr(importlib.import_module(module), attribute)()
    except (ImportError, AttributeError, TypeError) as error:
        raise ConfigError(f"environment {name!r}: {error}") from error
    finally:
        sys.path.remove(os.getcwd())
    if not isinstance(environment, Environment):
        members = ("system", "tools", "max_turns", "start", "reward")
        missing = ", ".join(member for member in members if not hasattr(environment, member))
        raise ConfigError(f"environment {name!r}: the class has no {missing}; see rstar.agent.environment.Environment")
    return environment
