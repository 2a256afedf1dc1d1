"""Quality of preference models: accuracy on pairs, calibration, and use for choosing among solutions.

Measure on problems that neither policy nor PPM has seen. Baselines without a model: the majority, the policy's
log-probabilities, a random solution, and a regression on simple features.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from rstar.errors import DataError
from rstar.evals.metrics import clustered_wilson, sign_test
from rstar.evolve.features import features, fit, pairs_of
from rstar.grading import is_equivalent
from rstar.jsonl import read_lines
from rstar.models.decoder_files import read_tokenizer
from rstar.models.device import few_threads
from rstar.models.ppm.inputs import Piece, Reader, collate_rows, join, pieces
from rstar.models.ppm.model import load_ppm
from rstar.prompts.code_steps import prompt
from rstar.runs import RESULTS, TREES
from rstar.train.data import LENGTH_STEP
from rstar.train.ppm import pair_scores, read_pairs
from rstar.trees import Tree

BINS = 8


@dataclass(frozen=True, slots=True)
class Bin:
    """Pairs of similar margin: their number, the PPM's mean confidence, and its accuracy."""

    n: int
    said: float
    right: float


@dataclass(frozen=True, slots=True)
class PairAccuracy:
    """How often the preferred side of a pair has the higher score.

    Attributes:
        kind: ``step``, or ``final`` for whole solutions.
        n: pairs.
        problems: that the pairs come from: lines of the file.
        right: correctly ordered pairs.
        low, high: 95% interval of right / n, clustered by problem (`clustered_wilson`): pairs of one problem share
            steps and solutions, so they carry less information than independent pairs.
        bins: equally many pairs each, by rising margin; `Bin.said` is the mean of σ(|r⁺ − r⁻|).
    """

    kind: str
    n: int
    problems: int
    right: int
    low: float
    high: float
    bins: list[Bin]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A solution of a problem: what a chooser sees of it, and whether it is right.

    Attributes:
        pieces: its texts, with log-probabilities.
        answer: its answer.
        votes: number of identical samples it represents.
        correct: only for counting.
    """

    pieces: list[Piece]
    answer: str
    votes: int
    correct: bool

    @property
    def logprob(self) -> float:
        """Sum over all text of the policy."""
        return sum(sum(piece.logprobs) for piece in self.pieces)


@dataclass(frozen=True, slots=True)
class Choice:
    """Performance of a chooser: expected accuracy, and p of the exact paired test against the majority."""

    name: str
    n: int
    accuracy: float
    p: float | None


def pair_accuracy(folder: Path, pairs: Path) -> list[PairAccuracy]:
    """Accuracy of the PPM in `folder` on a ``pairs.jsonl``, by kind of pair.

    Raises `ConfigError` if `folder` is not a PPM, and `DataError` for a file without pairs.
    """
    model = load_ppm(folder)
    reader = Reader(read_tokenizer(folder), model.inputs)
    lines = list(read_pairs(pairs, reader, model.config.max_position_embeddings))
    problems = [number for number, line in enumerate(lines) for one in line.comparisons for _ in one.pairs]
    margins: dict[str, dict[int, list[float]]] = {}
    with few_threads(model):
        for problem, (kind, margin) in zip(problems, pair_scores(model, lines), strict=True):
            margins.setdefault(kind, {}).setdefault(problem, []).append(margin)
    if not margins:
        raise DataError(f"{pairs}: no pairs in it")
    return [_accuracy(kind, list(found.values())) for kind, found in sorted(margins.items())]


def _accuracy(kind: str, problems: Sequence[Sequence[float]]) -> PairAccuracy:
    """`problems`: the margins of the pairs of each problem."""
    margins = np.asarray([margin for some in problems for margin in some])
    low, high = clustered_wilson([(sum(margin > 0 for margin in some), len(some)) for some in problems])
    order = np.argsort(np.abs(margins), kind="stable")
    bins = []
    for some in np.array_split(margins[order], min(BINS, len(margins))):
        said = 1 / (1 + np.exp(-np.abs(some)))
        bins.append(Bin(len(some), float(said.mean()), float((some > 0).mean())))
    return PairAccuracy(kind, len(margins), len(problems), int((margins > 0).sum()), low, high, bins)


def read_candidates(run: Path) -> list[tuple[str, list[Candidate]]]:
    """The question and the answered solutions of every graded problem of a run folder.

    Raises:
        DataError: there are no trees, or no log-probabilities in them (``search.record_tokens``).
    """
    for name in (RESULTS, TREES):
        if not (run / name).exists():
            raise DataError(f"{run}: no {name} in it")
    trees = {line["id"]: line for line in read_lines(run / TREES)}
    found: list[tuple[str, list[Candidate]]] = []
    for record in read_lines(run / RESULTS):
        if "correct" not in record:  # no gold answer
            continue
        right = {row["answer"]: row["correct"] for row in record["trajectories"]}
        tree = trees.get(record["id"])
        ends = [] if tree is None else [trajectory for _, trajectory in Tree.of_plain(tree).ends()]
        if any(end.lacks_logprobs for end in ends):
            raise DataError(f"{run / TREES}: no log-probabilities in it; solve with --set search.record_tokens=true")
        solutions = [Candidate(pieces(end.steps), end.answer or "", end.votes, right[end.answer]) for end in ends]
        found.append((record["question"], solutions))
    return found


def choices(run: Path, ppms: Sequence[Path] = (), training: Path | None = None) -> list[Choice]:
    """Compare choosers on the solutions of a run.

    Args:
        run: folder of a run with ``sample`` or ``best-of-n`` and ``search.record_tokens``.
        ppms: folders of PPMs.
        training: a ``pairs.jsonl`` to fit the regression on; None: no regression.

    Raises:
        ConfigError, DataError: an input cannot be read.
    """
    problems = read_candidates(run)
    groups = [_groups(solutions) for _, solutions in problems]
    rows: dict[str, list[float]] = {
        "one right (the most that choosing can give)": [any(c.correct for c in some) for _, some in problems],
        "random distinct solution": [_random(some) for _, some in problems],
        "majority": [_vote(some, group, [0.0] * len(some)) for (_, some), group in zip(problems, groups, strict=True)],
    }
    scorers: dict[str, list[list[float]]] = {
        "log-probability": [[candidate.logprob for candidate in some] for _, some in problems]
    }
    if training is not None:
        scorers["regression on simple features"] = _regression(problems, training)
    for folder in ppms:
        scorers[f"PPM {folder}"] = _scores(problems, folder)
    for name, scores in scorers.items():
        together = list(zip(problems, groups, scores, strict=True))
        rows[f"{name}: best"] = [
            float(some[int(np.argmax(score))].correct) if some else 0.0 for (_, some), _, score in together
        ]
        rows[f"{name}: weighted majority"] = [_vote(some, group, score) for (_, some), group, score in together]
    base = rows["majority"]
    found = []
    for name, right in rows.items():
        whole = name not in ("majority", "random distinct solution")
        p = sign_test([(a > 0.5, b > 0.5) for a, b in zip(base, right, strict=True)]) if whole else None
        found.append(Choice(name, len(right), float(np.mean(right)), p))
    return found


def _groups(solutions: Sequence[Candidate]) -> list[int]:
    """The index of each solution's group of equivalent answers."""
    leaders: list[str] = []
    found: list[int] = []
    for solution in solutions:
        same = (number for number, leader in enumerate(leaders) if is_equivalent(leader, solution.answer))
        number = next(same, len(leaders))
        if number == len(leaders):
            leaders.append(solution.answer)
        found.append(number)
    return found


