"""Task sets of the verifiers library: what fits runs as an environment, and what does not is refused."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rstar.agent.calls import Call
from rstar.agent.environment import Environment, open_environment
from rstar.agent.solver import AgentSolver
from rstar.agent.tools import ToolResult
from rstar.agent.verifiers import PREFIX, problem_rows
from rstar.answers import AnswerKey
from rstar.cli.app import app
from rstar.config import Config
from rstar.datasets import read_problems
from rstar.errors import ConfigError, DataError, SandboxError
from rstar.evals.run import solve_run
from rstar.models.engine import Request
from rstar.models.fake import FakeEngine
from rstar.problems import Problem
from rstar.sandbox.api import Limits
from rstar.trajectories import Segment, Step, ToolCall, Trajectory
from tests.search.plain import PlainSandbox

pytest.importorskip("verifiers.v1")

SUMS = '''
import verifiers.v1 as vf

SEEN = []


class Data(vf.TaskData):
    answer: str


class Calculator(vf.Toolset[vf.ToolsetConfig]):
    TOOL_PREFIX = "calc"
    ready = 0

    async def setup(self):
        self.ready += 1

    @vf.tool
    def add(self, a: int, b: int = 1) -> str:
        """Adds two numbers."""
        assert self.ready == 1
        return str(a + b)

    @vf.tool
    def fail(self) -> str:
        """Fails."""
        raise ValueError("no luck")


class TaskConfig(vf.TaskConfig):
    tools: vf.ToolsetConfig = vf.ToolsetConfig()


class Task(vf.Task[Data, vf.State, TaskConfig]):
    @classmethod
    def toolsets(cls, config):
        return [Calculator(config.tools)]

    @vf.reward(weight=0.75)
    async def right(self, trace):
        SEEN.append(trace)
        if trace.last_reply == "broken":
            raise RuntimeError("the reward is broken")
        return float(trace.last_reply.endswith(self.data.answer))

    @vf.reward(weight=0.25)
    async def called(self, trace):
        return float(any(m.content == self.data.answer for m in trace.tool_messages))


class Config(vf.TasksetConfig):
    task: TaskConfig = TaskConfig()


class Sums(vf.Taskset[Task, Config]):
    def load(self):
        for n in (1, 2, 3):
            data = Data(prompt=f"How much is {n} + {n}?", answer=str(n + n), system_prompt="Add.")
            yield Task(data, self.config.task)


__all__ = ["Sums"]
'''


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Installs a task set that differs from `SUMS` by replacements; returns its name."""
    monkeypatch.syspath_prepend(tmp_path)

    def write(name: str, *changes: tuple[str, str]) -> str:
        text = SUMS
        for old, new in changes:
            assert old in text
            text = text.replace(old, new)
        (tmp_path / f"{name}.py").write_text(text)
        return name

    return write


def key(answer: str, name: str) -> AnswerKey:
    task = {"prompt": "How much is 2 + 2?", "system_prompt": "Add.", "answer": answer}
    return AnswerKey(answer, {"kind": "verifiers", "name": name, "task": task})


def rewarded(environment: Environment, key: AnswerKey, trajectory: Trajectory) -> float:
    return asyncio.run(environment.reward(key, trajectory, PlainSandbox(), Limits()))


def test_a_trajectory_is_rewarded_as_a_trace(install: Callable[..., str]) -> None:
    name = install("sums_trace")
    environment = open_environment(f"{PREFIX}{name}")
    assert isinstance(environment, Environment)
    assert environment.system == "Add."
    call = '<tool_call>{"name": "calc_add", "arguments": {"a": 2, "b": 2}}</tool_call>'
    turn = Segment(f"I add. {call}<|im_end|>", "policy")
    steps = (
        Step((turn, Segment("…", "tool")), calls=(ToolCall("calc_add", {"a": 2, "b": 2}, "ok", "4"),)),
        Step((Segment("It is 4<|im_end|>", "policy"),)),
    )
    trajectory = Trajectory(Segment("q", "template"), steps, "answer", environment.answer("It is 4"))
    assert rewarded(environment, key("4", name), trajectory) == 1.0
    (trace,) = __import__(name).SEEN
    assert [message.role for message in trace.messages] == ["system", "user", "assistant", "tool", "assistant"]
    assert [message.content for message in trace.messages] == ["Add.", "How much is 2 + 2?", "I add.", "4", "It is 4"]
    (made,) = trace.assistant_messages[0].tool_calls
    assert (made.name, json.loads(made.arguments)) == ("calc_add", {"a": 2, "b": 2})
    assert trace.stop_condition == "agent_completed"
    assert rewarded(environment, key("5", name), trajectory) == 0.0
    unfinished = Trajectory(Segment("q", "template"), steps[:1], "too_deep")
    assert rewarded(environment, key("4", name), unfinished) == 0.25
    assert __import__(name).SEEN[-1].is_truncated


