"""Work-ups by an agent: the tools return what is recorded, and every stage is rewarded."""

import asyncio
import json
import random
import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from rstar.agent.calls import Call
from rstar.agent.environment import Workup
from rstar.agent.solver import AgentSolver
from rstar.agent.tools import Session, ToolResult
from rstar.agent.workup import Record, WorkupSession
from rstar.answers import AnswerKey
from rstar.cli.app import app
from rstar.config import Config
from rstar.datasets import ProblemSet, read_problems
from rstar.errors import DataError
from rstar.evals.run import refuse_bad_checks, solve_run
from rstar.models.engine import Request
from rstar.models.fake import FakeEngine
from rstar.problems import Problem
from rstar.sandbox.api import Limits
from rstar.tiny.workup import draw_case, draw_cases
from rstar.trajectories import Segment, Step, ToolCall, Trajectory
from tests.search.plain import PlainSandbox

RECORD = {"topics": {"travel": "coast", "diet": "mixed"}, "tests": {"marl count": "high", "opal stain": "blue"}}
KEY = AnswerKey(
    "Varnic fever",
    {"kind": "workup", "diagnosis": "Varnic fever", "topics": ["travel"], "tests": ["marl count"]},
)


def play(*calls: Call) -> list[ToolResult]:
    async def run() -> list[ToolResult]:
        session: Session = WorkupSession(Record.of(Problem("p", "q", record=RECORD)))
        results = []
        for call in calls:
            session, result = await session.call(call)
            results.append(result)
        return results

    return asyncio.run(run())


def test_tools_return_what_is_recorded() -> None:
    asked, ordered = play(Call("ask", {"topic": " Travel"}), Call("order", {"test": "MARL  count"}))
    assert asked == ToolResult("travel: coast")
    assert ordered == ToolResult("marl count: high")


def test_the_history_ends_with_the_first_test() -> None:
    refused, first, late, second = play(
        Call("order", {"test": "nothing"}),
        Call("order", {"test": "opal stain"}),
        Call("ask", {"topic": "diet"}),
        Call("order", {"test": "marl count"}),
    )
    assert refused.text == "Error: there is no test 'nothing'; the tests are marl count, opal stain"
    assert (first.status, second.status) == ("ok", "ok")
    assert late == ToolResult(
        "Error: the history ended with the first test", "bad_call", "the history ended with the first test"
    )


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (Call("jupyter_code", {"code": "1"}), "there is no tool 'jupyter_code'; the tools are ask, order"),
        (Call("ask", {}), "ask: the argument 'topic' is missing"),
        (Call("ask", {"topic": 5}), "ask: the argument 'topic' is not a string"),
        (Call("ask", {"topic": "marl count"}), "there is no topic 'marl count'; the topics are travel, diet"),
    ],
)
def test_bad_calls_name_the_reason(call: Call, reason: str) -> None:
    (result,) = play(call)
    assert (result.status, result.error) == ("bad_call", reason)


@pytest.mark.parametrize("record", [{}, {"topics": {"a": "b"}}, {"topics": {"a": "b"}, "tests": {"c": 1}}])
def test_a_problem_without_a_record_is_named(record: dict[str, Any]) -> None:
    with pytest.raises(DataError, match=r"environment 'workup': problem 'p' has no record of its (topics|tests)"):
        Workup().start(Problem("p", "q", record=record), PlainSandbox(), Limits())


def rewarded(answer: str | None, *calls: ToolCall, key: AnswerKey = KEY) -> float:
    steps = tuple(Step((Segment("", "policy"),), calls=(call,)) for call in calls)
    trajectory = Trajectory(Segment("", "template"), steps, "answer", answer)
    return asyncio.run(Workup().reward(key, trajectory, PlainSandbox(), Limits()))


def test_the_sign_of_a_reward_is_the_diagnosis_and_its_size_the_work_up() -> None:
    travel = ToolCall("ask", {"topic": "Travel"}, "ok", "travel: coast")
    marl = ToolCall("order", {"test": "marl count"}, "ok", "marl count: high")
    opal = ToolCall("order", {"test": "opal stain"}, "ok", "opal stain: blue")
    assert rewarded("varnic fever", travel, marl) == 1.0
    assert rewarded("varnic fever", travel, marl, opal) == 0.875
    assert rewarded("varnic fever") == 0.5
    assert rewarded("Dorin ague", travel, marl) == 0.0
    assert rewarded(None, travel) == -0.25
    assert rewarded("varnic fever", marl._replace(status="bad_call")) == 0.5


