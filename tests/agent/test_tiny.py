"""The bundled agent, and the model from which its training began, on puzzles."""

from pathlib import Path

import pytest

from rstar.agent.solver import AgentSolver
from rstar.config import Config
from rstar.datasets import read_problems
from rstar.grading import verify
from rstar.search.solver import Solution
from rstar.tiny.generate import draw_set, write_set


@pytest.mark.parametrize("policy", ["tiny:agent", "tiny:agent-start"])
def test_a_bundled_agent_tries_reads_the_error_and_tries_again(policy: str, tmp_path: Path) -> None:
    for _ in write_set(tmp_path / "puzzles.jsonl", draw_set(2, 3, "numbers", "1", ["countdown", "sudoku4"])):
        pass
    puzzles = read_problems(tmp_path / "puzzles.jsonl")
    search = {"method": "agent", "environment": "puzzles", "samples": 3, "max_response_tokens": 600}
    engine = {"processes": 0, "max_context": 1024}
    settings = Config.model_validate({"policy": policy, "search": search, "engine": engine})
    solutions: list[Solution] = list(AgentSolver(settings).solve(puzzles.problems))
    right = [
        trajectory
        for solution in solutions
        for trajectory in solution.trajectories
        if trajectory.answer is not None and verify(puzzles.keys[solution.problem.id], trajectory.answer).correct
    ]
    assert right
    assert any(len(trajectory.steps) > 2 for trajectory in right)  # an error, and an attempt that holds
