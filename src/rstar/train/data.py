"""Training data: solutions as token ids with a mask of the policy's tokens, batched by similar length.

A line of a data file is ``{"id": …, "pieces": [prompt, written, shown, written, …]}``: odd pieces were written by the
policy and are trained on, even ones were shown to it. Each piece is tokenised on its own, as at inference. The
end-of-text token follows the last piece.

Several data files are the stages of a curriculum: every epoch goes through them in order.

Steps are a pure function of (seed, epoch), so an interrupted run resumes at its step.
"""

from __future__ import annotations

import bisect
import json
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from zipfile import BadZipFile

import numpy as np
import numpy.typing as npt
import torch
from tokenizers import Tokenizer
from torch import Tensor

from rstar.errors import DataError
from rstar.models.ppm.inputs import LENGTH_STEP, rounded

IntArray = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class TokenSet:
    """Concatenated token sequences.

    Attributes:
        ids: (N,) int32 token ids of all sequences.
        written: (N,) bool, True where the policy wrote the token.
        starts: (M + 1,) int64, sequence i is ``ids[starts[i]:starts[i + 1]]``.
        stages: (S + 1,) int64, stage s has the sequences from ``stages[s]`` to ``stages[s + 1]`` - 1.
    """

    ids: IntArray
    written: npt.NDArray[np.bool_]
    starts: npt.NDArray[np.int64]
    stages: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        """(M,) tokens per sequence."""
        return np.diff(self.starts)

    def save(self, file: Path) -> None:
        """Write to an ``.npz`` file atomically."""
        part = file.with_suffix(".part.npz")
        np.savez(part, ids=self.ids, written=self.written, starts=self.starts, stages=self.stages)
        part.replace(file)

    @staticmethod
    def load(file: Path) -> TokenSet:
        """Read what `save` wrote. Raises `DataError` if it is damaged."""
        try:
            with np.load(file) as arrays:
                return TokenSet(arrays["ids"], arrays["written"], arrays["starts"], arrays["stages"])
        except (OSError, ValueError, KeyError, TypeError, EOFError, BadZipFile, zlib.error) as error:
            raise DataError(f"{file}: damaged; delete it to tokenise the data again: {error}") from error


@dataclass(frozen=True, slots=True)
class Batch:
    """Right-padded rows.

    Attributes:
        ids: (B, T) int64.
        written: (B, T) bool, tokens trained on.
        ends: (B, T) int64, end of each token's sequence in its row; None if every row has one sequence.
    """

    ids: Tensor
    written: Tensor
    ends: Tensor | None = None


def read_pieces(file: Path) -> Iterator[list[str]]:
    """Yield the pieces of each line. Raises `DataError` with file and line."""
    with file.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            try:
                pieces = json.loads(line)["pieces"]
                json.dumps(pieces, ensure_ascii=False).encode()  # rejects lone surrogates
            except (ValueError, KeyError, TypeError, RecursionError) as error:
                hint = "`rstar problems make --solutions` adds them"
                raise DataError(f"{file}:{number}: expected an object with 'pieces' ({hint}): {error}") from error
            if not isinstance(pieces, list) or len(pieces) < 2 or not all(isinstance(p, str) for p in pieces):
                raise DataError(f"{file}:{number}: 'pieces' must be at least two strings: shown, written, …")
            yield pieces


def tokenize(files: Sequence[Path], tokenizer: Tokenizer, eos: int, max_length: int) -> tuple[TokenSet, int]:
    """Tokenise data files, a stage per file; also returns how many sequences exceeded `max_length` and were dropped."""
    ids: list[IntArray] = []
    written: list[npt.NDArray[np.bool_]] = []
    stages, dropped = [0], 0
    for file in files:
        for pieces in read_pieces(file):
            parts = [tokenizer.encode(piece, add_special_tokens=False).ids for piece in pieces]
            parts[-1].append(eos)
            sequence = np.concatenate([np.asarray(part, np.int32) for part in parts])
            if len(sequence) > max_length:
                dropped += 1
                continue
            ids.append(sequence)
            written.append(np.concatenate([np.full(len(part), i % 2 == 1) for i, part in enumerate(parts)]))
        if len(ids) == stages[-1]:
            raise DataError(f"{file}: no sequence of at most {max_length} tokens")
        stages.append(len(ids))
    starts = np.concatenate([[0], np.cumsum([len(sequence) for sequence in ids])])
    counts = starts.astype(np.int64), np.asarray(stages, np.int64)
    return TokenSet(np.concatenate(ids), np.concatenate(written), *counts), dropped


