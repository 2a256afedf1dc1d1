"""Rollouts as micro-batches for a policy update.

The rollouts of a group begin alike: they share the prompt, and often turns. Similar rollouts form one row, a trie
(`rstar.models.ppm.trie`), so what they share is computed once, forward and backward. Attention is computed over whole
rows, so rows are kept short. Rows of one rollout are batched apart: their attention is plainly causal, at half the
cost. Log-probabilities are computed for the tokens of the trie and gathered into sequences, where the loss is that of
separate rollouts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from rstar.models.ppm.inputs import rounded
from rstar.models.ppm.trie import build_trie, common_prefix
from rstar.trajectories import Trajectory

ROW_TOKENS = 768
"""Tokens of a row: the work of attention grows with the square."""


@dataclass(frozen=True, slots=True)
class Weighted:
    """A rollout to train on.

    Attributes:
        trajectory: with token ids and log-probabilities.
        count: how often it occurred.
        advantage: of the whole rollout.
        baselines: what is subtracted from the advantage at each turn, see `rstar.rl.advantage.turn_baselines`; empty:
            nothing.
    """

    trajectory: Trajectory
    count: int
    advantage: float
    baselines: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class PolicyBatch:
    """Rollouts as B rows of T tokens, S rollouts of at most L tokens.

    Attributes:
        ids, ends: (B, T) int64; see `rstar.models.decoder.Decoder.hidden`. `ends` is None if each row is one rollout.
        row, place, before: (N,) int64: row, index and preceding index of each trie token that a policy wrote.
        token: (S, L) int64: for each token of a rollout, which of the N it is; 0 where `mask` is 0.
        mask, sampler: (S, L) float32: 1 on tokens that the policy wrote, and their log-probabilities then.
        advantages: (S, L) float32.
        counts: (S,) float32.
    """

    ids: Tensor
    ends: Tensor | None
    row: Tensor
    place: Tensor
    before: Tensor
    token: Tensor
    mask: Tensor
    sampler: Tensor
    advantages: Tensor
    counts: Tensor

    def to(self, device: torch.device) -> PolicyBatch:
        """Copy to another device."""
        parts = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return replace(self, **{name: part.to(device) for name, part in parts.items() if part is not None})


@dataclass(frozen=True, slots=True)
class _Row:
    """Similar rollouts as a trie row; `places` has, for each rollout, the row index of each of its tokens."""

    ids: list[int]
    ends: list[int]
    before: list[int]
    rollouts: Sequence[Weighted]
    places: list[list[int]]

    @property
    def is_trie(self) -> bool:
        return len(self.rollouts) > 1


def micro_batches(groups: Sequence[Sequence[Weighted]], micro_tokens: int) -> list[PolicyBatch]:
    """Batches of rows of similar length, each of at most `micro_tokens` tokens (or of one row)."""
    rows = sorted((_row(part) for group in groups for part in _alike(group)), key=lambda row: len(row.ids))
    kinds = ([row for row in rows if row.is_trie == is_trie] for is_trie in (False, True))
    return [_collate(part) for kind in kinds for part in _split(kind, micro_tokens)]


def _alike(group: Sequence[Weighted]) -> Iterator[list[Weighted]]:
    """Divide a group into rollouts with common beginnings whose trie has at most `ROW_TOKENS` tokens (or one does)."""
    part: list[Weighted] = []
    before: tuple[int, ...] = ()
    length = 0
    for one in sorted(group, key=lambda one: one.trajectory.ids):
        ids = one.trajectory.ids
        new = len(ids) - common_prefix(before, ids)
        if part and length + new > ROW_TOKENS:
            yield part
            part, length, new = [], 0, len(ids)
        part.append(one)
        before, length = ids, length + new
    if part:
        yield part


def _split(rows: Sequence[_Row], micro_tokens: int) -> Iterator[list[_Row]]:
    part: list[_Row] = []
    for row in rows:  # shortest first, so the last one sets the width
        if part and rounded(len(row.ids)) * (len(part) + 1) > micro_tokens:
            yield part
            part = []
        part.append(row)
    if part:
        yield part


def _row(group: Sequence[Weighted]) -> _Row:
    sequences = [list(one.trajectory.ids) for one in group]
    trie = build_trie(sequences)
    sources: list[tuple[int, int]] = trie.sources.tolist()
    path: list[int] = []
    before: list[int] = []
    for place, (_, depth) in enumerate(sources):
        del path[depth:]
        before.append(path[-1] if path else -1)
        path.append(place)
    places = []
    for last in trie.last.tolist():
        found = [last]
        while before[found[-1]] >= 0:
            found.append(before[found[-1]])
        places.append(found[::-1])
    ids = [sequences[number][depth] for number, depth in sources]
    return _Row(ids, trie.ends.tolist(), before, group, places)


def _collate(rows: Sequence[_Row]) -> PolicyBatch:
    width = rounded(max(len(row.ids) for row in rows))
    ids = np.zeros((len(rows), width), np.int64)
    ends = np.full((len(rows), width), width, np.int64)
    numbers: dict[tuple[int, int], int] = {}  # (row, place) of a written token → its number
    before: list[int] = []
    # Of each rollout's written tokens: numbers, log-probabilities, advantages.
    found: list[tuple[list[int], list[float], list[float]]] = []
    kept: list[Weighted] = []
    for number, row in enumerate(rows):
        ids[number, : len(row.ids)], ends[number, : len(row.ids)] = row.ids, row.ends
        for one, places in zip(row.rollouts, row.places, strict=True):
            tokens: list[int] = []
            logprobs: list[float] = []
            advantages: list[float] = []
            baselines = iter(one.baselines)
            at = len(one.trajectory.prompt.ids)
            for segment in one.trajectory.segments:
                if segment.author == "policy":
                    for place in places[at : at + len(segment.ids)]:
                        if (number, place) not in numbers:
                            numbers[number, place] = len(before)
                            before.append(row.before[place])
                        tokens.append(numbers[number, place])
                    logprobs += segment.logprobs or ()
                    advantages += [one.advantage - next(baselines, 0.0)] * len(segment.ids)
                at += len(segment.ids)
            found.append((tokens, logprobs, advantages))
            kept.append(one)
    length = max(1, *(len(tokens) for tokens, *_ in found)) if found else 1
    token = np.zeros((len(found), length), np.int64)
    mask, sampler, advantage = (np.zeros((len(found), length), np.float32) for _ in range(3))
    for place, (tokens, logprobs, advantages) in enumerate(found):
        token[place, : len(tokens)], mask[place, : len(tokens)] = tokens, 1
        sampler[place, : len(logprobs)], advantage[place, : len(tokens)] = logprobs, advantages
    written = np.asarray(list(numbers), np.int64).reshape(-1, 2)
    return PolicyBatch(
        ids=torch.from_numpy(ids),
        ends=torch.from_numpy(ends) if rows[0].is_trie else None,
        row=torch.from_numpy(written[:, 0].copy()),
        place=torch.from_numpy(written[:, 1].copy()),
        before=torch.tensor(before, dtype=torch.int64),
        token=torch.from_numpy(token),
        mask=torch.from_numpy(mask),
        sampler=torch.from_numpy(sampler),
        advantages=torch.from_numpy(advantage),
        counts=torch.tensor([one.count for one in kept], dtype=torch.float32),
    )
