"""Advantages of the rollouts of one group, as pure functions of their rewards.

All compare a rollout with the others of its group, so they need no value model. Groups whose rewards are all equal have
advantages of 0 and are dropped before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import fmean, pstdev

EPSILON = 1e-6

Advantage = Callable[[Sequence[float]], list[float]]


def normalized(rewards: Sequence[float]) -> list[float]:
    """(r − mean) / std, with the population's deviation (GRPO, arXiv 2402.03300, equation 3)."""
    mean, deviation = fmean(rewards), pstdev(rewards)
    return [(reward - mean) / (deviation + EPSILON) for reward in rewards]


def centered(rewards: Sequence[float]) -> list[float]:
    """The reward − mean: problems of extreme difficulty do not count more (Dr. GRPO, arXiv 2503.20783)."""
    mean = fmean(rewards)
    return [reward - mean for reward in rewards]


def turn_baselines(advantages: Sequence[float], turns: Sequence[int]) -> list[float]:
    """Mean advantage of the rollouts that reached each turn.

    A rollout that goes on has not solved its problem yet, so rollouts with late turns have lower rewards than others.
    Compared with the group, these turns are discouraged whatever they do, which is noise. Compared with the rollouts
    that came as far, they are not. Whether a rollout reaches a turn depends on earlier turns only, so the baseline adds
    no bias, apart from the rollout's own part in the mean, as in GRPO.

    Args:
        advantages: of all rollouts of a group.
        turns: number of turns of each.

    Returns:
        One baseline per turn of the longest rollout.
    """
    reached = ([one for one, many in zip(advantages, turns, strict=True) if many > turn] for turn in range(max(turns)))
    return [fmean(found) for found in reached]


def leave_one_out(rewards: Sequence[float]) -> list[float]:
    """The reward − the mean of the others: an unbiased baseline (RLOO, arXiv 2402.14740)."""
    total, others = sum(rewards), max(1, len(rewards) - 1)
    return [reward - (total - reward) / others for reward in rewards]
