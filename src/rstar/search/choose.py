"""Which answer is given, from the trajectories that reached one.

Answers are grouped by an equivalence test (`1/2` and `0.5` are one answer), never by string. Nothing here knows the
gold answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rstar.config import Choice
from rstar.trajectories import Trajectory, answered

Equivalence = Callable[[str, str], bool]


@dataclass(slots=True)
class Group:
    """Equivalent answers: the first form seen, and how many samples gave it."""

    answer: str
    votes: int = 0


class Votes:
    """The answers so far of one problem, grouped by equivalence as they come."""

    def __init__(self, equivalent: Equivalence) -> None:
        self._equivalent = equivalent
        self._of: dict[str, Group] = {}  # every form seen → its group
        self._comparing = asyncio.Lock()  # two equivalent answers at once must not found two groups
        self.groups: list[Group] = []

    @property
    def total(self) -> int:
        """Number of votes over all groups."""
        return sum(group.votes for group in self.groups)

    async def group(self, answer: str) -> Group:
        """The group of `answer`, a new one when it is equivalent to none. Slow comparisons run off the event loop."""
        async with self._comparing:
            if (known := self._of.get(answer)) is not None:
                return known
            for group in self.groups:
                if await asyncio.to_thread(self._equivalent, group.answer, answer):
                    break
            else:
                group = Group(answer)
                self.groups.append(group)
            self._of[answer] = group
            return group

    async def add(self, answer: str, votes: int = 1) -> Group:
        """Count `votes` more samples for `answer`."""
        group = await self.group(answer)
        group.votes += votes
        return group

    async def share(self, answer: str) -> float:
        """Share of all votes that went to answers equivalent to `answer`, in [0, 1]."""
        return (await self.group(answer)).votes / max(self.total, 1)

    def leader(self) -> Group | None:
        """The group of most votes (the earliest among equals), None before the first vote."""
        return max(self.groups, key=lambda group: group.votes, default=None)

    def settled(self, share: float, votes: int) -> bool:
        """Whether the leading answer has at least `votes` votes and this share of them all."""
        leader = self.leader()
        return leader is not None and leader.votes >= votes and leader.votes >= share * self.total


async def choose(
    trajectories: Sequence[Trajectory], how: Choice, equivalent: Equivalence, top_k: int | None = None
) -> Trajectory | None:
    """The trajectory whose answer is given, or None when none reached an answer.

    Args:
        trajectories: all of a problem, in any stable order; those without an answer are ignored. Values in [-1, 1],
            None counts as 0.
        how: ``best`` the highest value; ``majority`` the answer of most votes; ``weighted`` the answer of most votes
            times (1 + value) / 2. Within an answer the trajectory of highest value stands for it; earlier ones win
            ties.
        equivalent: whether two answers are the same.
        top_k: look only at the K trajectories of highest value.
    """
    candidates = sorted(answered(trajectories), key=lambda t: -(t.value or 0.0))[:top_k]
    if not candidates or how == "best":
        return candidates[0] if candidates else None
    votes = Votes(equivalent)
    weights: dict[int, float] = {}
    for trajectory in candidates:
        group = await votes.add(trajectory.answer or "", trajectory.votes)
        weight = trajectory.votes * (1.0 if how == "majority" else (1 + (trajectory.value or 0.0)) / 2)
        weights[id(group)] = weights.get(id(group), 0.0) + weight
    winner = max(votes.groups, key=lambda group: weights[id(group)])
    for trajectory in candidates:
        if await votes.group(trajectory.answer or "") is winner:
            return trajectory
    return None
