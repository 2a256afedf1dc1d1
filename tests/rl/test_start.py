"""Traces that teach the form of turns: they are what the agent itself would see, and only good turns are trained on."""

import asyncio
import json
import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from rstar.agent.calls import Call
from rstar.agent.environment import GIVEN_UP, Programs, Puzzles
from rstar.agent.tools import NOTEBOOK
from rstar.agent.trial import UNDO, move_of
from rstar.agent.turns import CodeTurns
from rstar.datasets import read_problems
from rstar.errors import ConfigError, DataError
from rstar.models.engine import Completion
from rstar.problems import Problem
from rstar.prompts import code_steps as markers
from rstar.rl.start import Program, StartConfig, TraceWriter, _sampled
from rstar.sandbox.api import Limits
from rstar.trajectories import Segment, Step
from rstar.trees import Tree, TreeNode
from tests.cli.commands import rstar
from tests.search.plain import PlainSandbox

SET_UP = "left = 42"
PROGRAMS = (
    ([SET_UP, "left -= 6", "left -= 36", "print('6, 36')"], None, "6, 36"),
    ([SET_UP, "left -= 50\nassert left >= 0", "print('50')"], "AssertionError (line 3)", None),
    ([SET_UP, "left -= 6", "left -= 40\nassert left >= 0", "print('6, 40')"], "AssertionError (line 4)", None),
    ([SET_UP, "left -= 7", "left -= 36\nassert left >= 0", "print('7, 36')"], "AssertionError (line 4)", None),
    (["left = 24", "assert left == 42"], "AssertionError (line 2)", None),
    ([SET_UP, "print('none')"], None, "none"),
)


def tree() -> Tree:
    """One correct program, four that failed at different steps, and one with a wrong answer."""
    root = TreeNode(None, None, 0, 0.0, None, 0, None, None)
    shown = Segment("\n<output>…<end_of_output>\n<answer>", "tool")
    nodes = [root]
    for steps, error, answer in PROGRAMS:
        text = f"\n{markers.END_STEP}\n".join(steps) + f"\n{markers.END_CODE}"
        segments = [Segment(text, "policy")] + [shown] * (answer is not None)
        step = Step(tuple(segments), "ok" if error is None else "error", error)
        finish = "code_error" if answer is None else "answer"
        nodes.append(TreeNode(root, step, 0, 0.0, None, 1, finish, answer))  # type: ignore[arg-type]
    nodes.append(TreeNode(root, Step((Segment("no end", "policy"),)), 0, 0.0, None, 1, "length", None))
    root.children = nodes[1:]
    return Tree(Segment("q", "template"), nodes)


class WithoutUndo(Puzzles):
    tools = (NOTEBOOK,)


@contextmanager
def full_bar(total: int, what: str) -> Iterator[Callable[[int], None]]:
    """A progress bar that must reach its total."""
    done: list[int] = []
    yield done.append
    assert sum(done) == total


