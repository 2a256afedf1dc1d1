"""The rollouts of a step: which problems, in which order, and what each rollout earns.

A step takes problems in a fixed order until `groups` of them have rollouts that differ in reward; the others teach
nothing and are dropped. A further problem starts whenever one is dropped, and only then. So the problems of a step are
the same whichever rollouts end first: none is preferred for being short.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass
from typing import Any, TypeVar

from rstar.agent.solver import AgentSolver
from rstar.datasets import ProblemSet
from rstar.errors import SandboxError
from rstar.jsonl import Record
from rstar.problems import Problem
from rstar.rl.advantage import turn_baselines
from rstar.rl.algorithms import Algorithm
from rstar.rl.batches import Weighted
from rstar.rl.resample import downsample, penalty, resample_on_correct
from rstar.search.choose import Votes
from rstar.seeds import derive
from rstar.trajectories import Trajectory
from rstar.trees import Tree

T = TypeVar("T")

ATTEMPTS = 3
"""Attempts at a group whose tools fail: they are made again, and never count as wrong."""


@dataclass(frozen=True, slots=True)
class Group:
    """The rollouts of a problem in a step, and their rewards.

    Attributes:
        problem: its id.
        version: version of the weights that made them.
        tree: the rollouts.
        rewards: of each end of the tree, in order.
        draw: its place in the order of all draws of the stage; a small set of problems is drawn more than once in a
            step.
    """

    problem: str
    version: int
    tree: Tree
    rewards: tuple[float, ...]
    draw: int = 0

    @property
    def ends(self) -> list[tuple[Trajectory, float]]:
        """Each end of the tree with its reward; the trajectory's votes are how many rollouts it stands for."""
        trajectories = (trajectory for _, trajectory in self.tree.ends(unanswered=True))
        return list(zip(trajectories, self.rewards, strict=True))

    @property
    def rollouts(self) -> list[tuple[Trajectory, float]]:
        """Each rollout with its reward."""
        return [(trajectory, reward) for trajectory, reward in self.ends for _ in range(trajectory.votes)]

    @property
    def in_time(self) -> list[tuple[Trajectory, float]]:
        """The rollouts that can be learnt from: what ended at its deadline says how busy the machine was."""
        return [(trajectory, reward) for trajectory, reward in self.rollouts if trajectory.finish_reason != "deadline"]

    @property
    def mixed(self) -> bool:
        """Whether the rewards differ, so that there is something to learn."""
        return len({reward for _, reward in self.in_time}) > 1

    def to_json(self, step: int) -> Record:
        """A line of ``rollouts.jsonl``."""
        own: Record = {"id": f"{step}/{self.draw}", "step": step, "draw": self.draw}
        own |= {"problem": self.problem, "version": self.version}
        return own | {"rewards": list(self.rewards)} | self.tree.to_json(tokens=True)

    @classmethod
    def from_json(cls, line: Mapping[str, Any]) -> Group:
        """Inverse of `to_json`. Raises `LookupError`, `TypeError` or `ValueError` for a malformed line."""
        return cls(line["problem"], line["version"], Tree.from_json(line), tuple(line["rewards"]), line["draw"])


def order(ids: Sequence[str], seed: int, first: int) -> Iterator[tuple[int, str]]:
    """Places and problems from place `first` of an endless order: every pass over the problems is shuffled anew."""
    place = first
    while True:
        epoch, at = divmod(place, len(ids))
        shuffled = random.Random(derive(seed, "order", epoch)).sample(list(ids), len(ids))
        for name in shuffled[at:]:
            yield place, name
            place += 1


async def collect(
    names: Iterator[T],
    most: int,
    wanted: int | None,
    make: Callable[[T], Coroutine[Any, Any, Group]],
    on_group: Callable[[Group], None] = lambda group: None,
    at_once: float = math.inf,
) -> list[Group]:
    """Make groups until `wanted` are mixed, or `most` have been made; dropped ones are returned, too.

    Args:
        names: the order of problems, and of the groups returned.
        most: maximum number of groups.
        wanted: number of mixed groups; None: `most` groups of any kind.
        make: makes the group of a problem.
        on_group: called with each group as it ends.
        at_once: maximum number of groups under way.
    """
    tasks: list[asyncio.Task[Group]] = []
    running: set[asyncio.Task[Group]] = set()
    good = 0
    try:
        while True:
            while (wanted is None or good + len(running) < wanted) and len(tasks) < most and len(running) < at_once:
                tasks.append(asyncio.create_task(make(next(names))))
                running.add(tasks[-1])
            if not running:
                return [task.result() for task in tasks]
            done, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                if task.exception() is None:
                    good += task.result().mixed
                    on_group(task.result())
            for task in done:  # those that failed, once the others are stored
                task.result()
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