def test_a_reward_that_fails_is_no_verdict(install: Callable[..., str]) -> None:
    name = install("sums_broken")
    environment = open_environment(f"{PREFIX}{name}")
    steps = (Step((Segment("broken", "policy"),)),)
    with pytest.raises(SandboxError, match=r"'verifiers:sums_broken': the reward failed: .*the reward is broken"):
        rewarded(environment, key("4", name), Trajectory(Segment("q", "template"), steps, "answer", "broken"))
    with pytest.raises(DataError, match="a problem of 'verifiers:other' cannot be rewarded by 'verifiers:sums_broken'"):
        rewarded(environment, key("4", "other"), Trajectory(Segment("q", "template"), steps, "answer", "4"))


def test_tools_are_served_with_their_schema(install: Callable[..., str]) -> None:
    environment = open_environment(f"{PREFIX}{install('sums_tools')}")
    assert [tool.name for tool in environment.tools] == ["calc_add", "calc_fail"]
    schema = environment.tools[0].schema()["function"]
    assert schema["description"] == "Adds two numbers."
    assert schema["parameters"]["properties"]["a"]["type"] == "integer"
    assert schema["parameters"]["required"] == ["a"]
    session = environment.start(Problem("p", "q"), PlainSandbox(), Limits())

    async def play() -> list[ToolResult]:
        calls = Call("calc_add", {"a": 2}), Call("calc_add", {"a": "x"}), Call("calc_fail", {}), Call("look", {})
        return [result for _, result in await asyncio.gather(*map(session.call, calls))]

    added, malformed, failed, unknown = asyncio.run(play())
    assert added == ToolResult("3")
    assert malformed.status == "error"
    assert "valid integer" in malformed.text
    assert (failed.status, failed.error) == ("error", "Error executing tool fail: no luck")
    assert unknown.text == "Error: there is no tool 'look'; the tools are calc_add, calc_fail"


def adds(request: Request, sample: int) -> str:
    text = request.context.text
    number = text.partition("How much is ")[2][0]
    if "<output>" not in text:
        return f"<code>\ncalc_add({number}, b={number})\n<end_of_code>"
    shown = text.rpartition("<output>")[2].partition("<")[0]
    return f"<answer>It is {shown if number != '2' else 'unknown'}<end_of_answer>"


def test_a_task_set_is_solved_and_graded(install: Callable[..., str], tmp_path: Path) -> None:
    name, file = install("sums_run"), tmp_path / "sums.jsonl"
    done = CliRunner().invoke(app, ["data", "verifiers", name, "--out", str(file)])
    assert done.exit_code == 0, done.output
    assert "3 problems written" in done.output
    problems = read_problems(file)
    assert [problem.question for problem in problems.problems] == [f"How much is {n} + {n}?" for n in (1, 2, 3)]
    assert problems.problems[0].meta == {"source": name}
    assert not any("answer" in json.dumps([problem.meta, problem.record]) for problem in problems.problems)
    config = Config(search={"method": "agent", "environment": f"{PREFIX}{name}"})
    solver = AgentSolver(config, policy=FakeEngine(script=adds), sandbox=PlainSandbox())
    finished = asyncio.run(solve_run(config, problems, tmp_path / "run", solver=solver))
    assert [row["answer"] for row in finished.results] == ["It is 2", "It is unknown", "It is 6"]
    assert [row["reason"] for row in finished.results] == [
        f"the environment's reward is {reward}" for reward in ("1", "0.25", "1")
    ]


