"""Values while training data is generated: ends are verified, and search finds out through a function only."""

import asyncio
from collections.abc import Sequence

import pytest

from rstar.answers import AnswerKey
from rstar.config import Config
from rstar.datasets import ProblemSet
from rstar.errors import DataError, ResumeError
from rstar.evals.rewards import verified
from rstar.evals.run import solve_run
from rstar.evolve.annotate import Annotation, generate
from rstar.evolve.trees import read_trees
from rstar.models.fake import FakeEngine
from rstar.problems import Problem
from rstar.search.choose import Votes
from rstar.search.solver import Solution, Solver
from rstar.trajectories import Trajectory
from rstar.trees import TreeNode
from tests.search.plain import PlainSandbox

PROBLEM = Problem("p", "What is 3 + 4?")
KEYS = {"p": AnswerKey("7")}


class Half:
    """Says 0.5 of everything."""

    name = "half"

    async def score(self, problem: Problem, trajectories: Sequence[Trajectory], votes: Votes) -> Sequence[float | None]:
        return [0.5] * len(trajectories)


def nodes_of(solution: Solution) -> list[TreeNode]:
    assert solution.tree is not None
    return solution.tree.nodes


def search(annotation: Annotation) -> Solution:
    config = Config(search={"method": "mcts", "rollouts": 16, "expansions": 4})
    solver = Solver(config, policy=FakeEngine(), value=annotation, sandbox=PlainSandbox())
    (solution,) = solver.solve([PROBLEM])
    return solution


def test_ends_are_right_or_wrong():
    solution = search(Annotation(verified(KEYS)))
    values = {(node.answer == "7", node.value) for node in nodes_of(solution) if node.answer is not None}
    assert values == {(True, 1.0), (False, -1.0)}
    assert solution.answer == "7"
    assert all(node.value is None for node in nodes_of(solution) if node.finish_reason is None)


def test_q_is_the_mean_of_the_ends_below():
    nodes = nodes_of(search(Annotation(verified(KEYS))))
    inner = [node for node in nodes if node.finish_reason is None and node.parent is not None and node.visits]
    assert inner
    for node in inner:
        below = [other for other in nodes if node in other.path()]
        ends = [other.value for other in below if other.answer is not None]
        nothing = node.visits - len(ends)  # descents that met failures only are worth 0
        assert node.q == pytest.approx(sum(ends) / (len(ends) + nothing), abs=1e-5)


def test_with_a_value_of_partial_solutions_q_begins_at_it():
    nodes = nodes_of(search(Annotation(verified(KEYS), Half())))
    going_on = [node for node in nodes if node.finish_reason is None and node.parent is not None]
    assert going_on
    assert all(node.value == 0.5 for node in going_on)
    assert {node.value for node in nodes if node.answer is not None} == {1.0, -1.0}


def test_a_verified_search_and_another_never_share_a_folder(tmp_path):
    config = Config(policy="fake:steps", value="agreement", search={"method": "mcts", "rollouts": 2})
    problems = ProblemSet([PROBLEM], KEYS)
    asyncio.run(generate(config, problems, tmp_path / "verified"))
    asyncio.run(solve_run(config, problems, tmp_path / "solved"))
    with pytest.raises(ResumeError, match="ends: 'verified' there, None now"):
        asyncio.run(solve_run(config, problems, tmp_path / "verified"))
    with pytest.raises(ResumeError, match="ends: None there, 'verified' now"):
        asyncio.run(generate(config, problems, tmp_path / "solved"))
    assert len(list(read_trees(tmp_path / "verified"))) == 1
    with pytest.raises(DataError, match="ends of its trees were not verified"):
        list(read_trees(tmp_path / "solved"))


def test_problems_without_gold_answers_are_refused_before_any_work(tmp_path):
    out = tmp_path / "run"
    with pytest.raises(DataError, match="1 problem has no gold answer, the first: 'p'; training data needs them"):
        asyncio.run(generate(Config(policy="fake:steps"), ProblemSet([PROBLEM], {}), out))
    assert not out.exists()