class Maker:
    """Makes and rewards the groups of problems.

    Args:
        solver: open.
        problems: with their gold answers; without, if `majority`.
        rollouts: per problem.
        seed: of the run.
        majority: reward agreement with most rollouts instead of a correct answer (TTRL, arXiv 2504.16084).
    """

    def __init__(
        self, solver: AgentSolver, problems: ProblemSet, rollouts: int, seed: int, *, majority: bool = False
    ) -> None:
        self.solver, self._keys, self._rollouts, self._seed = solver, problems.keys, rollouts, seed
        self._problems: dict[str, Problem] = {problem.id: problem for problem in problems.problems}
        self._majority = majority
        self._limits: Mapping[str, int] = {}

    def with_rollouts(self, rollouts: int) -> Maker:
        """The same with another number of rollouts per problem."""
        other = copy(self)
        other._rollouts = rollouts
        return other

    def with_limits(self, limits: Mapping[str, int]) -> Maker:
        """The same with other limits of a rollout, by their settings' names; those left out are the solver's."""
        other = copy(self)
        other._limits = limits
        return other

    @property
    def at_once(self) -> int:
        """Number of groups that may be under way at once; see `AgentSolver.at_once`."""
        return self.solver.at_once(self._rollouts)

    async def make(self, step: int | str, name: str, draw: int = 0) -> Group:
        """The group of a problem in a step; each draw has its own random stream.

        Raises:
            EngineError: the model failed.
            SandboxError: the tools failed `ATTEMPTS` times.
        """
        problem, seed = self._problems[name], derive(self._seed, "rollouts", step, draw, name)
        for _ in range(ATTEMPTS - 1):
            with suppress(SandboxError):
                return await self._make(problem, seed, draw)
        return await self._make(problem, seed, draw)

    async def _make(self, problem: Problem, seed: int, draw: int) -> Group:
        version = self.solver.version
        group = self.solver.group(problem, seed, limits=self._limits)
        tree = await group.run(self._rollouts)
        ends = [trajectory for _, trajectory in tree.ends(unanswered=True)]
        if self._majority:
            rewards = await majority_rewards(ends, self.solver.equivalent)
        else:
            rewards = await self.solver.rewards(self._keys[problem.id], ends)
        return Group(problem.id, version, tree, tuple(rewards), draw)


async def majority_rewards(ends: Sequence[Trajectory], equivalent: Callable[[str, str], bool]) -> list[float]:
    """1 for the answer of most rollouts (the earliest, if several have as many), else 0."""
    votes = Votes(equivalent)
    answered = [trajectory for trajectory in ends if trajectory.answer is not None]
    await votes.count((one.answer or "", one.votes, float(one.votes)) for one in answered)
    leader = votes.leader()
    return [float(one.answer is not None and await votes.group(one.answer) is leader) for one in ends]


def select(
    group: Group, algorithm: Algorithm, keep: int, seed: int, *, tagged: bool = True, by_turn: bool = False
) -> list[Weighted]:
    """The rollouts of a group to train on, with their advantages among those kept; equal ones are one.

    Rollouts that ran out of time are left out. Empty if those kept have equal rewards: the group is not mixed, or has
    rewards of several sizes on one side of 0. `tagged` is as in `rstar.rl.resample.penalty`. If `by_turn`, each
    turn has its baseline, and advantages are among all rollouts, because few of those kept reach late turns.
    """
    rollouts, rng = group.in_time, random.Random(seed)
    rewards = [reward for _, reward in rollouts]
    if algorithm.resamples:
        penalties = [penalty(trajectory, tagged=tagged) for trajectory, _ in rollouts]
        kept = resample_on_correct(rewards, penalties, keep, rng)
    else:
        kept = downsample(rewards, keep, rng)
    if len({rewards[i] for i in kept}) < 2:
        return []
    among = range(len(rollouts)) if by_turn else kept
    advantages = dict(zip(among, algorithm.advantage([rewards[i] for i in among]), strict=True))
    turns = [sum(part.author == "policy" for part in trajectory.segments) for trajectory, _ in rollouts]
    baselines = turn_baselines([*advantages.values()], turns) if by_turn else []
    found: dict[int, Weighted] = {}
    for i in kept:
        trajectory = rollouts[i][0]
        count = found[id(trajectory)].count if id(trajectory) in found else 0
        found[id(trajectory)] = Weighted(trajectory, count + 1, advantages[i], tuple(baselines[: turns[i]]))
    return list(found.values())
