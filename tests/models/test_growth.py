"""Expectations of how rollouts grow."""

from __future__ import annotations

import random

import pytest

from rstar.models.growth import Growth


def test_the_first_guess() -> None:
    growth = Growth(2, 100, ends=0.5)
    assert growth.of_turn(0) == 100  # an exponential distribution forgets how long it has lasted
    assert growth.mean() == 100 + 0.5 * 100


def test_what_was_seen_outweighs_the_guess() -> None:
    growth = Growth(3, 1_000)
    for _ in range(1_000):
        growth.begin(0)
        growth.end(0, 10, last=False)
        growth.begin(1)
        growth.end(1, 30, last=True)
    assert growth.mean() == pytest.approx(40, rel=0.2)
    assert growth.of_turn(0) == pytest.approx(5, abs=100), "turns of equal length are half done at a random moment"


def test_turns_under_way_count_as_the_guess() -> None:
    """The turns that end first are the short ones."""
    growth = Growth(1, 1_000)
    for _ in range(100):
        growth.begin(0)
    for _ in range(10):
        growth.end(0, 10, last=True)
    assert growth.mean() > 800


def test_a_random_moment_sees_the_long_ones() -> None:
    rng = random.Random(1)
    growth = Growth(1, 500)
    lengths = [rng.choice((10, 2_000)) for _ in range(20_000)]
    for length in lengths:
        growth.begin(0)
        growth.end(0, length, last=True)
    seen = sum(length * length / 2 for length in lengths) / sum(lengths)
    assert growth.of_turn(0) == pytest.approx(seen, rel=0.01)
    assert growth.of_rollout() == pytest.approx(seen, rel=0.01)
    assert growth.mean() == pytest.approx(sum(lengths) / len(lengths), rel=0.01)


def test_later_turns_count_as_the_last() -> None:
    growth = Growth(2, 100)
    growth.begin(5)
    growth.end(5, 100, last=True)
    assert growth.of_turn(9) == growth.of_turn(1) == (100**2 + 2 * 100**2) / (2 * 200)


def test_a_turn_that_was_dropped_leaves_no_trace() -> None:
    growth, other = Growth(3, 100), Growth(3, 100)
    growth.begin(0)
    growth.end(0, 500, last=True)
    other.begin(0)
    other.begin(0)
    other.end(0, 500, last=True)
    assert growth.mean() != other.mean()
    other.abandon(0)
    assert growth.mean() == other.mean()
