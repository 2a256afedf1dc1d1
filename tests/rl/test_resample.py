"""Resample on correct: proportions, minima, and the preference for clean rollouts."""

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rstar.rl.resample import MIN_KEPT, SMOOTHING, downsample, penalty, resample_on_correct, shares
from rstar.trajectories import Segment, Step, ToolCall, Trajectory

COUNTS = st.integers(0, 40)


def rollout(*turns: tuple[str, tuple[str, ...]]) -> Trajectory:
    return Trajectory(
        Segment("q", "template"),
        tuple(
            Step((Segment(text, "policy"),), calls=tuple(ToolCall("f", {}, status, "") for status in statuses))
            for text, statuses in turns
        ),
        "answer",
    )


DONE = ("<answer>1</answer>", ())


@pytest.mark.parametrize(
    ("trajectory", "expected"),
    [
        (rollout(("c", ("ok",)), DONE), 0.0),
        (rollout(DONE), 0.5),
        (rollout(("c", ("ok", "error")), ("c", ("bad_call", "ok")), DONE), 0.5),
        (rollout(("c", ("timeout",)), ("no answer", ())), 2.0),
        (rollout(("c", ("ok",)), ("<answer>1</answer><answer>2</answer>", ())), 0.5),
        (rollout(("c", ("ok",)), ("<end_of_answer>", ())), 0.0),
        (rollout(("c", ("ok",)), ("an Error in words", ()), DONE), 0.0),
    ],
)
def test_penalties_by_hand(trajectory: Trajectory, expected: float) -> None:
    assert penalty(trajectory) == pytest.approx(expected)


def test_without_answer_tags_the_form_is_proper_if_there_is_an_answer() -> None:
    program = rollout(("c", ("ok",)), ("```python\nprint(1)\n```", ()))
    assert penalty(replace(program, answer="print(1)"), tagged=False) == 0.0
    assert penalty(program, tagged=False) == 1.0


@given(COUNTS, COUNTS, st.integers(1, 40))
def test_shares_keep_their_number_and_proportion(right: int, wrong: int, keep: int) -> None:
    kept_right, kept_wrong = shares(right, wrong, keep)
    assert kept_right + kept_wrong == min(keep, right + wrong)
    assert 0 <= kept_right <= right
    assert 0 <= kept_wrong <= wrong
    if keep >= 2 * MIN_KEPT:
        assert kept_right >= min(MIN_KEPT, right)
        assert kept_wrong >= min(MIN_KEPT, wrong)
    if right + wrong > keep and min(kept_right, kept_wrong) > MIN_KEPT:
        assert abs(kept_right - keep * right / (right + wrong)) <= 0.5


@given(
    st.lists(st.tuples(st.sampled_from([0.0, 1.0]), st.floats(0, 2)), max_size=40), st.integers(1, 20), st.integers()
)
def test_draws_are_repeatable_distinct_and_of_the_right_kinds(
    rollouts: list[tuple[float, float]], keep: int, seed: int
) -> None:
    rewards, penalties = [r for r, _ in rollouts], [p for _, p in rollouts]
    chosen = resample_on_correct(rewards, penalties, keep, random.Random(seed))
    assert chosen == resample_on_correct(rewards, penalties, keep, random.Random(seed))
    assert chosen == sorted(set(chosen))
    right = sum(rewards[i] > 0 for i in chosen)
    assert (right, len(chosen) - right) == shares(sum(map(bool, rewards)), rewards.count(0.0), keep)


def test_positives_are_drawn_inversely_to_their_penalty() -> None:
    rewards, penalties = [1.0, 1.0, 0.0, 0.0], [0.0, 0.45, 0.0, 0.0]
    rng, firsts, draws = random.Random(5), 0, 20_000
    for _ in range(draws):
        firsts += 0 in resample_on_correct(rewards, penalties, 2, rng)
    clean, sloppy = 1 / SMOOTHING, 1 / (0.45 + SMOOTHING)
    assert firsts / draws == pytest.approx(clean / (clean + sloppy), abs=0.01)


def test_negatives_are_drawn_uniformly_whatever_their_penalty() -> None:
    rewards, penalties = [1.0, 1.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.5, 2.0]
    rng, kept, draws = random.Random(7), [0, 0, 0], 20_000
    for _ in range(draws):
        for one in resample_on_correct(rewards, penalties, 3, rng):
            if one > 1:
                kept[one - 2] += 1
    assert sum(kept) == draws * shares(2, 3, 3)[1]
    assert [number / sum(kept) for number in kept] == pytest.approx([1 / 3] * 3, abs=0.015)


def test_the_control_is_blind_to_penalties() -> None:
    rng = random.Random(6)
    clean = sum(0 in downsample([1.0, 1.0, 0.0, 0.0], 2, rng) for _ in range(20_000))
    assert clean / 20_000 == pytest.approx(0.5, abs=0.015)
