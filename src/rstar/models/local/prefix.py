"""The rows in which prompts are computed, used as a ring: what lies there until it is overwritten serves as prefix.

A tree search asks again and again for continuations of a text it has just extended. Only what is new is computed: the
longest prefix that some row of the ring holds is copied in front of it.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


class PromptRing:
    """Which tokens each row of a range of cache rows holds."""

    def __init__(self, first: int, rows: int) -> None:
        """`rows` cache rows from `first` on."""
        self.first, self.rows = first, rows
        self._next = 0
        self._held: npt.NDArray[np.int32] = np.full((rows, 256), -1, np.int32)

    def take(self, rows: int) -> int:
        """The first of `rows` adjacent cache rows, those that were written longest ago; they hold nothing now."""
        if self._next + rows > self.rows:
            self._next = 0
        start = self._next
        self._next += rows
        self._held[start : start + rows] = -1
        return self.first + start

    def hold(self, row: int, ids: npt.NDArray[np.int32]) -> None:
        """Cache row `row` holds `ids`."""
        missing = len(ids) - self._held.shape[1]
        if missing > 0:
            self._held = np.pad(self._held, ((0, 0), (0, missing)), constant_values=-1)
        self._held[row - self.first, : len(ids)] = ids

    def longest(self, ids: npt.NDArray[np.int32]) -> tuple[int, int]:
        """The cache row that holds the longest prefix of `ids`, and how many tokens of it."""
        width = min(len(ids), self._held.shape[1])
        if width == 0:
            return self.first, 0
        differs = self._held[:, :width] != ids[:width]
        lengths = np.where(differs.any(1), differs.argmax(1), width)
        best = int(lengths.argmax())
        return self.first + best, int(lengths[best])

    def clear(self) -> None:
        """Forget everything: the weights changed."""
        self._held[:] = -1
