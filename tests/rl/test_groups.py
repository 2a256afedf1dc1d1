"""The rollouts of a step: no problem is preferred for being short, and none is lost or taken twice."""

import asyncio
import random
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rstar.rl.algorithms import ALGORITHMS
from rstar.rl.groups import Group, collect, majority_rewards, order, select
from rstar.trajectories import Segment, Step, Trajectory
from rstar.trees import Tree, TreeNode

PROMPT = Segment("q", "template", (1,))


def group(name: str, *ends: tuple[str | None, int, float]) -> Group:
    """A group of one turn: answer, votes and reward of each end."""
    root = TreeNode(None, None, 0, 0.0, None, sum(votes for _, votes, _ in ends), None, None)
    nodes = [root]
    for number, (answer, votes, _) in enumerate(ends):
        step = Step((Segment("x", "policy", (2 + number,), (-1.0,)),))
        finish = "no_answer" if answer is None else "answer"
        nodes.append(TreeNode(root, step, 0, 0.0, None, votes, finish, answer))
    root.children = nodes[1:]
    return Group(name, 0, Tree(PROMPT, nodes), tuple(reward for *_, reward in ends))


MIXED, EQUAL = (("1", 1, 1.0), ("2", 1, 0.0)), (("1", 2, 1.0),)


@given(st.lists(st.booleans(), min_size=1, max_size=40), st.integers(1, 8), st.randoms())
def test_the_problems_of_a_step_do_not_depend_on_which_end_first(
    kinds: list[bool], wanted: int, rng: random.Random
) -> None:
    def run(delays: list[int]) -> list[str]:
        async def make(name: str) -> Group:
            for _ in range(delays[int(name)]):
                await asyncio.sleep(0)
            return group(name, *(MIXED if kinds[int(name)] else EQUAL))

        names = map(str, range(len(kinds)))
        return [one.problem for one in asyncio.run(collect(names, len(kinds), wanted, make))]

    once = run([0] * len(kinds))
    assert once == run([rng.randrange(20) for _ in kinds])
    assert once == [str(number) for number in range(len(once))]
    good = sum(kinds[: len(once)])
    assert good == wanted or (good < wanted and len(once) == len(kinds))
    assert good <= wanted


def test_a_failing_group_ends_the_others() -> None:
    ended = []

    async def make(name: str) -> Group:
        if name == "2":
            raise ValueError("broken")
        try:
            await asyncio.sleep(60)
        finally:
            ended.append(name)
        raise AssertionError

    with pytest.raises(ValueError, match="broken"):
        asyncio.run(collect(iter("0123"), 4, None, make))
    assert sorted(ended) == ["0", "1", "3"]


@given(st.integers(1, 12), st.integers(0, 100), st.integers(0, 50))
def test_the_order_goes_on_where_it_stopped(n: int, seed: int, first: int) -> None:
    ids = [str(i) for i in range(n)]
    places, whole = zip(*islice(order(ids, seed, 0), first + 2 * n), strict=True)
    assert places == tuple(range(first + 2 * n))
    later = list(islice(order(ids, seed, first), 2 * n))
    assert later == list(zip(places, whole, strict=True))[first:]
    for start in range(0, first + n, n):
        assert sorted(whole[start : start + n]) == sorted(ids)


def test_a_line_is_read_back() -> None:
    one = group("p", *MIXED)
    again = Group.from_json(one.to_json(3))
    assert again.to_json(3) == one.to_json(3)
    assert again.rewards == one.rewards


def test_selection_counts_equal_rollouts_and_centres_their_advantages() -> None:
    one = group("p", ("1", 6, 1.0), ("2", 9, 0.0), (None, 1, 0.0))
    chosen = select(one, ALGORITHMS["grpo"], 8, seed=4)
    assert sum(each.count for each in chosen) == 8
    assert sum(each.count * each.advantage for each in chosen) == pytest.approx(0, abs=1e-5)
    assert select(one, ALGORITHMS["grpo"], 8, seed=4) == chosen
    assert sum(each.count for each in chosen if each.advantage > 0) == 3


def test_majority_rewards_need_no_gold_answer() -> None:
    def end(answer: str | None, votes: int) -> Trajectory:
        return Trajectory(PROMPT, (), None, answer, votes=votes)

    ends = [end("1/2", 2), end("3", 3), end("0.5", 2), end(None, 9)]

    def same(one: str, other: str) -> bool:
        return {one, other} <= {"1/2", "0.5"} or one == other

    assert asyncio.run(majority_rewards(ends, same)) == [1.0, 0.0, 1.0, 0.0]
    assert asyncio.run(majority_rewards([end(None, 1)], same)) == [0.0]
