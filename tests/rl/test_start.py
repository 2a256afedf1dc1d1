"""Traces that teach the form of turns: they are what the agent itself would see, and only good turns are trained on."""

import json
from pathlib import Path
from typing import Any

import pytest

from rstar.agent.environment import GIVEN_UP
from rstar.agent.turns import CodeTurns
from rstar.datasets import read_problems
from rstar.errors import DataError
from rstar.models.engine import Completion
from rstar.rl.start import StartConfig, write_traces
from rstar.trajectories import Segment, Step
from rstar.trees import Tree, TreeNode

RIGHT = "x = 6 * 7\n<end_of_step>\nprint(x)\n<end_of_code>"
WRONG = "x = 6 + 7\n<end_of_step>\nassert x == 42\nprint(x)\n<end_of_code>"


def made(tmp_path: Path, **settings: Any) -> tuple[dict[str, int], list[list[str]]]:
    """Counts and pieces for a problem with one right, one failed and one wrong program."""
    shown = Segment("\n<output>42<end_of_output>\n<answer>", "tool")
    answer = Segment("\\boxed{42}<end_of_answer>", "policy")
    root = TreeNode(None, None, 0, 0.0, None, 0, None, None)
    steps = [
        (Step((Segment(RIGHT, "policy"), shown, answer), "ok"), "answer", "42"),
        (Step((Segment(WRONG, "policy"),), "error", "AssertionError (line 2)"), "code_error", None),
        (Step((Segment("print(41)<end_of_code>", "policy"), shown, answer), "ok"), "answer", "41"),
        (Step((Segment("no end", "policy"),)), "length", None),
    ]
    nodes = [TreeNode(root, step, 0, 0.0, None, 1, finish, found) for step, finish, found in steps]  # type: ignore[arg-type]
    root.children = nodes
    run = tmp_path / "run"
    run.mkdir()
    line = {"id": "p", **Tree(Segment("q", "template"), [root, *nodes]).to_json(tokens=False)}
    (run / "trees.jsonl").write_text(json.dumps(line) + "\n")
    problems = tmp_path / "problems.jsonl"
    problems.write_text(json.dumps({"id": "p", "question": "6 times 7?", "answer": "42"}) + "\n")
    counts = write_traces(
        [run], read_problems(problems), tmp_path / "out.jsonl", StartConfig(**{"per_problem": 1, **settings})
    )
    return counts, [json.loads(line)["pieces"] for line in (tmp_path / "out.jsonl").read_text().splitlines()]


def test_a_trace_has_the_failed_attempt_as_context_and_ends_with_the_right_one(tmp_path: Path) -> None:
    for seed in range(20):
        folder = tmp_path / str(seed)
        folder.mkdir()
        counts, (pieces,) = made(folder, give_up=0.0, seed=seed)
        shown, cell, output, answer = pieces
        assert counts == {"problems": 1, "unsolved": 0, "traces": 1, "given_up": 0}
        assert cell == "<code>\nx = 6 * 7\nprint(x)\n<end_of_code>"
        assert output == "\n<output>42<end_of_output>\n"
        assert answer == "<answer>\\boxed{42}<end_of_answer>"
        attempt = "<code>\nx = 6 + 7\nassert x == 42\nprint(x)\n<end_of_code>"
        attempt += "\n<output>AssertionError (line 2)<end_of_output>\n"
        prompt = CodeTurns().prompt("6 times 7?", "", ())
        assert shown in (prompt, prompt + attempt)


def test_the_agent_reads_the_cells_of_traces(tmp_path: Path) -> None:
    _, ((_, cell, _, answer),) = made(tmp_path, give_up=0.0)
    (call,) = CodeTurns().read(Completion(cell, (), (), "stop", "<end_of_code>")).calls
    assert getattr(call, "arguments", {}) == {"code": "x = 6 * 7\nprint(x)"}
    assert CodeTurns().read(Completion(answer, (), (), "stop", "<end_of_answer>")).final == answer


def test_some_traces_give_up_after_a_failure_and_never_before(tmp_path: Path) -> None:
    given_up = 0
    for seed in range(20):
        folder = tmp_path / str(seed)
        folder.mkdir()
        _, (pieces,) = made(folder, give_up=1.0, seed=seed)
        if len(pieces) == 2:
            given_up += 1
            assert "AssertionError" in pieces[0]
            assert pieces[1] == f"<answer>\\boxed{{{GIVEN_UP}}}<end_of_answer>"
        else:
            assert "AssertionError" not in pieces[0]
    assert 0 < given_up < 20


def test_missing_trees_and_unknown_problems_are_named(tmp_path: Path) -> None:
    made(tmp_path)
    other = tmp_path / "other.jsonl"
    other.write_text(json.dumps({"id": "r", "question": "?", "answer": "1"}) + "\n")
    with pytest.raises(DataError, match=r"trees.jsonl: problem 'p' is not in the problem file"):
        write_traces([tmp_path / "run"], read_problems(other), tmp_path / "out.jsonl", StartConfig())
    with pytest.raises(DataError, match=r"nothing/trees.jsonl is missing"):
        write_traces([tmp_path / "nothing"], read_problems(other), tmp_path / "out.jsonl", StartConfig())
