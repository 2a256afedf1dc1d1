"""Solves problems with an agent: rollouts that call tools, and a vote among their answers.

Training, evaluation and the command line make rollouts by the same `Group`.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING

from rstar.agent.chat_template import ChatTemplate
from rstar.agent.environment import Environment, Mathematics, open_environment
from rstar.agent.rollout import Group
from rstar.agent.tools import Tool
from rstar.agent.turns import ChatTurns, CodeTurns, Turns
from rstar.config import AgentConfig, Config, MutualConfig
from rstar.errors import ConfigError, RstarError
from rstar.grading import is_equivalent
from rstar.lifecycle import gather_or_cancel
from rstar.models.engine import Context, Engine, Weights
from rstar.models.spec import local_folder
from rstar.problems import Problem
from rstar.sandbox.api import Sandbox
from rstar.search.choose import Equivalence, Votes, choose_as_set
from rstar.search.mutual import MutualSolver
from rstar.search.notices import Notice, agent_notices
from rstar.search.solver import Solution, Solver
from rstar.seeds import derive
from rstar.specs import AGENTS, Fake, Server
from rstar.trajectories import Step, Trajectory
from rstar.trees import Tree

if TYPE_CHECKING:
    from rstar.answers import AnswerKey

_PER_SAMPLE = 2
"""Rollouts at once for each sample that the engine generates at once: the others wait for their tools."""


class AgentSolver(Solver):
    """A `Solver` whose method is ``agent``.

    Args:
        config: its `search` is an `AgentConfig`.
        policy, sandbox: see `Solver`.
        environment: tools and limits, instead of `config.search.environment`.
        equivalent: whether two answers are the same; used to group answers.

    Raises:
        ConfigError: a model, its chat template or the environment is missing.
    """

    def __init__(
        self,
        config: Config,
        *,
        policy: Engine | None = None,
        sandbox: Sandbox | None = None,
        environment: Environment | None = None,
        equivalent: Equivalence = is_equivalent,
    ) -> None:
        super().__init__(config, policy=policy, sandbox=sandbox, equivalent=equivalent)
        if not isinstance(config.search, AgentConfig):
            raise ConfigError(f"search.method {config.search.method!r}: AgentSolver needs 'agent'")
        self.settings = config.search
        self.environment = environment or open_environment(environment_name(config))
        self.turns = open_turns(config, self.environment.tools)

    @property
    def compares_answers(self) -> bool:
        """Whether the reward is the comparison of the answer with the gold answer, and nothing else."""
        return type(self.environment).reward is Mathematics.reward

    @property
    def version(self) -> int:
        """Version of the policy's weights."""
        return self._parts[0].version

    def at_once(self, rollouts: int) -> int:
        """Number of groups of `rollouts` that may be under way at once; the solver must be open.

        With many more, their contexts would push each other out of the engine's cache, and be computed anew every turn.
        """
        return max(1, _PER_SAMPLE * self._parts[0].capacity().samples // rollouts)

    @property
    def _concurrency(self) -> int:
        if self.settings.concurrency is not None:
            return self.settings.concurrency
        return min(super()._concurrency, self.at_once(self.settings.samples))

    def in_environment(self, name: str) -> AgentSolver:
        """The same open solver in another environment. Raises `ConfigError` as `open_environment` does."""
        other = copy(self)
        other.environment = open_environment(name)
        other.turns = open_turns(self.config, other.environment.tools)
        return other

    async def load(self, weights: Weights, version: int) -> None:
        """Give the policy new weights; see `rstar.models.engine.Engine.load`."""
        await self._parts[0].load(weights, version)

    def group(
        self,
        problem: Problem,
        seed: int,
        after: Context | None = None,
        on_turn: Callable[[Step], None] = lambda step: None,
        limits: Mapping[str, int] | None = None,
    ) -> Group:
        """The rollouts of a problem, to be made; see `Group`. The solver must be open (``async with solver:``).

        `limits` take the place of the settings of these names.
        """
        policy, sandbox = self._parts
        parts, settings = (policy, self.environment, self.turns, sandbox), self.settings
        if limits:
            settings = settings.model_copy(update=limits)
        return Group(problem, *parts, settings, self._limits(), seed, after, on_turn)

    async def rewards(self, key: AnswerKey, trajectories: Sequence[Trajectory]) -> list[float]:
        """The environment's rewards of finished trajectories.

        Raises:
            ConfigError: the environment failed, or returned something else than a number in [-1, 1].
            SandboxError: the sandbox failed.
        """
        sandbox, limits = self._parts[1], self._limits()

        async def reward(trajectory: Trajectory) -> float:
            where = f"{type(self.environment).__name__}.reward"
            try:
                value = await self.environment.reward(key, trajectory, sandbox, limits)
            except RstarError:
                raise
            except Exception as error:  # of a user's own code
                raise ConfigError(f"{where} failed: {type(error).__name__}: {error}") from error
            if not isinstance(value, int | float) or not -1 <= value <= 1:
                raise ConfigError(f"{where} returned {value!r}: expected a number in [-1, 1]")
            return value

        return await gather_or_cancel(map(reward, trajectories))

    def notices(self, question: str, *, out_of_time: bool) -> tuple[Notice, ...]:
        """Warnings about an answer; see `rstar.search.notices`."""
        return agent_notices(self.config, self._given[0] is not None, question, out_of_time)

    async def solve_one(self, problem: Problem) -> Solution:
        """Make `search.samples` rollouts and choose the answer of most of them."""
        started, config = time.perf_counter(), self.settings
        group = self.group(problem, derive(self.config.seed, problem.id, config.method))
        tree = await group.run(config.samples)
        votes = Votes(self.equivalent)
        trajectories = [trajectory for _, trajectory in tree.ends()]
        await votes.count((one.answer or "", one.votes, one.mass) for one in trajectories)
        for node, trajectory in tree.ends():
            node.value = await votes.share(trajectory.answer or "")
        trajectories = [trajectory for _, trajectory in tree.ends()]
        chosen = await choose_as_set(trajectories, config, "agreement", self.equivalent)
        failures = Counter[str]()
        for node in tree.nodes:
            if node.finish_reason is not None and node.answer is None:
                failures[node.finish_reason] += node.votes
        usage = group.usage
        return Solution(
            problem=problem,
            answer=chosen.answer if chosen else None,
            value=chosen.value if chosen else None,
            method=config.method,
            rollouts=config.samples,
            expansions=len(tree.nodes) - 1,
            steps=usage.calls,
            tokens_in=usage.tokens_in,
            tokens_out=usage.tokens_out,
            seconds=time.perf_counter() - started,
            trajectories=tuple(trajectories),
            failures=dict(sorted(failures.items())),
            notices=self.notices(problem.question, out_of_time=failures["deadline"] > 0),
            tree=tree if config.keep_trees else None,
            agent=rollout_counts(tree),
        )


def environment_name(config: Config) -> str:
    """The environment of a run with an agent: ``auto`` is resolved, any other name stays."""
    assert isinstance(config.search, AgentConfig)
    if config.search.environment != "auto":
        return config.search.environment
    return "puzzles" if config.policy in AGENTS else "mathematics"


def rollout_counts(tree: Tree) -> dict[str, int]:
    """How the rollouts of a group went.

    Returns:
        ``turns`` of all rollouts; ``with_error``: rollouts with a failed call; ``checked``: rollouts that answered
        after a call that succeeded.
    """
    counts = dict.fromkeys(("turns", "with_error", "checked"), 0)
    for _, one in tree.ends(unanswered=True):
        called = [step for step in one.steps if step.calls]
        counts["turns"] += one.votes * len(one.steps)
        counts["with_error"] += one.votes * any(not step.ran for step in called)
        counts["checked"] += one.votes * bool(one.answer is not None and called and called[-1].ran)
    return counts


def open_solver(config: Config) -> Solver:
    """The solver of the configured method."""
    if isinstance(config.search, MutualConfig):
        return MutualSolver(config)
    return AgentSolver(config) if isinstance(config.search, AgentConfig) else Solver(config)


def open_turns(config: Config, tools: Sequence[Tool]) -> Turns:
    """How the turns of the configured model are written, if it has these `tools`.

    Raises:
        ConfigError: the model has no chat template and needs one.
    """
    assert isinstance(config.search, AgentConfig)
    model, turns = config.policy, config.search.turns
    if turns == "code" or isinstance(model, Fake):
        return CodeTurns(tools)
    if isinstance(model, Server):
        if model.tokenizer is None:
            raise ConfigError(f"{model}: an agent needs the model's chat template; append ?tokenizer=FOLDER")
        folder = Path(model.tokenizer).expanduser()
    else:
        folder = local_folder(model)
    template = ChatTemplate.of_folder(folder)
    if template is not None:
        return ChatTurns(template)
    if turns == "chat" or isinstance(model, Server):
        raise ConfigError(f"{folder}: the model has no chat template (chat_template.jinja)")
    return CodeTurns(tools)
