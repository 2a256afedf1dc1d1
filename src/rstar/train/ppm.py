"""Training of a process preference model: ``pairs.jsonl`` in, a transformers folder out.

`rstar.evolve.extract` writes the data: each line is the compared part of a problem's search tree. A line is one row of
the model (`rstar.models.ppm.inputs`), in which each step of the tree is computed once. The loss is the mean over the
line's steps of the mean over a step's pairs.

The same data also trains two baselines (arXiv 2501.04519, section 4.3): regression on Q by mean squared error (``q``),
and an outcome reward model that separates right from wrong solutions (``outcome``).
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from rstar.errors import ConfigError, DataError
from rstar.models.decoder_files import DTYPES, copy_tokenizer, load_decoder, read_tokenizer
from rstar.models.ppm.inputs import Encoded, Input, Row, Rows, SolutionEncoder, collate_rows, join, pieces
from rstar.models.ppm.model import PreferenceModel, save_ppm
from rstar.train.folder import MODEL, model_folder, training_folder
from rstar.train.loop import MicroBatches, Progress, Trainer, run
from rstar.train.losses import outcome_loss, preference_loss, value_loss
from rstar.train.settings import TrainConfig
from rstar.trajectories import Step

Target = Literal["pairs", "q", "outcome"]

_ROUNDING = 1e-3
"""Tolerance for log-probabilities above 0."""


class PPMConfig(TrainConfig):
    """Training of a process preference model on the backbone of the policy `base`."""

    inputs: list[Input] = Field([], description="inputs besides the text: logprobs, numbers, values")
    target: Target = Field(
        "pairs", description="pairs | q (baseline: regression on Q) | outcome (baseline: right or wrong)"
    )


@dataclass(frozen=True, slots=True)
class Comparison:
    """Preference pairs of a step, as node indices. `kind` is ``step``, or ``final`` for whole solutions."""

    kind: str
    pairs: list[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class ComparedTree:
    """Compared part of a problem's tree: its nodes as one row, their Q, and the comparisons."""

    row: Row
    q: list[float]
    comparisons: list[Comparison]


@dataclass(frozen=True, slots=True)
class PairBatch:
    """A batch of L lines with N nodes and P pairs.

    Attributes:
        rows: the nodes.
        q: (N,) float32.
        shares: (N,) float32, 1 / (number of nodes in the node's line).
        pairs: (P, 2) int64, node indices.
        weights: (P,) float32, summing to 1 per line.
        final: (P,) bool, pairs of whole solutions.
        lines: L.
    """

    rows: Rows
    q: Tensor
    shares: Tensor
    pairs: Tensor
    weights: Tensor
    final: Tensor
    lines: int

    def to(self, device: torch.device) -> PairBatch:
        """Copy to another device."""
        names = ("rows", "q", "shares", "pairs", "weights", "final")
        return replace(self, **{name: getattr(self, name).to(device) for name in names})


def preference_batches(lines: Sequence[ComparedTree], config: TrainConfig) -> MicroBatches[PairBatch]:
    """Micro-batches of lines."""
    sizes, one_stage = np.asarray([len(line.row) for line in lines], np.int64), np.asarray([0, len(lines)], np.int64)
    return MicroBatches(sizes, one_stage, config, lambda items: collate_lines([lines[i] for i in items]))


class PreferenceObjective:
    """Mean loss over the lines of preference pairs, by the `target` of the settings."""

    def __init__(self, target: Target) -> None:
        self._target = target

    def count(self, batch: PairBatch) -> int:
        """Lines, that is problems."""
        return batch.lines

    def tokens(self, batch: PairBatch) -> int:
        """See `Objective`."""
        return batch.rows.ids.numel()

    def loss(self, model: PreferenceModel, batch: PairBatch) -> Tensor:
        """See `Objective`."""
        batch = batch.to(model.device)
        scores = model(batch.rows)
        if self._target == "q":
            return value_loss(scores, batch.q, batch.shares)
        if self._target == "outcome":
            return outcome_loss(scores, batch.pairs, batch.weights)
        return preference_loss(scores, batch.pairs, batch.weights)


def collate_lines(lines: Sequence[ComparedTree]) -> PairBatch:
    """Build a batch of lines, rows right-padded to a rounded common length."""
    pairs: list[tuple[int, int]] = []
    weights: list[float] = []
    final: list[bool] = []
    first = 0
    for line in lines:
        for comparison in line.comparisons:
            count = len(comparison.pairs)
            pairs += [(first + better, first + other) for better, other in comparison.pairs]
            weights += [1 / (count * len(line.comparisons))] * count
            final += [comparison.kind == "final"] * count
        first += len(line.q)
    return PairBatch(
        collate_rows([line.row for line in lines]),
        torch.tensor([q for line in lines for q in line.q]),
        torch.tensor([1 / len(line.q) for line in lines for _ in line.q]),
        torch.tensor(pairs),
        torch.tensor(weights),
        torch.tensor(final),
        len(lines),
    )


