"""What `rstar.models.scheduler` knows of each rollout, group and replica."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field
from enum import Enum

PROBES = 2
"""Rollouts of each group that start before longer groups come first."""


class Phase(Enum):
    """What a rollout is doing."""

    WAITING = "waiting"
    RUNNING = "running"
    AT_TOOL = "at a tool"


@dataclass(slots=True)
class Group:
    """Rollouts of one problem, whose lengths are similar.

    Attributes:
        waiting: numbers of those that have not begun.
        members: number of all that have not ended.
        begun: number of all that have begun.
        added: tokens that these have added, or are expected to.
    """

    waiting: deque[int] = field(default_factory=deque)
    members: int = 0
    begun: int = 0
    added: float = 0.0

    def expected(self, mean: float) -> float:
        """Tokens that a further rollout adds, if rollouts add `mean` on average; infinite while probes are missing."""
        return math.inf if self.begun < PROBES else (self.added + mean) / (self.begun + 1)


@dataclass(slots=True)
class Rollout:
    """A rollout that has not ended.

    Attributes:
        prompt: tokens of its prompt.
        group: number of its group.
        of_group: the group.
        tokens: all of its tokens.
        samples: of its next turn, or of the one that is running.
        turn: number of the turn.
        added: tokens per sample that the last turn has added.
        forked: whether it has split.
        phase: what it is doing.
        replica: index of the one that has its KV; None: none has.
        held: tokens that it counts for there.
        reserved: the same, with expected growth.
        counted: tokens that it counts for in its group; 0 before its first turn.
    """

    prompt: int
    group: int
    of_group: Group
    tokens: int
    samples: int
    turn: int = 0
    added: float = 0.0
    forked: bool = False
    phase: Phase = Phase.WAITING
    replica: int | None = None
    held: float = 0.0
    reserved: float = 0.0
    counted: float = 0.0


@dataclass(slots=True)
class Replica:
    """A replica of the model, and the ledger of its KV.

    Attributes:
        capacity: KV tokens; None where unknown.
        window: number of samples at a time, where the capacity is unknown.
        available: whether turns may start on it.
        held: tokens of its rollouts; those that running turns are adding included.
        reserved: the same, with expected growth.
        running: number of running turns.
        samples: of running turns.
        resident: numbers of the rollouts whose KV it has.
        ready: numbers of those among them that wait for their next turn.
    """

    capacity: int | None
    window: float
    available: bool = True
    held: float = 0.0
    reserved: float = 0.0
    running: int = 0
    samples: int = 0
    resident: dict[int, None] = field(default_factory=dict)
    ready: deque[int] = field(default_factory=deque)

    @property
    def load(self) -> float:
        """Samples under way where the capacity is unknown; else tokens."""
        return self.samples if self.capacity is None else self.held

    def enter(self, number: int, rollout: Rollout) -> None:
        """Add a rollout to the ledger."""
        self.held += rollout.held
        self.reserved += rollout.reserved
        self.resident[number] = None

    def remove(self, number: int, rollout: Rollout) -> None:
        """Remove a rollout from the ledger."""
        self.held -= rollout.held
        self.reserved -= rollout.reserved
        del self.resident[number]
        if not self.resident:  # no rounding is left over
            self.held = self.reserved = 0.0
