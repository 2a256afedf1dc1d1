"""A ring of cache rows for prompts, reused as a prefix cache until they are overwritten.

A tree search repeatedly requests continuations of a text it has just extended. The longest prefix cached in some row of
the ring is copied into the new row, so only the new tokens are computed.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


class PromptRing:
    """Tracks the tokens held by a range of cache rows."""

    def __init__(self, first: int, rows: int) -> None:
        """Manage `rows` cache rows starting at `first`."""
        self.first, self.rows = first, rows
        self._next = 0
        self._held: npt.NDArray[np.int32] = np.full((rows, 256), -1, np.int32)

    def take(self, rows: int) -> int:
        """Claim `rows` adjacent cache rows, the least recently written, and empty them; returns the first one."""
        if self._next + rows > self.rows:
            self._next = 0
        start = self._next
        self._next += rows
        self._held[start : start + rows] = -1
        return self.first + start

    def hold(self, row: int, ids: npt.NDArray[np.int32]) -> None:
        """Record that cache row `row` holds `ids`."""
        missing = len(ids) - self._held.shape[1]
        if missing > 0:
            self._held = np.pad(self._held, ((0, 0), (0, missing)), constant_values=-1)
        self._held[row - self.first, : len(ids)] = ids

    def longest(self, ids: npt.NDArray[np.int32]) -> tuple[int, int]:
        """The cache row with the longest prefix of `ids`, and that prefix's length in tokens."""
        width = min(len(ids), self._held.shape[1])
        if width == 0:
            return self.first, 0
        differs = self._held[:, :width] != ids[:width]
        lengths = np.where(differs.any(1), differs.argmax(1), width)
        best = int(lengths.argmax())
        return self.first + best, int(lengths[best])

    def clear(self) -> None:
        """Forget all rows, because the weights changed."""
        self._held[:] = -1
