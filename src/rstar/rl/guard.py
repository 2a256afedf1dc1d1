"""Notices when the reward collapses."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from statistics import fmean

_WINDOW = 10
"""Steps over which the reward is averaged."""


class Guard:
    """Compares the mean reward over ten steps with the best such mean of the same stage.

    A new stage may have harder problems, so its rewards are compared with each other alone.

    Args:
        share: the reward has collapsed if the mean is below this share of the best one.
        starts: first step of each stage.

    Attributes:
        collapsed: whether the reward has collapsed at some step so far.
    """

    def __init__(self, share: float, starts: Collection[int]) -> None:
        self._share, self._starts = share, starts
        self._rewards: deque[float] = deque(maxlen=_WINDOW)
        self._best = 0.0
        self.collapsed = False

    def add(self, step: int, reward: float) -> None:
        """Take up the mean reward of a step; the steps come in order."""
        if step in self._starts:
            self._rewards.clear()
            self._best = 0.0
        self._rewards.append(round(reward, 5))  # as it is stored, and read back on resuming
        if len(self._rewards) == _WINDOW:
            mean = fmean(self._rewards)
            self._best = max(self._best, mean)
            self.collapsed |= self._best > 0 and mean < self._share * self._best
