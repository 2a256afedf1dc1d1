"""Inputs of a process preference model: the text of solutions, and up to three optional inputs.

``logprobs``: the policy's log-probability of each token. ``numbers``: which number of the question each number in the
solution is, how many numbers of the question are unused so far, and how many other numbers have occurred; without it a
small model needs very many examples to learn whether a number was miscopied or left out. These two are added to the
token embeddings, with weights initialised to zero. ``values``: the new values of the variables that a step bound, as
text after the step.

The solutions of one problem form one row, a trie (`rstar.models.ppm.trie`), which computes shared prefixes once.
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
"""0: no number; 1 to 30: the question's numbers, in order; 31: a number that is not in the question."""
LENGTH_STEP = 16
"""Row lengths are multiples of this: few tensor shapes, so memory does not keep growing."""
FEATURES = 6
"""Log-probability, probability, running sum, known flag (all 0 where unknown); question numbers not used so far, other
numbers used so far (both 0 outside the solution)."""


class Piece(NamedTuple):
    """Part of a solution.

    Attributes:
        text: input text.
        kind: ``written``: a step by the policy; ``shown``: text after the step; ``values``: new values of variables,
            which the policy does not see.
        logprobs: of the tokens of a written step; empty if unknown.
    """

    text: str
    kind: Literal["written", "shown", "values"] = "shown"
    logprobs: Sequence[float] = ()


@dataclass(frozen=True, slots=True)
class Encoded:
    """A solution as T tokens, prompt included.

    Attributes:
        ids: T token ids.
        numbers: T number marks below `NUMBERS`.
        logprobs: T log-probabilities, None where unknown.
        question_numbers: number of distinct numbers in the prompt; 0 if the ``numbers`` input is off.
        solution_start: index of the solution's first token.
    """

    ids: list[int]
    numbers: list[int]
    logprobs: list[float | None]
    question_numbers: int
    solution_start: int

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True, slots=True)
class Row:
    """Solutions of one problem as a row of T tokens.

    Attributes:
        trie: layout of the solutions in the row.
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
    """A batch of rows, right-padded to a common length T, with N solutions in total.

    Attributes:
        ids, numbers, ends: (B, T) int64.
        features: (B, T, `FEATURES`) float32.
        row, last: (N,) int64: row of each solution, and index of its last token.
    """

    ids: Tensor
    numbers: Tensor
    ends: Tensor
    features: Tensor
    row: Tensor
    last: Tensor

    def to(self, device: torch.device) -> Rows:
        """Copy to another device."""
        return Rows(*(getattr(self, name).to(device) for name in self.__dataclass_fields__))


class SolutionEncoder:
    """Encodes prompts and solutions.

    Args:
        tokenizer: the policy's tokenizer.
        inputs: optional inputs besides the text.
    """

    def __init__(self, tokenizer: Tokenizer, inputs: Sequence[Input] = ()) -> None:
        self._tokenizer = tokenizer
        self._inputs = frozenset(inputs)
        self.reads_logprobs = "logprobs" in self._inputs
        self._encode = lru_cache(maxsize=8192)(self._encode_text)

    def encode(self, prompt: str, pieces: Sequence[Piece]) -> Encoded:
        """Encode a solution; each piece is tokenised on its own, as it was for the policy."""
        in_prompt = dict.fromkeys(numbers(IN_TEXT, prompt)) if "numbers" in self._inputs else {}
        known = {number: min(place, NUMBERS - 2) for place, number in enumerate(in_prompt, 1)}
        ids: list[int] = []
        marks: list[int] = []
        logprobs: list[float | None] = []
        solution_start = len(self._encode(prompt)[0])
        for text, kind, piece_logprobs in (Piece(prompt), *pieces):
            if kind == "values" and "values" not in self._inputs:
                continue
            tokens, spans = self._encode(text)
            pattern = IN_CODE if len(ids) >= solution_start else IN_TEXT
            marked = "numbers" in self._inputs and kind != "values"
            ids += tokens
            marks += _marks(pattern, text, spans, known) if marked else [0] * len(tokens)
            logprobs += _aligned(piece_logprobs if self.reads_logprobs else (), len(tokens))
        return Encoded(ids, marks, logprobs, len(set(known.values())), solution_start)

    def _encode_text(self, text: str) -> tuple[list[int], list[tuple[int, int]]]:
        encoding = self._tokenizer.encode(text, add_special_tokens=False)
        return encoding.ids, encoding.offsets


def pieces(steps: Iterable[Step]) -> list[Piece]:
    """Convert steps to pieces: each step's written text, new variable values, and shown text."""
    parts: list[Piece] = []
    for step in steps:
        values = "".join(f"\n> {name} = {value}" for name, value in step.values)
        parts.append(Piece(step.written.text, "written", step.written.logprobs or ()))
        parts += [Piece(values, "values"), Piece(step.shown, "shown")]
    return [part for part in parts if part.text]