def _vote(solutions: Sequence[Candidate], groups: Sequence[int], logits: Sequence[float]) -> float:
    """Whether the answer with the most votes is right, each vote weighted by exp(logit)."""
    if not solutions:
        return 0.0
    top = max(logits)
    weights: dict[int, float] = {}
    for solution, group, logit in zip(solutions, groups, logits, strict=True):
        weights[group] = weights.get(group, 0.0) + solution.votes * math.exp(logit - top)
    best = max(weights, key=lambda group: weights[group])
    return float(solutions[groups.index(best)].correct)


def _random(solutions: Sequence[Candidate]) -> float:
    """Share of right ones among the distinct solutions."""
    distinct = {tuple(piece.text for piece in solution.pieces): solution.correct for solution in solutions}
    return sum(distinct.values()) / len(distinct) if distinct else 0.0


Problems = Iterable[tuple[str, Sequence[Candidate]]]


def _regression(problems: Problems, training: Path) -> list[list[float]]:
    pairs = list(pairs_of(training, "final"))
    if not pairs:
        raise DataError(f"{training}: no pairs of whole solutions in it")
    weights = fit(np.stack([better for better, _ in pairs]), np.stack([other for _, other in pairs]))
    return [[float(features(prompt(question), one.pieces) @ weights) for one in some] for question, some in problems]


@torch.inference_mode()
def _scores(problems: Problems, folder: Path) -> list[list[float]]:
    """The PPM's logits, clipped: twice the value before the tanh, so that differences are log-odds."""
    model = load_ppm(folder)
    reader = Reader(read_tokenizer(folder), model.inputs)
    found: list[list[float]] = []
    for question, some in problems:
        rows = [join([reader.encode(prompt(question), one.pieces) for one in some])] if some else []
        with few_threads(model):
            scores = model(collate_rows(rows, LENGTH_STEP)).double() if rows else torch.zeros(0)
        found.append((2 * torch.atanh(scores.clamp(-0.9999, 0.9999))).tolist())
    return found