def plan(
    lengths: npt.NDArray[np.int64], micro_tokens: int, per_step: int, seed: int, epoch: int
) -> list[list[IntArray]]:
    """Steps of one epoch, each a list of micro-batches, each an array of sequence (or packed row) indices.

    A micro-batch holds sequences of similar length. A step draws `per_step` micro-batches at random (the last step
    perhaps fewer), so its gradient covers all lengths. Every sequence occurs exactly once. Rows times the rounded
    longest length is at most `micro_tokens` per micro-batch (a longer sequence is alone).
    """
    rng = np.random.default_rng([seed, epoch])
    noisy = lengths + rng.uniform(0, LENGTH_STEP, len(lengths))  # regroups similar lengths in each epoch
    order = np.argsort(noisy, kind="stable").astype(np.int32)
    micro: list[IntArray] = []
    first = longest = 0
    for i, sequence in enumerate(order):
        length = rounded(int(lengths[sequence]))
        if i > first and max(longest, length) * (i - first + 1) > micro_tokens:
            micro.append(order[first:i])
            first, longest = i, 0
        longest = max(longest, length)
    micro.append(order[first:])
    mixed = [micro[i] for i in rng.permutation(len(micro))]
    return [mixed[i : i + per_step] for i in range(0, len(mixed), per_step)]


def pack(lengths: npt.NDArray[np.int64], stages: npt.NDArray[np.int64]) -> tuple[list[IntArray], npt.NDArray[np.int64]]:
    """Pack sequences into rows, none longer than its stage's longest sequence (best fit, longest first).

    Args:
        lengths: (M,) tokens per sequence.
        stages: (S + 1,) stage s has the sequences from ``stages[s]`` to ``stages[s + 1]`` - 1.

    Returns:
        The sequences of each row, and the stages in terms of rows.
    """
    rows: list[list[int]] = []
    firsts = [0]
    for first, end in pairwise(stages.tolist()):
        room: list[tuple[int, int]] = []  # (tokens left, row), sorted
        for sequence in first + np.argsort(-lengths[first:end], kind="stable"):
            length = int(lengths[sequence])
            place = bisect.bisect_left(room, (length, 0))
            if place < len(room):
                left, row = room.pop(place)
            else:
                left, row = int(lengths[first:end].max()), len(rows)
                rows.append([])
            rows[row].append(int(sequence))
            bisect.insort(room, (left - length, row))
        firsts.append(len(rows))
    return [np.asarray(row, np.int32) for row in rows], np.asarray(firsts, np.int64)


def collate(data: TokenSet, rows: Sequence[IntArray]) -> Batch:
    """Build a batch of rows, right-padded to a rounded common length."""
    width = rounded(max(int(data.lengths[row].sum()) for row in rows))
    ids = np.zeros((len(rows), width), np.int64)
    written = np.zeros((len(rows), width), bool)
    ends = np.tile(np.arange(1, width + 1), (len(rows), 1))  # padding is visible to itself only
    for place, row in enumerate(rows):
        at = 0
        for sequence in row:
            span = slice(data.starts[sequence], data.starts[sequence + 1])
            end = at + int(span.stop - span.start)
            ids[place, at:end] = data.ids[span]
            written[place, at + 1 : end] = data.written[span][1:]  # nothing predicts the first token
            ends[place, at:end] = end
            at = end
    packed = any(len(row) > 1 for row in rows)
    return Batch(torch.from_numpy(ids), torch.from_numpy(written), torch.from_numpy(ends) if packed else None)
