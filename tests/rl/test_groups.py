"""The rollouts of a step: no problem is preferred for being short, and none is lost or taken twice."""

import asyncio
import gc
import random
from collections.abc import Sequence
from itertools import islice
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rstar.answers import AnswerKey
from rstar.datasets import ProblemSet
from rstar.errors import SandboxError
from rstar.problems import Problem
from rstar.rl.algorithms import ALGORITHMS
from rstar.rl.groups import Group, Maker, collect, majority_rewards, order, select
from rstar.trajectories import Segment, Step, ToolCall, Trajectory
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


@given(st.integers(1, 30), st.integers(1, 8))
def test_no_more_groups_are_under_way_than_allowed(count: int, at_once: int) -> None:
    running, most = 0, 0

    async def make(name: str) -> Group:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1
        return group(name, *MIXED)

    made = asyncio.run(collect(map(str, range(count)), count, None, make, at_once=at_once))
    assert [one.problem for one in made] == [str(number) for number in range(count)]
    assert most == min(count, at_once)


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


def test_groups_that_end_beside_failing_ones_are_kept(capfd: pytest.CaptureFixture[str]) -> None:
    """All end at once: two of them fail, and the error of the second is no unhandled one."""
    ended: list[str] = []

    async def make(name: str) -> Group:
        if name in "13":
            raise ValueError(f"broken: {name}")
        return group(name, *MIXED)

    async def run() -> None:
        with pytest.raises(ValueError, match="broken"):
            await collect(iter("0123"), 4, None, make, lambda one: ended.append(one.problem))
        gc.collect()

    asyncio.run(run())
    assert sorted(ended) == ["0", "2"]
    assert "never retrieved" not in capfd.readouterr().err


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


def sloppy(name: str) -> Group:
    """Sixteen right rollouts, eight of them with calls that failed, and sixteen wrong ones."""
    one = group(name, *[("1", 1, 1.0)] * 16, *[("2", 1, 0.0)] * 16)
    for number, node in enumerate(one.tree.nodes[1:]):
        assert node.step is not None
        status = "error" if number < 8 else "ok"
        written = Segment("</answer>", "policy", (2 + number,), (-1.0,))
        node.step = Step((written,), calls=(ToolCall("f", {}, status, ""),))  # type: ignore[arg-type]
    return one


@pytest.mark.parametrize(("algorithm", "least", "most"), [("grpo-roc", 0.8, 1.0), ("grpo", 0.4, 0.6)])
def test_resampling_prefers_right_rollouts_without_errors(algorithm: str, least: float, most: float) -> None:
    clean, right = 0, 0
    for seed in range(100):
        for one in select(sloppy("p"), ALGORITHMS[algorithm], 8, seed):
            if one.advantage > 0:
                right += 1
                clean += one.trajectory.steps[0].calls[0].status == "ok"
    assert right == 400, "the proportion stays"
    assert least <= clean / right <= most


def test_advantages_compare_those_that_were_kept() -> None:
    chosen = select(group("p", ("1", 1, 1.0), ("2", 31, 0.0)), ALGORITHMS["grpo"], 8, seed=1)
    assert sum(one.count for one in chosen) == 8
    assert sum(one.count * one.advantage for one in chosen) == pytest.approx(0, abs=1e-5)


def test_each_turn_is_compared_with_all_rollouts_that_reached_it() -> None:
    one = group("p", ("1", 1, 1.0), ("2", 31, 0.0))
    node = one.tree.nodes[1]
    assert node.step is not None
    node.step = Step((*node.step.segments, Segment("", "tool", (3,)), Segment("x", "policy", (4,), (-1.0,))))
    chosen = select(one, ALGORITHMS["grpo"], 8, seed=1, by_turn=True)
    (right,) = (each for each in chosen if each.advantage > 0)
    assert right.advantage == pytest.approx((1 - 1 / 32) / (31**0.5 / 32), rel=1e-4)
    assert right.baselines == pytest.approx((0.0, right.advantage), abs=1e-4), "alone in its second turn"
    assert {each.baselines for each in chosen if each.advantage < 0} == {right.baselines[:1]}


def test_a_group_whose_kept_rewards_are_equal_teaches_nothing() -> None:
    staged = group("p", ("1", 31, -0.5), ("2", 1, 0.0))
    assert staged.mixed
    found = [select(staged, ALGORITHMS["grpo"], 16, seed) for seed in range(40)]
    assert any(not chosen for chosen in found)
    assert any(found)
    assert all(any(one.advantage for one in chosen) for chosen in found if chosen)


def test_rollouts_that_ran_out_of_time_teach_nothing() -> None:
    one = group("p", ("1", 3, 1.0), ("2", 3, 0.0), (None, 26, 0.0))
    assert any(each.trajectory.answer is None for each in select(one, ALGORITHMS["grpo-roc"], 16, seed=1))
    one.tree.nodes[-1].finish_reason = "deadline"
    chosen = select(one, ALGORITHMS["grpo-roc"], 16, seed=1)
    assert sorted((each.trajectory.answer, each.count) for each in chosen) == [("1", 3), ("2", 3)]
    late = group("p", ("1", 3, 1.0), (None, 29, 0.0))
    assert late.mixed
    late.tree.nodes[-1].finish_reason = "deadline"
    assert not late.mixed
    assert select(late, ALGORITHMS["grpo-roc"], 16, seed=1) == []


@pytest.mark.parametrize("failures", [0, 2, 3])
def test_a_group_whose_tools_fail_is_made_again(failures: int) -> None:
    """With the same seed, so it is the group that it would have been."""
    seeds: list[int] = []

    class Made:
        async def run(self, count: int) -> Tree:
            if len(seeds) <= failures:
                raise SandboxError("gone")
            return group("p", *MIXED).tree

    class Solver:
        version = 3

        def group(self, problem: Problem, seed: int, **_: Any) -> Made:
            seeds.append(seed)
            return Made()

        async def rewards(self, key: AnswerKey, ends: Sequence[Trajectory]) -> list[float]:
            return [1.0, 0.0]

    problems = ProblemSet([Problem("p", "?")], {"p": AnswerKey("1")})
    made = Maker(Solver(), problems, 2, 0).make(1, "p")  # type: ignore[arg-type]
    if failures == 3:
        with pytest.raises(SandboxError, match="gone"):
            asyncio.run(made)
    else:
        assert asyncio.run(made).rewards == (1.0, 0.0)
    assert len(seeds) == min(failures + 1, 3)
    assert len(set(seeds)) == 1


def test_majority_rewards_need_no_gold_answer() -> None:
    def end(answer: str | None, votes: int) -> Trajectory:
        return Trajectory(PROMPT, (), None, answer, votes=votes)

    ends = [end("1/2", 2), end("3", 3), end("0.5", 2), end(None, 9)]

    def same(one: str, other: str) -> bool:
        return {one, other} <= {"1/2", "0.5"} or one == other

    assert asyncio.run(majority_rewards(ends, same)) == [1.0, 0.0, 1.0, 0.0]
    assert asyncio.run(majority_rewards([end(None, 1)], same)) == [0.0]