IN_TASK = "    @classmethod\n"
REFUSED = {
    "state": [
        ("class Task(vf", "class State(vf.State):\n    n: int = 0\n\n\nclass Task(vf"),
        ("vf.State, TaskConfig", "State, TaskConfig"),
        "its tasks keep state",
    ],
    "gold": [
        ("    ready = 0\n", "    ready = 0\n\n    async def setup_task(self, task): pass\n"),
        "the tools of Calculator read the task, which holds the gold answer",
    ],
    "elsewhere": [
        ("vf.ToolsetConfig = vf.ToolsetConfig()", 'vf.ToolsetConfig = vf.ToolsetConfig(url="http://x")'),
        "the tools of Calculator run elsewhere, at http://x",
    ],
    "runtime": [
        ("async def right(self, trace)", "async def right(self, trace, runtime)"),
        "its reward needs a runtime (right)",
    ],
    "hook": [(IN_TASK, f"    async def setup(self, trace, runtime): pass\n{IN_TASK}"), "need a runtime (setup)"],
    "container": [(IN_TASK, f"    NEEDS_CONTAINER = True\n{IN_TASK}"), "its tasks need a container"],
    "stop": [
        (IN_TASK, f"    @vf.stop\n    async def stops(self, trace): return True\n{IN_TASK}"),
        "its tasks change the conversation",
    ],
    "judge": [
        ("task: TaskConfig = TaskConfig()", 'task: TaskConfig = TaskConfig(judges=[{"id": "reference"}])'),
        "its reward asks a judge",
    ],
    "no_reward": [
        ("@vf.reward(weight=0.75)", "@vf.metric"),
        ("@vf.reward(weight=0.25)", "@vf.metric"),
        "its tasks have no reward function",
    ],
    "own_class": [
        ("class Config", "class Own(vf.SingleAgentEnv): pass\n\nclass Config"),
        ('["Sums"]', '["Sums", "Own"]'),
        "it has an environment class of its own",
    ],
    "prompt": [('prompt=f"How much is {n} + {n}?"', "prompt=None"), "the prompt is not one question in text"],
}
"""What is changed in `SUMS`, and why the task set is then refused."""


@pytest.mark.parametrize("name", list(REFUSED))
def test_what_does_not_fit_is_refused(name: str, install: Callable[..., str]) -> None:
    *changes, reason = REFUSED[name]
    with pytest.raises(ConfigError) as raised:
        open_environment(f"{PREFIX}{install(f'refused_{name}', *changes)}")
    assert str(raised.value).startswith(f"environment 'verifiers:refused_{name}' does not fit: ")
    assert str(reason) in str(raised.value)


def test_task_sets_that_cannot_be_loaded_are_named(install: Callable[..., str]) -> None:
    with pytest.raises(ConfigError, match="environment 'verifiers:no_such_tasks': taskset 'no_such_tasks' not found"):
        open_environment(f"{PREFIX}no_such_tasks")
    with pytest.raises(DataError, match=r"task 0 cannot be loaded: ZeroDivisionError"):
        open_environment(f"{PREFIX}{install('sums_zero', ('for n in (1, 2, 3)', 'for n in (1 // 0,)'))}")
    with pytest.raises(DataError, match="has no tasks"):
        open_environment(f"{PREFIX}{install('sums_none', ('for n in (1, 2, 3)', 'for n in ()'))}")


def test_endless_and_uneven_task_sets(install: Callable[..., str]) -> None:
    endless = install("sums_endless", ("    def load", "    INFINITE = True\n\n    def load"))
    with pytest.raises(ConfigError, match="endless tasks: limit their number with --n"):
        list(problem_rows(endless))
    assert len(list(problem_rows(endless, 2))) == 2
    uneven = install("sums_uneven", ('system_prompt="Add."', 'system_prompt=f"Add {n // 3}."'))
    with pytest.raises(DataError, match="task 2: its system message is not that of the first task"):
        list(problem_rows(uneven))
    listed = install("sums_listed", ('prompt=f"How much is {n} + {n}?"', 'prompt=[vf.UserMessage(content=f"{n}?")]'))
    assert [row["question"] for row in problem_rows(listed)] == ["1?", "2?", "3?"]
