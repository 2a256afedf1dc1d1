"""Trees of whole searches, stored and read again."""

import json
import math

import pytest

from rstar.config import Config
from rstar.models.fake import FakeEngine
from rstar.problems import Problem
from rstar.search.choose import masses
from rstar.search.solver import Solver
from rstar.trees import Tree
from tests.search.plain import PlainSandbox
from tests.search.scripted import settings, tree_line


@pytest.mark.parametrize("method", ["sample", "best-of-n", "mcts"])
def test_what_was_recorded_is_read_again(method: str) -> None:
    config = Config(policy="fake:steps", search=settings(method, record_tokens=True))
    solver = Solver(config, policy=FakeEngine(), sandbox=PlainSandbox())
    (solution,) = solver.solve([Problem("1", "What is 7 + 1?")])
    line = tree_line(solution)
    found = [trajectory for _, trajectory in Tree.from_json(json.loads(json.dumps(line))).ends()]
    assert len({one.answer for one in found}) > 1
    assert [one.text for one in found] == [one.text for one in solution.trajectories]
    weights = [one.mass for one in found]
    if method == "mcts":
        weights = masses([(math.exp(one.logprob), one.mass) for one in found])
    assert weights == pytest.approx([one.mass for one in solution.trajectories])
    for one, other in zip(found, solution.trajectories, strict=True):
        assert one.prompt == other.prompt
        assert one.value == pytest.approx(other.value, abs=1e-6)
        assert (one.answer, one.finish_reason, one.votes) == (other.answer, other.finish_reason, other.votes)
        for step, before in zip(one.steps, other.steps, strict=True):
            assert (step.values, step.status, step.error) == (before.values, before.status, before.error)
            for segment, original in zip(step.segments, before.segments, strict=True):
                assert (segment.text, segment.author, segment.ids) == (original.text, original.author, original.ids)
                assert segment.logprobs == (original.logprobs and pytest.approx(original.logprobs, abs=1e-5))


@pytest.mark.parametrize("parent", [1, 2, -1])
def test_nodes_that_are_no_tree_are_refused(parent: int) -> None:
    node = {"visits": 0, "q": 0.0, "value": None, "votes": 1, "finish": None, "answer": None}
    node |= {"segments": [{"author": "policy", "text": "x"}]}
    line = {"prompt": {"author": "template", "text": "q"}, "nodes": [node | {"parent": -1}, node | {"parent": parent}]}
    with pytest.raises(ValueError, match="parent does not come before"):
        Tree.from_json(line)
