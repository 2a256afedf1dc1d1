"""Stored trees."""

import pytest

from rstar.config import Config, SearchConfig
from rstar.models.fake import FakeEngine
from rstar.problems import Problem
from rstar.search.solver import Solver
from rstar.search.tree import stored_solutions
from tests.search.plain import PlainSandbox


@pytest.mark.parametrize("method", ["sample", "best-of-n", "mcts"])
def test_what_was_recorded_is_read_again(method: str) -> None:
    config = Config(policy="fake:steps", search=SearchConfig(method=method, record_tokens=True))
    solver = Solver(config, policy=FakeEngine("fake:steps"), sandbox=PlainSandbox())
    (solution,) = solver.solve([Problem("1", "What is 7 + 1?")])
    found = stored_solutions(solution.tree)
    assert len({one.answer for one in found}) > 1
    assert [one.text for one in found] == [one.text for one in solution.trajectories]
    for one, other in zip(found, solution.trajectories, strict=True):
        assert one.mass == pytest.approx(other.mass)
        assert one.value == pytest.approx(other.value, abs=1e-6)
        assert (one.answer, one.finish, one.votes) == (other.answer, other.finish, other.votes)
        for step, before in zip(one.steps, other.steps, strict=True):
            assert (step.ids, step.values, step.status) == (before.ids, before.values, before.status)
            assert step.logprobs == pytest.approx(before.logprobs, abs=1e-5)


@pytest.mark.parametrize("parent", [1, 2, -1])
def test_nodes_that_are_no_tree_are_refused(parent: int) -> None:
    root = {"parent": -1, "votes": 1, "answer": None}
    with pytest.raises(ValueError, match="parent does not come before"):
        stored_solutions([root, root | {"parent": parent}])