def join(solutions: Sequence[Encoded]) -> Row:
    """Join solutions of one problem into one row."""
    # A number's mark depends on all its digits, so tokens are shared only if their marks are equal, too.
    keys = [[i * NUMBERS + n for i, n in zip(each.ids, each.numbers, strict=True)] for each in solutions]
    trie = build_trie(keys)
    features = [features_of(solution) for solution in solutions]
    key = np.asarray([keys[number][place] for number, place in trie.sources.tolist()], np.int64)
    of_tokens = np.stack([features[number][place] for number, place in trie.sources.tolist()])
    return Row(trie, key // NUMBERS, key % NUMBERS, of_tokens)


def rounded(length: int) -> int:
    """Round `length` up to a multiple of `LENGTH_STEP`."""
    return -(-length // LENGTH_STEP) * LENGTH_STEP


def collate_rows(rows: Sequence[Row]) -> Rows:
    """Pad rows to one batch, its length rounded up to a multiple of `LENGTH_STEP`."""
    length = rounded(max(map(len, rows)))
    whole = np.zeros((3, len(rows), length), np.int64)
    whole[2] = np.arange(1, length + 1)  # padding attends to itself, so no softmax is over zero tokens
    features = np.zeros((len(rows), length, FEATURES), np.float32)
    for number, row in enumerate(rows):
        whole[:, number, : len(row)] = row.ids, row.numbers, row.trie.ends
        features[number, : len(row)] = row.features
    which = np.concatenate([np.full(len(row.trie.last), number) for number, row in enumerate(rows)])
    last = np.concatenate([row.trie.last for row in rows])
    return Rows(*torch.from_numpy(whole).unbind(0), *map(torch.from_numpy, (features, which, last)))


def _marks(
    pattern: re.Pattern[str], text: str, spans: Sequence[tuple[int, int]], known: dict[Decimal, int]
) -> list[int]:
    """Mark each token with the number it belongs to; 0 for other tokens."""
    marks = [0] * len(spans)
    place = 0
    for match in pattern.finditer(text):
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
    """Log-probabilities of `count` tokens; if the policy's token count differs, equal shares of their sum."""
    if not logprobs or not count:
        return [None] * count
    return list(logprobs) if len(logprobs) == count else [sum(logprobs) / count] * count


def features_of(solution: Encoded) -> npt.NDArray[np.float32]:
    """Features (T, `FEATURES`), scaled to order 1."""
    known = np.asarray([value is not None for value in solution.logprobs], np.float32)
    logprobs = np.asarray([max(value or 0.0, -20.0) for value in solution.logprobs], np.float32)
    columns = [logprobs / 4, np.exp(logprobs), np.cumsum(logprobs) / 8, np.ones_like(logprobs)]
    of_policy = np.stack(columns, axis=1) * known[:, None]
    counts = np.zeros((len(solution), 2), np.float32)
    if solution.question_numbers:
        used: set[int] = set()
        others, before = 0, 0
        for place in range(solution.solution_start, len(solution)):
            mark = solution.numbers[place]
            if mark == NUMBERS - 1:
                others += mark != before  # a number may span several tokens
            elif mark:
                used.add(mark)
            before = mark
            counts[place] = (solution.question_numbers - len(used)) / 2, others / 4
    return np.concatenate([of_policy, counts], axis=1)
