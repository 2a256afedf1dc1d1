"""Cache rows that hold prompts: what each row holds, and which rows to overwrite next.

A tree search repeatedly requests continuations of a text it has just extended, and so does an agent. The longest prefix
that a row holds is not computed again. If the row holds nothing else, the longer prompt replaces it there; otherwise,
the longer prompt takes the row that was written least recently.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Ids = npt.NDArray[np.int32]


class PromptRows:
    """Tracks the tokens held by a range of cache rows."""

    def __init__(self, first: int, rows: int) -> None:
        """Manage `rows` cache rows starting at `first`."""
        self.first = first
        self._held: Ids = np.full((rows, 256), -1, np.int32)
        self._written: npt.NDArray[np.int64] = np.zeros(rows, np.int64)  # number of the write
        self._writes = 0

    def take(self) -> int:
        """Empty the cache row that was written least recently, and return it."""
        row = int(self._written.argmin())
        self._held[row] = -1
        return self.first + row

    def hold(self, row: int, ids: Ids) -> None:
        """Record that cache row `row` holds `ids`."""
        missing = len(ids) - self._held.shape[1]
        if missing > 0:
            self._held = np.pad(self._held, ((0, 0), (0, missing)), constant_values=-1)
        self._held[row - self.first, : len(ids)] = ids
        self._writes += 1
        self._written[row - self.first] = self._writes

    def longest(self, ids: Ids) -> tuple[int, int]:
        """The cache row with the longest prefix of `ids`, and that prefix's length in tokens."""
        width = min(len(ids), self._held.shape[1])
        if width == 0:
            return self.first, 0
        differs = self._held[:, :width] != ids[:width]
        lengths = np.where(differs.any(1), differs.argmax(1), width)
        best = int(lengths.argmax())
        return self.first + best, int(lengths[best])

    def holds_only(self, row: int, length: int) -> bool:
        """Whether cache row `row` holds `length` tokens, and no more."""
        held = self._held[row - self.first]
        return (length == 0 or held[length - 1] >= 0) and (length == len(held) or held[length] < 0)

    def clear(self) -> None:
        """Forget all rows, because the weights changed."""
        self._held[:] = -1
        self._written[:] = 0
