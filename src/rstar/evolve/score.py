"""Quality of preference models: accuracy on pairs, calibration, and use for choosing among solutions.

Measure on problems that neither policy nor PPM has seen. Baselines without a model: the majority, the policy's
log-probabilities, a random solution, and a regression on simple features.
"""

from __future__ import annotations

import asyncio
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
from rstar.models.device import few_threads
from rstar.models.ppm.inputs import Piece, pieces
from rstar.models.ppm.scorer import Scorer
from rstar.prompts.code_steps import prompt
from rstar.runs import RESULTS, TREES
from rstar.search.choose import Group, Votes, weighted_vote
from rstar.train.ppm import pair_scores, read_pairs
from rstar.trees import Tree

BINS = 8


@dataclass(frozen=True, slots=True)
class Bin:
    """Pairs of similar margin: their number, the PPM's mean confidence, and its accuracy."""

    n: int
    confidence: float
    accuracy: float


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
        bins: equally many pairs each, by rising margin; `Bin.confidence` is the mean of σ(|r⁺ − r⁻|).
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
    scorer = Scorer(folder, device="cpu")
    trees = list(read_pairs(pairs, scorer.encoder, scorer.model.config.max_position_embeddings))
    problems = [
        number for number, tree in enumerate(trees) for comparison in tree.comparisons for _ in comparison.pairs
    ]
    margins: dict[str, dict[int, list[float]]] = {}
    with few_threads(scorer.model):
        for problem, (kind, margin) in zip(problems, pair_scores(scorer.model, trees), strict=True):
            margins.setdefault(kind, {}).setdefault(problem, []).append(margin)
    if not margins:
        raise DataError(f"{pairs}: contains no pairs")
    return [_accuracy(kind, list(found.values())) for kind, found in sorted(margins.items())]


def _accuracy(kind: str, problems: Sequence[Sequence[float]]) -> PairAccuracy:
    """`problems`: the margins of the pairs of each problem."""
    margins = np.concatenate([np.asarray(own) for own in problems])
    low, high = clustered_wilson([(sum(margin > 0 for margin in own), len(own)) for own in problems])
    order = np.argsort(np.abs(margins), kind="stable")
    bins = []
    for part in np.array_split(margins[order], min(BINS, len(margins))):
        confidence = 1 / (1 + np.exp(-np.abs(part)))
        bins.append(Bin(len(part), float(confidence.mean()), float((part > 0).mean())))
    return PairAccuracy(kind, len(margins), len(problems), int((margins > 0).sum()), low, high, bins)


def read_candidates(run: Path) -> list[tuple[str, list[Candidate]]]:
    """The question and the answered solutions of every graded problem of a run folder.

    Raises:
        DataError: there are no trees, or no log-probabilities in them (``search.record_tokens``).
    """
    for name in (RESULTS, TREES):
        if not (run / name).exists():
            raise DataError(f"{run}: {name} is missing")
    trees = {line["id"]: line for line in read_lines(run / TREES)}
    found: list[tuple[str, list[Candidate]]] = []
    for record in read_lines(run / RESULTS):
        if "correct" not in record:  # no gold answer
            continue
        right = {row["answer"]: row["correct"] for row in record["trajectories"]}
        tree = trees.get(record["id"])
        ends = [] if tree is None else [trajectory for _, trajectory in Tree.from_json(tree).ends()]
        if any(end.lacks_logprobs for end in ends):
            raise DataError(f"{run / TREES}: lacks log-probabilities; solve with --set search.record_tokens=true")
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
    solutions = [candidates for _, candidates in problems]
    groups = asyncio.run(_grouped(solutions))
    rows: dict[str, list[float]] = {
        "oracle (any correct)": [any(c.correct for c in candidates) for candidates in solutions],
        "random distinct solution": [_random(candidates) for candidates in solutions],
        "majority": [_vote(own, group, [0.0] * len(own)) for own, group in zip(solutions, groups, strict=True)],
    }
    scores = {"log-probability": [[candidate.logprob for candidate in candidates] for candidates in solutions]}
    if training is not None:
        scores["regression on simple features"] = _regression(problems, training)
    for folder in ppms:
        scores[f"PPM {folder}"] = _ppm_logits(problems, folder)
    for name, logits in scores.items():
        rows[f"{name}: best"] = [
            float(own[int(np.argmax(logit))].correct) if own else 0.0
            for own, logit in zip(solutions, logits, strict=True)
        ]
        rows[f"{name}: weighted majority"] = [*map(_vote, solutions, groups, logits)]
    base = rows["majority"]
    found = []
    for name, right in rows.items():
        whole = name not in ("majority", "random distinct solution")
        p = sign_test([(a > 0.5, b > 0.5) for a, b in zip(base, right, strict=True)]) if whole else None
        found.append(Choice(name, len(right), float(np.mean(right)), p))
    return found


async def _grouped(problems: Sequence[Sequence[Candidate]]) -> list[list[Group]]:
    """The group of equivalent answers of each solution of each problem."""
    votes = [(Votes(is_equivalent), candidates) for candidates in problems]
    return [[await found.group(candidate.answer) for candidate in candidates] for found, candidates in votes]


def _vote(solutions: Sequence[Candidate], groups: Sequence[Group], logits: Sequence[float]) -> float:
    """Whether the answer with the most votes is right, each vote weighted by exp(logit)."""
    if not solutions:
        return 0.0
    weights = [one.votes * math.exp(logit - max(logits)) for one, logit in zip(solutions, logits, strict=True)]
    return float(solutions[weighted_vote(groups, weights)].correct)


def _random(solutions: Sequence[Candidate]) -> float:
    """Share of right ones among the distinct solutions."""
    distinct = {tuple(piece.text for piece in solution.pieces): solution.correct for solution in solutions}
    return sum(distinct.values()) / len(distinct) if distinct else 0.0


Problems = Iterable[tuple[str, Sequence[Candidate]]]


def _regression(problems: Problems, training: Path) -> list[list[float]]:
    pairs = list(pairs_of(training, "final"))
    if not pairs:
        raise DataError(f"{training}: contains no pairs of whole solutions")
    weights = fit(np.stack([better for better, _ in pairs]), np.stack([other for _, other in pairs]))
    return [
        [float(features(prompt(question), candidate.pieces) @ weights) for candidate in candidates]
        for question, candidates in problems
    ]


def _ppm_logits(problems: Problems, folder: Path) -> list[list[float]]:
    """The PPM's logits, clipped: twice the value before the tanh, so that differences are log-odds."""
    scorer = Scorer(folder, device="cpu")
    found: list[list[float]] = []
    for question, candidates in problems:
        encoded = [scorer.encoder.encode(prompt(question), candidate.pieces) for candidate in candidates]
        scores = scorer.compute(encoded)
        found.append((2 * torch.atanh(torch.tensor(scores, dtype=torch.float64).clamp(-0.9999, 0.9999))).tolist())
    return found
