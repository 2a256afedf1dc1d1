"""The guard against collapse: what counts as one, and what does not."""

import pytest

from rstar.rl.guard import Guard


def fallen(rewards: list[float], share: float = 0.5, starts: tuple[int, ...] = (1,)) -> int | None:
    """The step at which the guard notices a collapse."""
    guard = Guard(share, starts)
    for step, reward in enumerate(rewards, 1):
        guard.add(step, reward)
        if guard.collapsed:
            return step
    return None


@pytest.mark.parametrize(
    ("rewards", "step"),
    [
        ([0.8] * 10 + [0.0] * 10, 16),  # six steps without a reward: the mean is 0.32, below 0.4
        ([0.8] * 10 + [0.5] * 20, None),
        ([0.0] * 30, None),
        ([-0.4] * 30, None),
        ([0.8] * 9, None),
    ],
)
def test_a_collapse_is_a_mean_far_below_the_best(rewards: list[float], step: int | None) -> None:
    assert fallen(rewards) == step


def test_a_harder_stage_is_no_collapse() -> None:
    rewards = [0.8] * 10 + [0.1] * 20
    assert fallen(rewards, starts=(1, 11)) is None
    assert fallen([*rewards, *[0.0] * 10], starts=(1, 11)) == 36


def test_a_collapse_is_not_forgotten() -> None:
    guard = Guard(0.5, (1,))
    for step in range(1, 60):
        guard.add(step, float(step <= 10 or step > 30))
    assert guard.collapsed
