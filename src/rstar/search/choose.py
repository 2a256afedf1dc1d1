"""Choice of the final answer among the trajectories that reached one.

Answers are grouped by an equivalence test (`1/2` and `0.5` are one answer), never by string. Nothing here knows the
gold answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from rstar.config import AgentConfig, AnySearch, Choice, MutualConfig
from rstar.trajectories import Trajectory, answered

Equivalence = Callable[[str, str], bool]

TREE_METHODS = ("beam", "mcts")
"""The methods that merge equal samples into a tree. The others draw independent samples."""

COVERED = 0.05
"""Minimum total probability of the solutions found for which their probabilities are their masses."""


@dataclass(slots=True)
class Group:
    """Equivalent answers: the first form seen, the number of samples, and their mass (see `Trajectory`)."""

    answer: str
    votes: int = 0
    mass: float = 0.0


class Votes:
    """The answers to one problem so far, grouped by equivalence.

    An answer's share is its share of the mass (see `masses`). In a tree, the number of samples is biased: search
    returns to some places more often than to others, which would inflate the votes for what it finds there.
    """

    def __init__(self, equivalent: Equivalence) -> None:
        self._equivalent = equivalent
        self._of: dict[str, Group] = {}  # every form seen → its group
        self._comparing = asyncio.Lock()  # concurrent equivalent answers must not create two groups
        self.groups: list[Group] = []

    @property
    def total(self) -> float:
        """Mass of all groups."""
        return sum(group.mass for group in self.groups)

    async def group(self, answer: str) -> Group:
        """The group of `answer`, a new one if it is equivalent to none. Slow comparisons run off the event loop."""
        async with self._comparing:
            if (known := self._of.get(answer)) is not None:
                return known
            group = await asyncio.to_thread(self._find, answer) if self.groups else None
            if group is None:
                group = Group(answer)
                self.groups.append(group)
            self._of[answer] = group
            return group

    def _find(self, answer: str) -> Group | None:
        return next((group for group in self.groups if self._equivalent(group.answer, answer)), None)

    async def count(self, solutions: Iterable[tuple[str, int, float]]) -> None:
        """Recount from the answer, votes and mass of every solution so far."""
        grouped = [(await self.group(answer), votes, mass) for answer, votes, mass in solutions]
        for group in self.groups:
            group.votes, group.mass = 0, 0.0
        for group, votes, mass in grouped:
            group.votes += votes
            group.mass += mass

    async def share(self, answer: str) -> float:
        """Share of the mass of answers equivalent to `answer`, in [0, 1]."""
        return (await self.group(answer)).mass / (self.total or 1.0)

    def leader(self) -> Group | None:
        """The group of largest mass (the earliest on ties); None before the first answer."""
        return max(self.groups, key=lambda group: group.mass, default=None)

    def settled(self, share: float, votes: int) -> bool:
        """Whether the leading answer has at least `votes` votes and at least `share` of the mass."""
        leader = self.leader()
        return leader is not None and leader.votes >= votes and leader.mass >= share * self.total


def masses(found: Sequence[tuple[float | None, float]]) -> list[float]:
    """Estimated probabilities that the policy ends with each of the distinct solutions that a tree search found.

    Log-probabilities give them exactly. But long solutions are improbable: those found then have little probability
    together, and the most probable one has nearly all of it. In this case the shares of samples are used.

    Args:
        found: per solution, its probability in [0, 1] if known, and its share of the samples in [0, 1].

    Returns:
        One mass per solution: the probabilities if all are known and sum to at least `COVERED`, else the shares.
    """
    exact = [probability for probability, _ in found if probability is not None]
    if len(exact) == len(found) and sum(exact) >= COVERED:
        return exact
    return [share for _, share in found]


def decided(found: Iterable[tuple[Group, float, float]], unseen: float) -> bool:
    """Whether no further solution can change the answer.

    Args:
        found: per distinct solution, its group, its probability, and the factor in [0, 1] by which it is weighted.
        unseen: probability of everything that was not sampled yet, which could all be one solution with factor 1.
    """
    sums: dict[int, float] = {}
    for group, probability, factor in found:
        sums[id(group)] = sums.get(id(group), 0.0) + probability * factor
    first, *others = sorted(sums.values(), reverse=True) or [0.0]
    return first > max(others, default=0.0) + unseen


async def choose_as_set(
    trajectories: Sequence[Trajectory],
    config: AnySearch | MutualConfig | AgentConfig,
    value: str,
    equivalent: Equivalence,
) -> Trajectory | None:
    """`choose` with the search settings, or the method's default; `value` is the name of the search's value."""
    if isinstance(config, MutualConfig | AgentConfig):
        return await choose(trajectories, "majority", equivalent)
    if config.method == "greedy":
        return await choose(trajectories, "best", equivalent)
    how: Choice = "best"
    if config.method == "sample":
        how = "majority"
    elif config.method in TREE_METHODS and value == "ppm":  # the other values weigh by mass themselves
        how = "weighted"
    return await choose(trajectories, config.choose or how, equivalent, config.top_k)


async def choose(
    trajectories: Sequence[Trajectory], how: Choice, equivalent: Equivalence, top_k: int | None = None
) -> Trajectory | None:
    """The trajectory whose answer is returned; None if none reached an answer.

    Args:
        trajectories: all of a problem, in any stable order; those without an answer are ignored. Values are in [-1, 1];
            None counts as 0.
        how: ``best``: the highest value; ``majority``: the answer of largest mass; ``weighted``: the answer of largest
            mass times (1 + value) / 2. The trajectory of highest value represents an answer; ties go to the earlier
            one.
        equivalent: whether two answers are the same.
        top_k: consider only the K trajectories of highest value.
    """
    candidates = sorted(answered(trajectories), key=lambda t: -(t.value or 0.0))[:top_k]
    if not candidates or how == "best":
        return candidates[0] if candidates else None
    votes = Votes(equivalent)
    groups = [await votes.group(trajectory.answer or "") for trajectory in candidates]
    factors = [1.0 if how == "majority" else (1 + (trajectory.value or 0.0)) / 2 for trajectory in candidates]
    weights = [trajectory.mass * factor for trajectory, factor in zip(candidates, factors, strict=True)]
    return candidates[weighted_vote(groups, weights)]


def weighted_vote(groups: Sequence[Group], weights: Sequence[float]) -> int:
    """Index of the first solution in the group with the largest sum of weights; the earliest group wins ties.

    Args:
        groups: of each solution, not empty.
        weights: of each solution's vote.
    """
    sums: dict[int, float] = {}
    for group, weight in zip(groups, weights, strict=True):
        sums[id(group)] = sums.get(id(group), 0.0) + weight
    return list(map(id, groups)).index(max(sums, key=sums.__getitem__))
