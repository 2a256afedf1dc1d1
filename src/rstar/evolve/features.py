"""Simple features of solutions, and a logistic regression on them: the baseline for preference models.

The features need no model: log-probabilities of the policy, lengths, and the numbers of the question that the solution
uses. Like a PPM, the regression is trained on pairs: a is better than b with probability σ(w · (f(a) − f(b))).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from rstar.grading.find.boxes import boxed
from rstar.models.ppm.inputs import Piece, pieces
from rstar.prompts.numbers import IN_CODE, IN_TEXT, numbers
from rstar.train.ppm import paths_of

Floats = npt.NDArray[np.float64]


def named_features(question: str, solution: Sequence[Piece]) -> dict[str, float]:
    """Features of a solution, or of its beginning."""
    logprobs = [np.asarray(piece.logprobs) for piece in solution if len(piece.logprobs)]
    all_logprobs = np.concatenate(logprobs) if logprobs else np.zeros(1)
    written = "\n".join(piece.text for piece in solution if piece.kind == "written")
    given, used = numbers(IN_TEXT, question), numbers(IN_CODE, written)
    known = {value for value in used if value in given or 100 * value in given}
    answer = next(
        (found for piece in reversed(solution) if piece.kind != "values" and (found := boxed(piece.text))), ""
    )
    return {
        "sum of log-probabilities": all_logprobs.sum(),
        "mean log-probability": all_logprobs.mean(),
        "least log-probability": all_logprobs.min(),
        "least mean log-probability of a piece": min((float(part.mean()) for part in logprobs), default=0.0),
        "tokens": len(all_logprobs) / 100,
        "steps": written.count("<end_of_"),
        "characters": len(written) / 100,
        "numbers that are not in the question": len(set(used) - known),
        "numbers of the question that are not used": sum(
            value not in used and value / 100 not in used for value in set(given)
        ),
        "number of the question used more than once": sum(used.count(value) > 1 for value in set(given)),
        "answer is no whole number": "." in answer or "/" in answer,
        "answer is negative": answer.startswith("-"),
        "answer is longer than five characters": len(answer) > 5,
    }


def features(question: str, solution: Sequence[Piece]) -> Floats:
    """(F,) the values of `named_features`."""
    return np.asarray([*named_features(question, solution).values()], np.float64)


def fit(better: Floats, other: Floats, decay: float = 1e-3, rounds: int = 50) -> Floats:
    """Fit the regression by Newton's method.

    Args:
        better, other: (P, F) features of the two sides of each pair.
        decay: L2 penalty per pair, on standardised features.
        rounds: maximum number of Newton steps.

    Returns:
        (F,) weights of the unscaled features.
    """
    difference = better - other
    scale = np.concatenate([better, other]).std(axis=0)
    scale[scale == 0] = 1.0
    x = difference / scale
    weights = np.zeros(x.shape[1])
    for _ in range(rounds):
        p = 1 / (1 + np.exp(np.clip(x @ weights, -30, 30)))  # probability of misordering the pair
        gradient = x.T @ p / len(x) - decay * weights
        hessian = (x * (p * (1 - p))[:, None]).T @ x / len(x) + decay * np.eye(len(weights))
        step = np.linalg.solve(hessian, gradient)
        weights += step
        if np.abs(step).max() < 1e-8:
            break
    return np.asarray(weights / scale)


def pairs_of(file: Path, kind: str) -> Iterator[tuple[Floats, Floats]]:
    """Yield the features of both sides of each pair of a kind (``step`` or ``final``) in a ``pairs.jsonl``."""
    with file.open(encoding="utf-8") as lines:
        for text in lines:
            line = json.loads(text)
            solutions = [pieces(path) for path in paths_of(line["nodes"])]
            for compared in line["steps"]:
                if compared["kind"] == kind:
                    for better, other in compared["pairs"]:
                        yield features(line["prompt"], solutions[better]), features(line["prompt"], solutions[other])