def read_pairs(file: Path, encoder: SolutionEncoder, max_length: int) -> Iterator[ComparedTree]:
    """Yield lines whose solutions fit `max_length` tokens. Raises `DataError` with file and line."""
    with file.open("rb") as lines:
        for number, text in enumerate(lines, 1):
            try:
                solutions, line = _line(json.loads(text), encoder)
            except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
                raise DataError(f"{file}:{number}: not a line of preference pairs: {error!r}") from error
            if max(map(len, solutions)) <= max_length:
                yield line


def _line(entry: dict[str, Any], encoder: SolutionEncoder) -> tuple[list[Encoded], ComparedTree]:
    steps = paths_of(entry["nodes"])
    comparisons = [Comparison(step["kind"], [(i, j) for i, j in step["pairs"]]) for step in entry["steps"]]
    nodes = range(len(steps))
    pairs = [pair for comparison in comparisons for pair in comparison.pairs]
    valid = all(i != j and type(i) is type(j) is int and i in nodes and j in nodes for i, j in pairs)
    if not (comparisons and valid and all(comparison.pairs for comparison in comparisons)):
        raise ValueError("'pairs': expected index pairs of two different 'nodes'")
    q = [float(node["q"]) for node in entry["nodes"]]
    logprobs = [value for path in steps for value in path[-1].written.logprobs or ()]
    if not all(-1 <= value <= 1 for value in q) or not all(-math.inf < value <= _ROUNDING for value in logprobs):
        raise ValueError("Q outside [-1, 1], or log-probability above 0 or not finite")
    if encoder.reads_logprobs and any(path[-1].lacks_logprobs for path in steps):
        raise ValueError(
            "the log-probabilities that this model reads are missing; search with search.record_tokens = true"
        )
    solutions = [encoder.encode(entry["prompt"], pieces(path)) for path in steps]
    return solutions, ComparedTree(join(solutions), q, comparisons)


def paths_of(nodes: Sequence[dict[str, Any]]) -> list[list[Step]]:
    """Steps from the root to each node of a line. Raises `ValueError` if the nodes do not form trees."""
    paths: list[list[Step]] = []
    for node in nodes:
        if not -1 <= node["parent"] < len(paths):
            raise ValueError("the 'parent' of a node must come before it")
        before = [] if node["parent"] < 0 else paths[node["parent"]]
        paths.append([*before, Step.from_json(node)])
    return paths


def train_ppm(config: PPMConfig, data: Sequence[Path], folder: Path, report: Callable[[Progress], None]) -> Path:
    """Train a PPM on the backbone of policy `config.base`; returns the folder of the finished model.

    Raises:
        ConfigError: `base` is not set.
        DataError: invalid lines, or no pairs.
        ResumeError: `folder` has another configuration or other data, or is in use by another process.
    """
    base = config.base
    if base is None:
        raise ConfigError("base: missing; set it to the folder of the policy that the PPM starts from")
    with training_folder(config, data, folder) as (config, ranks):
        encoder = SolutionEncoder(read_tokenizer(base), config.inputs)
        max_length = config.shape.max_context
        lines = [line for file in data for line in read_pairs(file, encoder, max_length)]
        if config.target == "outcome":
            finals = [[part for part in line.comparisons if part.kind == "final"] for line in lines]
            lines = [replace(line, comparisons=final) for line, final in zip(lines, finals, strict=True) if final]
        if not lines:
            raise DataError(f"{', '.join(map(str, data))}: no pairs of at most {max_length} tokens")
        model = PreferenceModel(load_decoder(base, torch.float32), config.inputs, seed=config.seed)
        trainer = Trainer(model, PreferenceObjective(config.target), config, ranks)
        run(trainer, preference_batches(lines, config), folder, report)
        if (trained := trainer.full_model()) is not None:
            with model_folder(folder) as out:
                save_ppm(trained, out, DTYPES[config.save_dtype])
                copy_tokenizer(base, out)
        return folder / MODEL


@torch.no_grad()
def pair_scores(
    model: PreferenceModel, lines: Sequence[ComparedTree], batch_lines: int = 32
) -> Iterator[tuple[str, float]]:
    """Yield the kind of each pair, and its margin: the preferred node's score minus the other's."""
    for first in range(0, len(lines), batch_lines):
        batch = collate_lines(lines[first : first + batch_lines]).to(model.device)
        scores = model(batch.rows)
        margins = scores[batch.pairs[:, 0]] - scores[batch.pairs[:, 1]]
        for final, margin in zip(batch.final.tolist(), margins.tolist(), strict=True):
            yield "final" if final else "step", margin
