"""Training a process preference model from pairs: ``pairs.jsonl`` in, a transformers folder out.

A line of the data is what `rstar.evolve.extract` writes: candidates that share a prompt and a prefix, and which of them
is preferred to which. All candidates of a line are in one micro-batch; the loss is the mean over lines of the mean over
a line's pairs. The prompt is tokenised on its own, as it is at inference.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer
from torch import Tensor

from rstar.errors import ConfigError, DataError
from rstar.models.decoder_files import copy_tokenizer, load_decoder
from rstar.models.ppm import PreferenceModel, save_ppm
from rstar.runs import lock_folder
from rstar.train.data import IntArray, rounded
from rstar.train.loop import Progress, Steps, Trainer
from rstar.train.losses import preference_loss
from rstar.train.settings import TrainConfig
from rstar.train.sft import claim

Line = tuple[list[IntArray], list[tuple[int, int]]]
"""Token ids of the candidates, and (preferred, other) pairs of them."""


@dataclass(frozen=True, slots=True)
class PairBatch:
    """Candidates of several lines: ids (B, T) and last (B,) int64, pairs (P, 2) int64 of rows, weights (P,) float32."""

    ids: Tensor
    last: Tensor
    pairs: Tensor
    weights: Tensor
    lines: int


class Preferences:
    """The objective of a PPM, over lines of candidates."""

    def __init__(self, lines: Sequence[Line], config: TrainConfig) -> None:
        self._lines = lines
        sizes = np.asarray([len(found) * rounded(max(map(len, found))) for found, _ in lines], np.int64)
        self._steps = Steps(sizes, np.asarray([0, len(lines)], np.int64), config)
        self.tokens_per_step = self._steps.tokens_per_step()

    def micro_batches(self, step: int) -> list[PairBatch]:
        """See `Objective`."""
        return [collate_pairs([self._lines[row] for row in rows]) for rows in self._steps.rows(step)]

    def count(self, batch: PairBatch) -> int:
        """Lines, which are steps of trees."""
        return batch.lines

    def tokens(self, batch: PairBatch) -> int:
        """See `Objective`."""
        return batch.ids.numel()

    def loss(self, model: PreferenceModel, batch: PairBatch) -> Tensor:
        """See `Objective`."""
        device = model.device
        parts = (batch.ids, batch.last, batch.pairs, batch.weights)
        return preference_loss(model, *(part.to(device) for part in parts))


def collate_pairs(lines: Sequence[Line]) -> PairBatch:
    """Lines as one batch: all their candidates, padded at the right to a rounded common length."""
    rows = [ids for candidates, _ in lines for ids in candidates]
    ids = np.zeros((len(rows), rounded(max(map(len, rows)))), np.int64)
    for place, row in enumerate(rows):
        ids[place, : len(row)] = row
    pairs: list[tuple[int, int]] = []
    weights: list[float] = []
    first = 0
    for candidates, some in lines:
        pairs += [(first + better, first + other) for better, other in some]
        weights += [1 / len(some)] * len(some)
        first += len(candidates)
    last = torch.tensor([len(row) - 1 for row in rows])
    return PairBatch(torch.from_numpy(ids), last, torch.tensor(pairs), torch.tensor(weights), len(lines))


def read_pairs(file: Path, tokenizer: Tokenizer, max_length: int) -> Iterator[Line]:
    """The lines of a file whose candidates fit `max_length` tokens. Raises `DataError` that names file and line."""
    with file.open(encoding="utf-8") as lines:
        for number, text in enumerate(lines, 1):
            try:
                line = _line(json.loads(text), tokenizer)
            except (ValueError, KeyError, TypeError, IndexError) as error:
                raise DataError(f"{file}:{number}: not a line of preference pairs: {error!r}") from error
            if all(len(ids) <= max_length for ids in line[0]):
                yield line


def _line(entry: dict[str, Any], tokenizer: Tokenizer) -> Line:
    def encode(text: str) -> list[int]:
        return list(tokenizer.encode(text, add_special_tokens=False).ids)

    start, chosen, rejected = encode(entry["prompt"]), entry["chosen"], entry["rejected"]
    candidates = [np.asarray(start + encode(entry["prefix"] + text), np.int32) for text in (*chosen, *rejected)]
    pairs = [(i, len(chosen) + j) for i, j in entry["pairs"]]
    if not pairs or any(not 0 <= i < len(chosen) <= j < len(candidates) for i, j in pairs):
        raise ValueError("'pairs' are no indices of 'chosen' and 'rejected'")
    return candidates, pairs


@torch.no_grad()
def pair_accuracy(model: PreferenceModel, lines: Sequence[Line], rows: int = 64) -> float:
    """The share of pairs whose preferred candidate has the higher score; ties count half."""
    right = total = 0.0
    for first in range(0, len(lines), rows):
        batch = collate_pairs(lines[first : first + rows])
        scores = model(batch.ids.to(model.device), batch.last.to(model.device)).cpu()
        difference = scores[batch.pairs[:, 0]] - scores[batch.pairs[:, 1]]
        right += float((difference > 0).sum()) + 0.5 * float((difference == 0).sum())
        total += len(difference)
    return right / total if total else float("nan")


def train_ppm(config: TrainConfig, data: Sequence[Path], folder: Path, report: Callable[[Progress], None]) -> Path:
    """Train a PPM on the backbone of the policy that `config.base` names, and return the folder of the finished model.

    Raises:
        ConfigError: no base.
        DataError: bad lines, or no pairs.
        ResumeError: `folder` was written with another configuration or other data, or is in use by another process.
    """
    base = config.base
    if base is None:
        raise ConfigError("a PPM begins from a policy: set `base` to its folder")
    if config.threads:
        torch.set_num_threads(config.threads)
    lock = lock_folder(folder)
    try:
        claim(config, data, folder)
        tokenizer = Tokenizer.from_file(str(base / "tokenizer.json"))
        most = config.shape.max_context
        lines: list[Line] = [line for file in data for line in read_pairs(file, tokenizer, most)]
        if not lines:
            raise DataError(f"{', '.join(map(str, data))}: no pairs of at most {most} tokens")
        model = PreferenceModel(load_decoder(base, torch.float32), seed=config.seed)
        Trainer(model, Preferences(lines, config), config, folder).run(report)
        out = folder / "model"
        save_ppm(model.cpu(), out)
        copy_tokenizer(base, out)
        return out
    finally:
        os.close(lock)
