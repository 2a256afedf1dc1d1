"""What a process preference model reads: the text of solutions, and where it asks for them three things beside it.

``logprobs``: how probable each token was to the policy that wrote it. ``numbers``: which number of the question a
number in the solution is, how many of the question's have not been used so far, and how many others have been; a small
model finds out by itself only after very many examples whether something was copied wrongly or left out. These two are
added to the embeddings of the tokens, with weights that begin at zero. ``values``: what the variables became that a
step bound; text, after that of the step.

Solutions of one problem are one row, a trie (`rstar.models.ppm.trie`): what they have in common is computed once.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from typing import Literal, NamedTuple, get_args

import numpy as np
import numpy.typing as npt
import torch
from tokenizers import Tokenizer
from torch import Tensor

from rstar.models.ppm.trie import Trie, build_trie
from rstar.prompts.numbers import IN_CODE, IN_TEXT, numbers, value
from rstar.trajectories import Step

Input = Literal["logprobs", "numbers", "values"]
INPUTS: tuple[Input, ...] = get_args(Input)

NUMBERS = 32
"""0: no number; 1 to 30: the numbers of the question, in order; 31: a number that is not in the question."""
FEATURES = 6
"""Of a token whose log-probability is known: itself, the probability, the sum so far, and that it is known. Of every
token of the solution: numbers of the question not used so far, and other numbers used so far."""


class Piece(NamedTuple):
    """A part of a solution.

    Attributes:
        text: as it is read.
        kind: ``written``: a step as the policy wrote it; ``shown``: what followed it; ``values``: the new values of
            variables, which the policy has not seen.
        logprobs: of the tokens of a written step; empty: not told.
    """

    text: str
    kind: Literal["written", "shown", "values"] = "shown"
    logprobs: Sequence[float] = ()


@dataclass(frozen=True, slots=True)
class Encoded:
    """One solution, prompt included: T tokens.

    Attributes:
        ids: T token ids.
        numbers: T numbers below `NUMBERS`.
        logprobs: T log-probabilities, None where not known.
        asked: how many different numbers the prompt has; 0 where nobody wants to know.
        begins: where the solution does.
    """

    ids: list[int]
    numbers: list[int]
    logprobs: list[float | None]
    asked: int
    begins: int

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True, slots=True)
class Row:
    """Solutions of one problem as one row of T tokens.

    Attributes:
        trie: how they lie in it.
        ids, numbers: (T,) int64.
        features: (T, `FEATURES`) float32.
    """

    trie: Trie
    ids: npt.NDArray[np.int64]
    numbers: npt.NDArray[np.int64]
    features: npt.NDArray[np.float32]

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows padded at the right to a common length T, with the ends of their N solutions.

    Attributes:
        ids, numbers, ends: (B, T) int64.
        features: (B, T, `FEATURES`) float32.
        row, last: (N,) int64: the row of each solution, and its last token there.
    """

    ids: Tensor
    numbers: Tensor
    ends: Tensor
    features: Tensor
    row: Tensor
    last: Tensor

    def to(self, device: torch.device) -> Rows:
        """On another device."""
        return Rows(*(getattr(self, name).to(device) for name in self.__dataclass_fields__))


class Reader:
    """Turns prompts and solutions into rows.

    Args:
        tokenizer: the policy's.
        inputs: what is read beside the text.
    """

    def __init__(self, tokenizer: Tokenizer, inputs: Sequence[Input] = ()) -> None:
        self._tokenizer = tokenizer
        self._inputs = frozenset(inputs)
        self.reads_logprobs = "logprobs" in self._inputs
        self._encode = lru_cache(maxsize=8192)(self._encode_text)

    def encode(self, prompt: str, pieces: Sequence[Piece]) -> Encoded:
        """A solution, each piece tokenised on its own as it is when the policy writes it."""
        known = _numbers_of(prompt) if "numbers" in self._inputs else None
        ids: list[int] = []
        marks: list[int] = []
        logprobs: list[float | None] = []
        begins = len(self._encode(prompt)[0])
        for text, kind, told in (Piece(prompt), *pieces):
            if kind == "values" and "values" not in self._inputs:
                continue
            found, spans = self._encode(text)
            written = IN_CODE if len(ids) >= begins else IN_TEXT
            ids += found
            marks += [0] * len(found) if known is None or kind == "values" else _marks(written, text, spans, known)
            logprobs += _aligned(told, len(found)) if self.reads_logprobs else [None] * len(found)
        return Encoded(ids, marks, logprobs, len(set((known or {}).values())), begins)

    def _encode_text(self, text: str) -> tuple[list[int], list[tuple[int, int]]]:
        encoding = self._tokenizer.encode(text, add_special_tokens=False)
        return encoding.ids, encoding.offsets


