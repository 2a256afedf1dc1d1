"""Advantages: by hand, and what holds for all of them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rstar.rl.advantage import centered, leave_one_out, normalized, turn_baselines
from rstar.rl.algorithms import ALGORITHMS

REWARDS = st.lists(st.floats(0, 1), min_size=2, max_size=32)


def test_by_hand() -> None:
    rewards = [1.0, 0.0, 0.0, 0.0]
    assert normalized(rewards) == pytest.approx([3**0.5, *[-(3**-0.5)] * 3], abs=1e-4)
    assert centered(rewards) == [0.75, -0.25, -0.25, -0.25]
    assert leave_one_out(rewards) == pytest.approx([1, -1 / 3, -1 / 3, -1 / 3])


@pytest.mark.parametrize("name", list(ALGORITHMS))
@given(rewards=REWARDS)
def test_advantages_add_up_to_zero_and_follow_the_rewards(name: str, rewards: list[float]) -> None:
    found = ALGORITHMS[name].advantage(rewards)
    assert sum(found) == pytest.approx(0, abs=1e-6)
    for one, advantage in zip(rewards, found, strict=True):
        for other, less in zip(rewards, found, strict=True):
            assert one <= other or advantage >= less


@pytest.mark.parametrize("name", list(ALGORITHMS))
def test_equal_rewards_have_no_advantage(name: str) -> None:
    assert ALGORITHMS[name].advantage([1.0] * 8) == [0.0] * 8


def test_turns_are_compared_with_the_rollouts_that_reached_them() -> None:
    assert turn_baselines([1.0, 0.0, -1.0], [1, 3, 2]) == pytest.approx([0, -0.5, 0])


@given(rollouts=st.lists(st.tuples(st.floats(-2, 2), st.integers(1, 9)), min_size=1, max_size=32))
def test_advantages_of_a_turn_add_up_to_zero(rollouts: list[tuple[float, int]]) -> None:
    baselines = turn_baselines([one for one, _ in rollouts], [turns for _, turns in rollouts])
    assert len(baselines) == max(turns for _, turns in rollouts)
    for turn, baseline in enumerate(baselines):
        assert sum(one - baseline for one, turns in rollouts if turns > turn) == pytest.approx(0, abs=1e-6)