@pytest.mark.parametrize(
    ("check", "message"),
    [
        (None, "needs 'topics', a list of texts, got None"),
        (KEY.check and KEY.check | {"tests": []}, "needs 'tests', a list of texts"),
        (KEY.check and KEY.check | {"diagnosis": 5}, "needs 'diagnosis', a text"),
    ],
)
def test_malformed_keys_are_named(check: dict[str, Any] | None, message: str) -> None:
    with pytest.raises(DataError, match=message):
        rewarded("Varnic fever", key=AnswerKey("Varnic fever", check))


def doctor(request: Request, sample: int) -> str:
    """Works a case up from its text and from what the tools returned, and from nothing else."""
    text = request.context.text
    topics = re.findall(r"History, with ask\(topic\): (.*)\.", text)[0].split(", ")
    findings = dict(re.findall(r"<output>([\w ]+): ([\w ]+)<", text))
    table = {name: parsed(line) for name, line in re.findall(r"- (.*) \((.*)\)", text)}
    fitting = {
        name: required
        for name, required in table.items()
        if all(findings.get(query, finding) == finding for query, finding in required.items())
    }
    if len(fitting) == 1 and sample == 0:
        return f"<answer>\\boxed{{{next(iter(fitting))}}}<end_of_answer>"
    if sample == 1:  # a guess, without any work
        return f"<answer>\\boxed{{{re.findall(r'- (.*) [(]', text)[0]}}}<end_of_answer>"
    shared = set.intersection(*(set(required) for required in fitting.values())) - set(findings)
    query = min(shared, key=lambda query: query not in topics)
    return f'<code>\n{"ask" if query in topics else "order"}("{query}")\n<end_of_code>'


def parsed(line: str) -> dict[str, str]:
    return dict(part.split(": ") for part in line.split("; "))


def test_a_policy_that_reasons_works_every_case_up_and_one_that_guesses_does_not(tmp_path: Path) -> None:
    file = tmp_path / "cases.jsonl"
    file.write_text(
        "".join(json.dumps(case.row(str(i))) + "\n" for i, case in enumerate(draw_cases(10, 1, range(1, 6))))
    )
    problems = read_problems(file)
    refuse_bad_checks(problems)
    config = Config(search={"method": "agent", "environment": "workup", "samples": 2, "turns": "code"})
    solver = AgentSolver(config, policy=FakeEngine(script=doctor), sandbox=PlainSandbox())
    finished = asyncio.run(solve_run(config, problems, tmp_path / "run", solver=solver))
    for row in finished.results:
        worked, guessed = sorted(row["trajectories"], key=lambda one: -len(one["text"]))
        assert worked["correct"]
        assert worked["answer"] == problems.keys[row["id"]].answer
        assert guessed["correct"] == (guessed["answer"] == worked["answer"])


def test_a_solved_case_earns_the_whole_reward() -> None:
    case = draw_case(random.Random(4), 5)
    row = case.row("p")
    config = Config(search={"method": "agent", "environment": "workup", "turns": "code"})
    solver = AgentSolver(config, policy=FakeEngine(script=doctor), sandbox=PlainSandbox())
    (solution,) = solver.solve([Problem("p", row["question"], record=row["record"])])
    (trajectory,) = solution.trajectories
    assert [call.name for step in trajectory.steps for call in step.calls] == ["ask", "ask", "order", "order"]
    key = AnswerKey(row["answer"], row["check"])
    assert asyncio.run(Workup().reward(key, trajectory, PlainSandbox(), Limits())) == 1.0


def test_another_record_is_another_run(tmp_path: Path) -> None:
    rows = [Problem("p", "q", record=record) for record in (RECORD, RECORD | {"tests": {"marl count": "low"}})]
    config = Config(search={"method": "agent", "environment": "workup", "turns": "code", "max_turns": 1})
    solver = AgentSolver(config, policy=FakeEngine(), sandbox=PlainSandbox())
    asyncio.run(solve_run(config, ProblemSet(rows[:1], {}), tmp_path / "run", solver=solver))
    with pytest.raises(Exception, match="problems"):
        asyncio.run(solve_run(config, ProblemSet(rows[1:], {}), tmp_path / "run", solver=solver))


def test_from_the_command_line(tmp_path: Path) -> None:
    cases, out = str(tmp_path / "new" / "cases.jsonl"), str(tmp_path / "run")
    done = CliRunner().invoke(app, ["problems", "workups", "--n", "3", "--levels", "1-2", "--out", cases])
    assert done.exit_code == 0, done.output
    assert "3 cases written" in done.output
    settings = ["search.environment=workup", "sandbox.level=limits", "search.max_turns=2"]
    done = CliRunner().invoke(
        app,
        ["solve", "--problems", cases, "--policy", "fake:steps", "--method", "agent", "--out", out]
        + [part for setting in settings for part in ("--set", setting)],
    )
    assert done.exit_code == 0, done.output
    assert "accuracy 0.0%" in done.output