def made(tmp_path: Path, world: Puzzles | None = None, **settings: Any) -> tuple[dict[str, int], list[list[str]]]:
    """Counts and pieces for the problem of `tree`."""
    run, problems = tmp_path / "run", tmp_path / "problems.jsonl"
    run.mkdir(exist_ok=True)
    (run / "trees.jsonl").write_text(json.dumps({"id": "p", **tree().to_json(tokens=False)}) + "\n")
    problems.write_text(json.dumps({"id": "p", "question": "Which two make 42?", "answer": "6, 36"}) + "\n")
    config = StartConfig(**{"per_problem": 1, **settings})

    async def write() -> dict[str, int]:
        sandbox = PlainSandbox()
        writer = TraceWriter(world or Puzzles(), sandbox, Limits(), config)
        return await writer.write([run], read_problems(problems), tmp_path / "out.jsonl", full_bar)

    counts = asyncio.run(write())
    return counts, [json.loads(line)["pieces"] for line in (tmp_path / "out.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("seed", range(30))
def test_a_trace_is_what_the_agent_would_see(tmp_path: Path, seed: int) -> None:
    """Its cells, run again in the environment, respond as it says, and those trained on succeed."""
    counts, (pieces,) = made(tmp_path, give_up=0.0, seed=seed)
    assert counts == {"problems": 1, "unsolved": 0, "traces": 1, "given_up": 0}
    turns = CodeTurns(Puzzles.tools)
    text = pieces[0].removeprefix(turns.prompt("Which two make 42?", "", ()))
    cells: list[tuple[str, bool]] = []
    for number, piece in enumerate([text, *pieces[1:-1]]):
        cells += [
            (code.partition(markers.END_CODE)[0].strip("\n"), number % 2 == 1) for code in piece.split(markers.CODE)[1:]
        ]

    held: list[str] = []
    failed: set[tuple[str, ...]] = set()  # cells that held, and a move from there that failed

    async def replayed() -> str:
        session, seen = Puzzles().start(Problem("p", "?"), PlainSandbox(), Limits()), ""
        for code, written in cells:
            completion = Completion(f"{markers.CODE}\n{code}\n{markers.END_CODE}", (), (), "stop", markers.END_CODE)
            (call,) = turns.read(completion).calls
            assert isinstance(call, Call)
            session, result = await session.call(call)
            assert result.status == "ok" or not written or "Error" in seen, "trained to fail at the first attempt"
            assert (*held, move_of(code)) not in failed, "a move that failed is made again"
            if call.name == UNDO.name:
                held.pop()
            elif result.status == "ok":
                held.append(code)
            else:
                failed.add((*held, move_of(code)))
            seen += f"{markers.CODE}\n{code}\n{markers.END_CODE}{turns.responses([result.text])}"
        return seen

    assert asyncio.run(replayed()) == text + "".join(pieces[1:-1])
    assert "\n".join(held) == "\n".join(PROGRAMS[0][0]), "what holds in the end is the correct program"
    assert pieces[-1] == "<answer>\\boxed{6, 36}<end_of_answer>"


def test_attempts_and_cells_of_all_sizes_occur(tmp_path: Path) -> None:
    attempts, cells, undone, tried = set(), set(), 0, 0
    for seed in range(60):
        _, (pieces,) = made(tmp_path, give_up=0.0, seed=seed)
        attempts.add("".join(pieces).count("AssertionError"))
        cells.add(len(pieces) // 2 - 1)
        undone += "undo()" in "".join(pieces[1::2])
        tried += "assert left >= 0" in "".join(pieces[1::2])
        assert "".join(pieces).count(f"{markers.CODE}\n{SET_UP}") <= 1
    assert attempts == {0, 1, 2, 3}
    assert cells >= {3, 4, 6}, "the set-up is a cell of its own"
    assert undone
    assert tried, "later attempts are trained on"


def test_without_a_tool_to_undo_the_problem_is_set_up_again(tmp_path: Path) -> None:
    set_ups = set()
    for seed in range(60):
        _, (pieces,) = made(tmp_path, WithoutUndo(), give_up=0.0, seed=seed)
        assert "undo()" not in "".join(pieces)
        set_ups.add("".join(pieces[1::2]).count(SET_UP))
    assert set_ups >= {1, 2, 3}


def test_the_agent_reads_the_cells_of_traces(tmp_path: Path) -> None:
    _, ((_, cell, *_, answer),) = made(tmp_path, give_up=0.0, failures=0)
    (call,) = CodeTurns().read(Completion(cell, (), (), "stop", "<end_of_code>")).calls
    assert getattr(call, "arguments", {})["code"].startswith(SET_UP)
    assert CodeTurns().read(Completion(answer, (), (), "stop", "<end_of_answer>")).final == answer


def test_some_traces_give_up_after_their_first_failure_and_never_before(tmp_path: Path) -> None:
    given_up = 0
    for seed in range(20):
        _, (pieces,) = made(tmp_path, give_up=1.0, seed=seed)
        if pieces[-1] == f"<answer>\\boxed{{{GIVEN_UP}}}<end_of_answer>":
            given_up += 1
            assert "".join(pieces).count("AssertionError") == 1
        else:
            assert "AssertionError" not in "".join(pieces)
    assert 0 < given_up < 20


def test_attempts_are_what_the_policy_sampled_before_it_was_right() -> None:
    """The first program of a trace comes as often as it was sampled, and none comes twice."""
    one, two, right = Program(("a",), None), Program(("b",), None), Program(("c",), "1")
    samples = {one: 6, two: 1, right: 3}
    orders = [_sampled(samples, 1.0, random.Random(seed)) for seed in range(2000)]
    assert all(len(order) == 3 and set(order) == set(samples) for order in orders)
    share = Counter(order[0] for order in orders)
    for program, count in samples.items():
        assert abs(share[program] / 2000 - count / 10) < 0.04
    after_one = [order[1] for order in orders if order[0] == one]
    assert abs(after_one.count(right) / len(after_one) - 3 / 4) < 0.05, "then the others, in proportion"


def test_at_a_lower_temperature_frequent_samples_are_tried_earlier() -> None:
    """At half the temperature of the samples, the odds of two programs are squared."""
    one, two = Program(("a",), None), Program(("b",), "1")
    firsts = [_sampled({one: 3, two: 1}, 0.5, random.Random(seed))[0] for seed in range(2000)]
    assert abs(firsts.count(one) / 2000 - 9 / 10) < 0.03


def test_runs_of_the_same_problems_are_joined(tmp_path: Path) -> None:
    made(tmp_path)
    writer = TraceWriter(Puzzles(), PlainSandbox(), Limits(), StartConfig(per_problem=4))
    problems, texts = read_problems(tmp_path / "problems.jsonl"), []
    for runs in (["run"], ["run", "run"]):
        counts = asyncio.run(writer.write([tmp_path / r for r in runs], problems, tmp_path / "out.jsonl", full_bar))
        assert counts["problems"] == 1
        texts.append((tmp_path / "out.jsonl").read_text())
    assert texts[0] == texts[1]


def test_missing_trees_and_unknown_problems_are_named(tmp_path: Path) -> None:
    made(tmp_path)
    other = tmp_path / "other.jsonl"
    other.write_text(json.dumps({"id": "r", "question": "?", "answer": "1"}) + "\n")
    writer = TraceWriter(Puzzles(), PlainSandbox(), Limits(), StartConfig())
    with pytest.raises(DataError, match=r"trees.jsonl: problem 'p' is not in the problem file"):
        asyncio.run(writer.write([tmp_path / "run"], read_problems(other), tmp_path / "out.jsonl", full_bar))
    step_by_step = tmp_path / "steps"
    step_by_step.mkdir()
    trees = (tmp_path / "run" / "trees.jsonl").read_text()
    (step_by_step / "trees.jsonl").write_text(trees.replace("<end_of_code>", ""))
    other.write_text(json.dumps({"id": "p", "question": "?", "answer": "1"}) + "\n")
    with pytest.raises(DataError, match=r"steps/trees.jsonl holds no whole programs: .* --method sample"):
        asyncio.run(writer.write([step_by_step], read_problems(other), tmp_path / "out.jsonl", full_bar))
    other.write_text(json.dumps({"id": "p", "question": "?", "answer": "no such answer"}) + "\n")
    with pytest.raises(DataError, match="no traces: none of the 1 problems has a correct program"):
        asyncio.run(writer.write([tmp_path / "run"], read_problems(other), tmp_path / "none.jsonl", full_bar))
    assert not (tmp_path / "none.jsonl").exists()
    with pytest.raises(DataError, match=r"nothing/trees.jsonl is missing"):
        asyncio.run(writer.write([tmp_path / "nothing"], read_problems(other), tmp_path / "out.jsonl", full_bar))


def test_an_environment_without_a_notebook_is_refused() -> None:
    with pytest.raises(ConfigError, match="the environment Programs has no notebook"):
        TraceWriter(Programs(), PlainSandbox(), Limits(), StartConfig())


def test_a_file_of_traces_is_not_replaced(tmp_path: Path) -> None:
    made(tmp_path)
    arguments = ["rl", "start", "run", "--problems", "problems.jsonl", "--out", "out.jsonl"]
    before = (tmp_path / "out.jsonl").read_bytes()
    assert "out.jsonl exists: delete it first" in rstar(*arguments, code=2, cwd=tmp_path).stderr
    assert (tmp_path / "out.jsonl").read_bytes() == before
