"""Rewards: what an answer is worth to training, by gold answers. Inference-time search never sees one."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from rstar.answers import AnswerKey
from rstar.grading import verify
from rstar.problems import Problem

Reward = Callable[[Problem, str], float]
"""What an answer to a problem is worth, in [-1, 1]."""

RIGHT, WRONG = 1.0, -1.0
"""Verified rewards."""


def verified(keys: Mapping[str, AnswerKey]) -> Reward:
    """`RIGHT` for an answer that the key of its problem accepts, `WRONG` for any other; every problem needs a key."""

    def reward(problem: Problem, answer: str) -> float:
        return RIGHT if verify(keys[problem.id], answer).correct else WRONG

    return reward
