"""Token sequences packed into one row as a trie, so that every shared prefix is computed once.

The row holds the trie's tokens in preorder. A token is visible up to the end of its subtree, that is to later tokens of
its own sequences only, and its position is its depth; so hidden states equal those of the separate sequences (`ends` of
`rstar.models.decoder.Decoder.hidden`). Step candidates of a problem share the question and most of the solution, so a
row is a fraction of their total length.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Trie:
    """A row of T tokens.

    Attributes:
        sources: (T, 2) sequence, and index in it, of each token.
        ends: (T,) index after the last token of its subtree.
        last: (N,) index of each sequence's last token.
    """

    sources: Ints
    ends: Ints
    last: Ints

    def __len__(self) -> int:
        return len(self.ends)


def build_trie(sequences: Sequence[list[int]]) -> Trie:
    """Build the trie of non-empty sequences. Equal sequences share all their tokens."""
    order = sorted(range(len(sequences)), key=lambda number: sequences[number])
    sources: list[tuple[int, int]] = []
    ends: list[int] = []
    last = [0] * len(sequences)
    path: list[int] = []  # indices of the previous sequence's tokens
    before: list[int] = []
    for number in order:
        sequence = sequences[number]
        same = common_prefix(before, sequence)
        for place in path[same:]:
            ends[place] = len(ends)
        del path[same:]
        for depth in range(same, len(sequence)):
            path.append(len(ends))
            sources.append((number, depth))
            ends.append(0)
        last[number] = path[-1]
        before = sequence
    for place in path:
        ends[place] = len(ends)
    return Trie(*(np.asarray(part, np.int64) for part in (sources, ends, last)))


def common_prefix(first: Sequence[int], second: Sequence[int]) -> int:
    """Length of the common prefix."""
    most = min(len(first), len(second))
    return next((place for place in range(most) if first[place] != second[place]), most)