def pieces(steps: Iterable[Step]) -> list[Piece]:
    """The steps of a solution as pieces: each as it was written, what it made of variables, and what followed it."""
    found: list[Piece] = []
    for step in steps:
        became = "".join(f"\n> {name} = {value}" for name, value in step.values)
        found.append(Piece(step.written.text, "written", step.written.logprobs or ()))
        found += [Piece(became, "values"), Piece(step.shown, "shown")]
    return [piece for piece in found if piece.text]


def join(solutions: Sequence[Encoded]) -> Row:
    """Solutions of one problem as one row."""
    # A number's mark depends on all its digits: tokens are the same only where their marks are, too.
    keys = [[i * NUMBERS + n for i, n in zip(one.ids, one.numbers, strict=True)] for one in solutions]
    trie = build_trie(keys)
    features = [_features(one) for one in solutions]
    key = np.asarray([keys[number][place] for number, place in trie.sources.tolist()], np.int64)
    of_tokens = np.stack([features[number][place] for number, place in trie.sources.tolist()])
    return Row(trie, key // NUMBERS, key % NUMBERS, of_tokens)


def collate_rows(rows: Sequence[Row], multiple: int = 1) -> Rows:
    """Rows as one batch, its length rounded up to a multiple."""
    length = -(-max(map(len, rows)) // multiple) * multiple
    whole = np.zeros((3, len(rows), length), np.int64)
    whole[2] = np.arange(1, length + 1)  # padding sees itself: nothing is a mean over no tokens
    features = np.zeros((len(rows), length, FEATURES), np.float32)
    for number, row in enumerate(rows):
        whole[:, number, : len(row)] = row.ids, row.numbers, row.trie.ends
        features[number, : len(row)] = row.features
    which = np.concatenate([np.full(len(row.trie.last), number) for number, row in enumerate(rows)])
    last = np.concatenate([row.trie.last for row in rows])
    return Rows(*torch.from_numpy(whole).unbind(0), *map(torch.from_numpy, (features, which, last)))


def _numbers_of(prompt: str) -> dict[Decimal, int]:
    found = dict.fromkeys(numbers(IN_TEXT, prompt))
    return {value: min(place, NUMBERS - 2) for place, value in enumerate(found, 1)}


def _marks(
    written: re.Pattern[str], text: str, spans: Sequence[tuple[int, int]], known: dict[Decimal, int]
) -> list[int]:
    """The mark of each token: of the number that it is a part of, 0 for other tokens."""
    marks = [0] * len(spans)
    place = 0
    for match in written.finditer(text):
        number = value(match.group())
        # 0.25 counts as a use of 25 (from 25%)
        mark = known.get(number) or (known.get(100 * number) if number < 1 else None) or NUMBERS - 1
        first, end = match.span()
        while place < len(spans) and spans[place][1] <= first:
            place += 1
        while place < len(spans) and spans[place][0] < end:
            marks[place] = mark
            place += 1
    return marks


def _aligned(logprobs: Sequence[float], count: int) -> list[float | None]:
    """Log-probabilities for `count` tokens: their own, or equal shares of the sum where the policy's were others."""
    if not logprobs or not count:
        return [None] * count
    return list(logprobs) if len(logprobs) == count else [sum(logprobs) / count] * count


def _features(one: Encoded) -> npt.NDArray[np.float32]:
    """(T, `FEATURES`), scaled to be of the order of 1."""
    known = np.asarray([value is not None for value in one.logprobs], np.float32)
    own = np.asarray([max(value or 0.0, -20.0) for value in one.logprobs], np.float32)
    so_far = np.cumsum(own)
    told = np.stack([own / 4, np.exp(own), so_far / 8, np.ones_like(own)], axis=1) * known[:, None]
    counts = np.zeros((len(one), 2), np.float32)
    if one.asked:
        used: set[int] = set()
        others, before = 0, 0
        for place in range(one.begins, len(one)):
            mark = one.numbers[place]
            if mark == NUMBERS - 1:
                others += mark != before  # a number of several tokens is one
            elif mark:
                used.add(mark)
            before = mark
            counts[place] = (one.asked - len(used)) / 2, others / 4
    return np.concatenate([told, counts], axis=1)
