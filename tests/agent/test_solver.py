"""The agent as a method: `rstar solve --method agent`."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from rstar.agent.chat_template import ChatTemplate
from rstar.agent.environment import Mathematics
from rstar.agent.solver import AgentSolver, environment_name, open_solver, open_turns
from rstar.agent.tools import PYTHON_TOOLS
from rstar.agent.turns import ChatTurns, CodeTurns
from rstar.answers import AnswerKey
from rstar.config import Config
from rstar.errors import ConfigError, EngineError
from rstar.models.engine import Capacity, Completion, Request
from rstar.models.fake import FakeEngine
from rstar.problems import Problem
from rstar.sandbox.api import Limits, Sandbox
from rstar.search.solver import Solver
from rstar.trajectories import Segment, ToolCall, Trajectory
from rstar.trees import Tree
from tests.search.plain import PlainSandbox


def config(**search: Any) -> Config:
    return Config(search={"method": "agent", "turns": "code", **search})


def answers(*texts: str) -> FakeEngine:
    """Writes a cell, and then the answer of each sample."""

    def script(request: Request, sample: int) -> str:
        if "<output>" not in request.context.text:
            return "<code>\nprint(6 * 7)<end_of_code>"
        return f"<answer>\\boxed{{{texts[sample % len(texts)]}}}<end_of_answer>"

    return FakeEngine(script=script)


def solve(engine: FakeEngine, **search: Any) -> Any:
    solver = AgentSolver(config(**search), policy=engine, sandbox=PlainSandbox())
    (solution,) = solver.solve([Problem("p", "6 times 7?")])
    return solution


def test_the_answer_is_that_of_most_rollouts() -> None:
    solution = solve(answers("42", "41", "42.0"), samples=3)
    assert solution.answer == "42"
    assert solution.value == pytest.approx(2 / 3)
    assert (solution.rollouts, solution.steps) == (3, 1)
    assert len(solution.trajectories) == 3


def test_rollouts_that_give_up_do_not_vote() -> None:
    solution = solve(answers("unknown", "42", "unknown"), samples=3)
    assert (solution.answer, solution.value) == ("42", 1.0)
    assert solution.failures == {"gave_up": 2}
    none = solve(answers("unknown"), samples=2)
    assert (none.answer, none.failures) == (None, {"gave_up": 2})


def test_rollouts_without_an_answer_are_counted_by_their_reason() -> None:
    solution = solve(FakeEngine(script=lambda *_: "<code>\n1<end_of_code>"), samples=2, max_turns=2)
    assert solution.answer is None
    assert solution.failures == {"too_deep": 2}


def test_how_rollouts_went_is_counted_by_rollout() -> None:
    """Of four: two answer after a failed call, one repeats the call with success, and one gives up."""

    def script(request: Request, sample: int) -> str:
        cells = request.context.text.count("<output>")
        if cells == 0:
            return "<code>\nprint(6 / 0)<end_of_code>"
        if cells == 1 and sample == 2:
            return "<code>\nprint(6 * 7)<end_of_code>"
        return f"<answer>\\boxed{{{'unknown' if sample == 3 else 42}}}<end_of_answer>"

    solution = solve(FakeEngine(script=script), samples=4)
    assert solution.agent == {"turns": 9, "with_error": 4, "checked": 1}
    untried = solve(FakeEngine(script=lambda *_: "<answer>\\boxed{42}<end_of_answer>"), samples=2)
    assert untried.agent == {"turns": 2, "with_error": 0, "checked": 0}


@pytest.mark.parametrize(
    ("policy", "given", "found"),
    [
        ("tiny:agent", None, "puzzles"),
        ("tiny:agent-start", None, "puzzles"),
        ("tiny:agent", "mathematics", "mathematics"),
        ("tiny", None, "mathematics"),
        ("hf:models/any", "workup", "workup"),
    ],
)
def test_the_bundled_agents_have_the_environment_of_their_training(policy: str, given: str | None, found: str) -> None:
    search = {"method": "agent"} | ({"environment": given} if given else {})
    assert environment_name(Config(policy=policy, search=search)) == found


def test_the_stored_tree_is_read_back_with_calls_and_ids() -> None:
    solution = solve(answers("42"), samples=2)
    stored = solution.tree.to_json(tokens=True)
    again = Tree.from_json(stored)
    assert again.to_json(tokens=True) == stored
    assert again.nodes[1].step is not None
    assert again.nodes[1].step.calls == (ToolCall("jupyter_code", {"code": "print(6 * 7)"}, "ok", "42"),)


def test_a_failure_of_the_model_names_the_problem() -> None:
    with pytest.raises(EngineError, match="problem 'p'"):
        solve(FakeEngine(script=[]))


def test_same_seed_same_rollouts() -> None:
    one, two = (solve(FakeEngine(), samples=4, max_turns=3) for _ in range(2))
    assert one.tree.to_json(tokens=True) == two.tree.to_json(tokens=True)


def test_the_method_decides_the_solver() -> None:
    assert isinstance(open_solver(config()), AgentSolver)
    assert not isinstance(open_solver(Config()), AgentSolver)
    with pytest.raises(ConfigError, match="AgentSolver needs 'agent'"):
        AgentSolver(Config())


def test_a_plain_solver_refuses_the_agent() -> None:
    solver = Solver(config(), policy=FakeEngine(), sandbox=PlainSandbox())
    with pytest.raises(ConfigError, match="open_solver"):
        list(solver.solve([Problem("p", "q")]))


def test_turns_follow_the_model(tmp_path: Path) -> None:
    template = (Path(__file__).parent / "templates/qwen.jinja").read_text()
    (tmp_path / "chat_template.jinja").write_text(template)
    assert isinstance(open_turns(Config(search={"method": "agent"}), PYTHON_TOOLS), CodeTurns)
    for policy in (f"hf:{tmp_path}", f"openai:http://127.0.0.1:1/v1#m?tokenizer={tmp_path}"):
        turns = open_turns(Config(policy=policy, search={"method": "agent"}), PYTHON_TOOLS)
        assert isinstance(turns, ChatTurns)
        assert turns.turn_end == ChatTemplate(template, {}).turn_end
    with pytest.raises(ConfigError, match="has no chat template"):
        open_turns(Config(search={"method": "agent", "turns": "chat"}), PYTHON_TOOLS)
    with pytest.raises(ConfigError, match=r"append \?tokenizer=FOLDER"):
        open_turns(Config(policy="openai:http://127.0.0.1:1/v1#m", search={"method": "agent"}), PYTHON_TOOLS)


@pytest.mark.parametrize("value", [7, float("nan"), "yes", None, KeyError("score")])
def test_a_reward_that_fails_or_is_outside_its_range_is_an_error(value: Any) -> None:
    class World(Mathematics):
        async def reward(self, key: AnswerKey, trajectory: Trajectory, sandbox: Sandbox, limits: Limits) -> Any:
            if isinstance(value, Exception):
                raise value
            return value

    async def rewards() -> list[float]:
        solver = AgentSolver(config(), policy=answers("42"), sandbox=PlainSandbox(), environment=World())
        async with solver:
            return await solver.rewards(AnswerKey("42"), [Trajectory(Segment("q", "template"), (), "answer", "42")])

    message = rf"returned {value!r}: expected a number in \[-1, 1\]"
    if isinstance(value, Exception):
        message = "failed: KeyError: 'score'"
    with pytest.raises(ConfigError, match=rf"World\.reward {message}"):
        asyncio.run(rewards())


def test_rollouts_that_run_out_of_time_are_told() -> None:
    class Slow(FakeEngine):
        async def complete(self, request: Request) -> Any:
            if "<output>" in request.context.text:
                await asyncio.sleep(30)
            return await super().complete(request)

    def script(request: Request, sample: int) -> str:
        return "<code>\nprint(6 * 7)<end_of_code>"

    late = solve(Slow(script=script), samples=2, rollout_seconds=0.05)
    assert (late.answer, late.failures, late.notices) == (None, {"deadline": 2}, ("out_of_time",))
    assert solve(answers("42")).notices == ()


@pytest.mark.parametrize(
    ("samples", "given", "most"), [(8, None, 2), (5, None, 3), (100, None, 1), (1, None, 16), (8, 5, 5)]
)
def test_no_more_rollouts_are_under_way_than_the_engine_has_room_for(
    samples: int, given: int | None, most: int
) -> None:
    class Small(FakeEngine):
        running = highest = 0

        def capacity(self) -> Capacity:
            return Capacity(8, None)

        async def complete(self, request: Request) -> Sequence[Completion]:
            Small.running += 1
            Small.highest = max(Small.highest, Small.running)
            for _ in range(5):
                await asyncio.sleep(0)
            Small.running -= 1
            return await super().complete(request)

    engine = Small(script=lambda *_: "<answer>\\boxed{42}<end_of_answer>")
    solver = AgentSolver(config(samples=samples, concurrency=given), policy=engine, sandbox=PlainSandbox())
    assert len(list(solver.solve([Problem(str(number), "?") for number in range(40)]))) == 40
    assert Small.highest == most
