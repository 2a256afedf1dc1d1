"""Rewards for training, from gold answers. Inference-time search never sees one."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from rstar.answers import AnswerKey
from rstar.grading import verify
from rstar.problems import Problem

Reward = Callable[[Problem, str], float]
"""The reward of an answer to a problem, in [-1, 1]."""

RIGHT, WRONG = 1.0, -1.0
"""Rewards of verified answers."""


def verified(keys: Mapping[str, AnswerKey]) -> Reward:
    """Reward `RIGHT` if the problem's key accepts the answer, else `WRONG`; every problem needs a key."""

    def reward(problem: Problem, answer: str) -> float:
        return RIGHT if verify(keys[problem.id], answer).correct else WRONG

    return reward
