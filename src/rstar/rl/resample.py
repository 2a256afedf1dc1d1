"""Resample on correct: which rollouts of a group are trained on (GRPO-RoC, arXiv 2508.20722, section 3).

More rollouts are sampled than kept. Wrong ones are kept at random, as examples of how to fail; right ones by
preference for those with few failed tool calls and a proper form. So a right answer that was found in spite of sloppy
calls is seldom reinforced, and nothing is added to the reward that could be gamed.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from rstar.trajectories import Trajectory

MIN_KEPT = 2
"""Right and wrong rollouts that stay at least, where the group has them."""

SMOOTHING = 0.05
"""Added to a penalty before it is inverted: the paper does not say how a penalty of 0 is drawn."""

NO_CALL = 0.5
"""Penalty of a rollout without a tool call."""


def penalty(trajectory: Trajectory, *, tagged: bool = True) -> float:
    """How sloppy a rollout is, in [0, 2]: the share of its tool calls that failed, plus its defects of form.

    Without a call the share counts as `NO_CALL`. Without an answer the form counts as 1; with more than one, as the
    further answers per turn, at most 1. A call has failed by its own status, not by words in its response.

    Args:
        trajectory: a finished rollout.
        tagged: whether answers stand between tags; if not, one that was found has no defect of form.
    """
    calls = [call for step in trajectory.steps for call in step.calls]
    errors = sum(call.status != "ok" for call in calls) / len(calls) if calls else NO_CALL
    answers = sum(_answers(step.written.text) for step in trajectory.steps) if tagged else trajectory.answer is not None
    form = 1.0 if not answers else min(1.0, (answers - 1) / len(trajectory.steps))
    return errors + form


def _answers(text: str) -> int:
    """Number of complete answers in a turn, in either style of turns."""
    return text.count("</answer>") + text.count("<end_of_answer>")


def shares(right: int, wrong: int, keep: int) -> tuple[int, int]:
    """How many right and wrong rollouts stay of a group, if `keep` do.

    Their proportion stays, rounded; at least `MIN_KEPT` of each stay, where there are that many, and never more than
    there are. If the group has no more than `keep`, all stay.
    """
    if right + wrong <= keep:
        return right, wrong
    least = min(MIN_KEPT, right, keep // 2), min(MIN_KEPT, wrong, keep // 2)
    kept = round(keep * right / (right + wrong))
    kept = min(max(kept, least[0], keep - wrong), right, keep - least[1])
    return kept, keep - kept


def resample_on_correct(
    rewards: Sequence[float], penalties: Sequence[float], keep: int, rng: random.Random
) -> list[int]:
    """Indices of the rollouts that stay, in rising order.

    Args:
        rewards: of each rollout; right are those above 0.
        penalties: of each rollout, see `penalty`; right ones stay with probability inverse to theirs.
        keep: number of rollouts to keep.
        rng: draws; a seeded generator repeats them.
    """
    right = [i for i, reward in enumerate(rewards) if reward > 0]
    wrong = [i for i, reward in enumerate(rewards) if reward <= 0]
    many_right, many_wrong = shares(len(right), len(wrong), keep)
    weights = {i: 1 / (penalties[i] + SMOOTHING) for i in right}
    chosen = _weighted(right, weights, many_right, rng) + rng.sample(wrong, many_wrong)
    return sorted(chosen)


def downsample(rewards: Sequence[float], keep: int, rng: random.Random) -> list[int]:
    """The control: indices of rollouts that stay by uniform draws, in the same proportion."""
    return resample_on_correct(rewards, [0.0] * len(rewards), keep, rng)


def _weighted(items: Sequence[int], weights: dict[int, float], many: int, rng: random.Random) -> list[int]:
    """Draw `many` items without replacement, each time in proportion to their weights (Efraimidis and Spirakis)."""
    keys = {item: rng.random() ** (1 / weights[item]) for item in items}
    return sorted(items, key=keys.__getitem__, reverse=True)[:many]
