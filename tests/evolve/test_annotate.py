"""Values while training data is generated: ends are verified, and search finds out through a function only."""

import asyncio
from collections.abc import Sequence

import pytest

from rstar.answers import AnswerKey
from rstar.config import Config, SearchConfig
from rstar.datasets import ProblemSet
from rstar.errors import DataError, ResumeError
from rstar.evals.solve import solve_run
from rstar.evolve.annotate import Annotation, generate, verified
from rstar.evolve.trees import read_trees
from rstar.models.fake import FakeEngine
from rstar.problems import Problem
from rstar.search.choose import Votes
from rstar.search.solver import Solution, Solver
from rstar.trajectories import Trajectory
from tests.search.plain import PlainSandbox

PROBLEM = Problem("p", "What is 3 + 4?")
KEYS = {"p": AnswerKey("7")}


class Half:
    """Says 0.5 of everything."""

    name = "half"

    async def score(self, problem: Problem, trajectories: Sequence[Trajectory], votes: Votes) -> Sequence[float | None]:
        return [0.5] * len(trajectories)


def search(annotation: Annotation) -> Solution:
    config = Config(search=SearchConfig(method="mcts", rollouts=16, expansions=4))
    solver = Solver(config, policy=FakeEngine("fake:steps"), reward=annotation, sandbox=PlainSandbox())
    (solution,) = solver.solve([PROBLEM])
    return solution


def test_ends_are_right_or_wrong():
    solution = search(Annotation(verified(KEYS)))
    values = {(node["answer"] == "7", node["value"]) for node in solution.tree if node["answer"] is not None}
    assert values == {(True, 1.0), (False, -1.0)}
    assert solution.answer == "7"
    assert all(node["value"] is None for node in solution.tree if node["finish"] is None)


def test_q_is_the_mean_of_the_ends_below():
    tree = search(Annotation(verified(KEYS))).tree
    for index, node in enumerate(tree):
        if node["finish"] is None and node["parent"] >= 0 and node["visits"]:
            below = [index]
            for child, row in enumerate(tree[index + 1 :], index + 1):
                if row["parent"] in below:
                    below.append(child)
            ends = [tree[i]["value"] for i in below if tree[i]["answer"] is not None]
            nothing = node["visits"] - len(ends)  # descents that met failures only are worth 0
            assert node["q"] == pytest.approx(sum(ends) / (len(ends) + nothing), abs=1e-5)


def test_with_a_reward_q_begins_at_what_it_says():
    tree = search(Annotation(verified(KEYS), Half())).tree
    going_on = [node for node in tree if node["finish"] is None and node["parent"] >= 0]
    assert going_on
    assert all(node["value"] == 0.5 for node in going_on)
    assert {node["value"] for node in tree if node["answer"] is not None} == {1.0, -1.0}


def test_a_verified_search_and_another_never_share_a_folder(tmp_path):
    config = Config(policy="fake:steps", reward="agreement", search=SearchConfig(method="mcts", rollouts=2))
    problems = ProblemSet([PROBLEM], KEYS)
    asyncio.run(generate(config, problems, tmp_path / "verified"))
    asyncio.run(solve_run(config, problems, tmp_path / "solved"))
    with pytest.raises(ResumeError, match="ends: 'verified' there, None now"):
        asyncio.run(solve_run(config, problems, tmp_path / "verified"))
    with pytest.raises(ResumeError, match="ends: None there, 'verified' now"):
        asyncio.run(generate(config, problems, tmp_path / "solved"))
    assert len(list(read_trees(tmp_path / "verified"))) == 1
    with pytest.raises(DataError, match="ends were not verified"):
        list(read_trees(tmp_path / "solved"))


def test_problems_without_gold_answers_are_refused_before_any_work(tmp_path):
    out = tmp_path / "run"
    with pytest.raises(DataError, match="1 problem has no gold answer, the first: 'p'; training data needs them"):
        asyncio.run(generate(Config(policy="fake:steps"), ProblemSet([PROBLEM], {}), out))
    assert not out.exists()
