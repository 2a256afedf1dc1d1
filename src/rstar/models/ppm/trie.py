"""Token sequences with common beginnings as one row: every shared prefix is computed once.

The row holds the tokens of a trie in preorder. A token is seen by those that follow it up to the end of its subtree,
which are those of the sequences that it belongs to, and its position is its depth; so hidden states are those of the
single sequences (`rstar.models.decoder.Decoder.hidden` takes the `ends`). Step candidates of one problem
share the question and most of the solution: a row is a fraction of the sequences' length.
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
        sources: (T, 2) the sequence, and the place in it, from which each token is.
        ends: (T,) the place after the last token of its subtree.
        last: (N,) where each sequence's last token is.
    """

    sources: Ints
    ends: Ints
    last: Ints

    def __len__(self) -> int:
        return len(self.ends)


def build_trie(sequences: Sequence[list[int]]) -> Trie:
    """The trie of sequences (none of them empty). Equal sequences share all their tokens."""
    order = sorted(range(len(sequences)), key=lambda number: sequences[number])
    sources: list[tuple[int, int]] = []
    ends: list[int] = []
    last = [0] * len(sequences)
    path: list[int] = []  # places of the tokens of the sequence before
    before: list[int] = []
    for number in order:
        sequence = sequences[number]
        same = _common(before, sequence)
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


def _common(first: Sequence[int], second: Sequence[int]) -> int:
    """Length of the common beginning."""
    most = min(len(first), len(second))
    return next((place for place in range(most) if first[place] != second[place]), most)
