"""Which cache row each block of positions is read from.

Samples that begin alike hold equal keys and values in rows of their own. Reading one of the copies for all of them
leaves more of the processor's caches to what differs, and memory is what limits generation. So `SharedBlocks` knows of
each block of a row which row it was copied from. Every row keeps its own copy, which it reads again when the other row
changes.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]


class SharedBlocks:
    """Blocks of `size` positions in the rows of a cache.

    Invariant: the block that `sources` names equals the row's own, if the row holds all of its positions.
    """

    def __init__(self, rows: int, size: int) -> None:
        self._size = size
        self._sources = np.empty((rows, 0), np.int64)
        """The row that each block of each row is read from."""
        self._lent = np.zeros(rows, np.int64)
        """No other row reads a row's blocks from this one on."""
        self._borrowed = np.zeros(rows, np.int64)
        """A row reads its own blocks from this one on."""
        self._order: tuple[tuple[int, ...], Ints] | None = None
        """The last order and what it was made for, until any row reads other blocks."""

    def clear(self) -> None:
        """Let every row read its own blocks."""
        self._sources[:] = np.arange(len(self._sources))[:, None]
        self._lent[:] = self._borrowed[:] = 0
        self._order = None

    def reserve(self, positions: int) -> None:
        """Grow all rows to `positions`, a multiple of the size of a block."""
        rows, blocks = self._sources.shape
        more = np.repeat(np.arange(rows)[:, None], positions // self._size - blocks, axis=1)
        self._sources = np.concatenate((self._sources, more), axis=1)

    def copy(self, source: int, target: int, start: int, end: int) -> None:
        """Positions `start` .. `end` - 1 of `source` have been copied to `target`."""
        first, last = start // self._size, end // self._size
        self._change(target, first)
        if first < last:
            self._order = None
            self._sources[target, first:last] = sources = self._sources[source, first:last]
            self._borrowed[target] = last
            np.maximum.at(self._lent, sources, np.arange(first, last) + 1)

    def write(self, first: int, starts: Ints) -> None:
        """Rows `first` .. `first` + R - 1 are written from positions `starts` (R,) on."""
        rows, blocks = slice(first, first + len(starts)), starts // self._size
        for i in np.flatnonzero(np.maximum(self._lent[rows], self._borrowed[rows]) > blocks):
            self._change(first + int(i), int(blocks[i]))

    def sources(self, first: int, rows: int) -> Ints:
        """The cache row that each block of rows `first` .. `first` + `rows` - 1 is read from: (rows, blocks)."""
        return self._sources[first : first + rows]

    def order(self, first: int, starts: Ints, heads: int) -> Ints:
        """Row * `heads` + head, for all rows and heads: those that read the same blocks follow each other."""
        blocks = max(1, int(starts.max()) // self._size)
        made_for = (first, len(starts), blocks, heads)
        if self._order is not None and self._order[0] == made_for:
            return self._order[1]
        sources = self.sources(first, len(starts))[:, :blocks]
        sources = sources[:, :: max(1, sources.shape[1] // 8)]  # a few blocks tell which rows are alike
        rows = np.lexsort(sources.T[::-1])
        group = np.cumsum(np.append(0, np.diff(sources[rows, 0]) != 0))
        head = np.arange(heads)
        keys = np.broadcast_arrays(np.arange(len(rows)), head[:, None], group)
        order = (rows * heads + head[:, None]).reshape(-1)[np.lexsort([key.reshape(-1) for key in keys])]
        self._order = made_for, order
        return order

    def _change(self, row: int, first: int) -> None:
        """Blocks of a row from `first` on change: the others that read them read a copy."""
        self._order = None
        self._sources[row, first:] = row
        self._borrowed[row] = min(self._borrowed[row], first)
        if self._lent[row] <= first:
            return
        last, self._lent[row] = int(self._lent[row]), first
        reads = self._sources[:, first:last] == row
        reads[row] = False
        users = np.flatnonzero(reads.any(1))
        if len(users):
            heir = users[reads[users].sum(1).argmax()]
            for user in users:
                part, mask = self._sources[user, first:last], reads[user]
                part[mask] = np.where(reads[heir, mask], heir, user)
            self._lent[heir] = max(self._lent[heir], last)
