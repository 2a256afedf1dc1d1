"""Task sets of the verifiers library as environments; needs the extra ``verifiers``.

A task set is an installed package that yields tasks: a prompt, what the reward needs to know, and reward functions.
Here its tools are the tools of a rollout, and its reward functions are the reward. They read a finished conversation as
the library's own trace, made from a trajectory.

The library hands whole tasks to its code, gold answers included. So a task's data lies in the check of an answer key
(`problem_rows`), and only `TasksetEnvironment.reward` sees it. A rollout sees the problem and the tools. What does not
fit is refused when the environment is opened: containers, other harnesses, judges, and tools that keep state or read
the task, because rollouts share the calls of their common beginning.
"""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

from rstar.agent.calls import OPEN, Call
from rstar.agent.tools import Session, Tool, ToolResult, refused
from rstar.errors import ConfigError, DataError, SandboxError
from rstar.grading.checks import verifiers_task
from rstar.problems import Problem
from rstar.prompts import code_steps as markers
from rstar.sandbox.api import Limits, Sandbox
from rstar.trajectories import Step, Trajectory

if TYPE_CHECKING:
    from rstar.answers import AnswerKey

PREFIX = "verifiers:"
"""Of the names of these environments."""

_STOPS = {"too_deep": "max_turns", "length": "max_output_tokens", "deadline": "agent_timeout"}
"""Why a rollout ended → the library's name for it; ``agent_completed`` for the others."""


@dataclass(frozen=True, slots=True)
class ServedTool(Tool):
    """A tool with a JSON schema of its own.

    Attributes:
        arguments: schema of its arguments.
    """

    arguments: Mapping[str, Any]

    def schema(self) -> dict[str, Any]:
        """See `Tool.schema`."""
        function = {"name": self.name, "description": self.about, "parameters": dict(self.arguments)}
        return {"type": "function", "function": function}


class TasksetEnvironment:
    """An installed task set as an `rstar.agent.environment.Environment`.

    Args:
        name: of the task set, as the library knows it.

    Raises:
        ConfigError: the library or the task set is not installed, or the task set does not fit.
        DataError: its first task cannot be loaded.
    """

    def __init__(self, name: str) -> None:
        self._name, self._taskset = name, load_taskset(name)
        first = next(_tasks(name, self._taskset, 1))
        config = self._taskset.config
        toolsets = [*type(self._taskset).toolsets(config), *type(first).toolsets(config.task)]
        if reasons := [*_task_obstacles(name, first), *(why for one in toolsets for why in _tool_obstacles(one))]:
            raise ConfigError(f"environment '{PREFIX}{name}' does not fit: {'; '.join(reasons)}")
        self._task_type, self._tools = type(first), _Tools(toolsets)
        self.system = _opening(first.data)[0]
        self.tools: Sequence[Tool] = self._tools.tools
        self.max_turns = 10 if self.tools else 1

    def start(self, problem: Problem, sandbox: Sandbox, limits: Limits) -> Session:
        """See `Environment.start`."""
        return _Session(self._tools)

    def answer(self, text: str) -> str | None:
        """The whole text: the reward functions look for the answer themselves."""
        return text.removeprefix(markers.ANSWER).removesuffix(markers.END_ANSWER).strip() or None

    async def reward(self, key: AnswerKey, trajectory: Trajectory, sandbox: Sandbox, limits: Limits) -> float:
        """The weighted sum of the task's reward functions, as the library computes it.

        Raises:
            DataError: the key is of another task set.
            SandboxError: a reward function failed.
        """
        from verifiers.v1 import RolloutError

        name, data = verifiers_task(key.check)
        if name != self._name:
            raise DataError(f"a problem of '{PREFIX}{name}' cannot be rewarded by '{PREFIX}{self._name}'")
        task = self._task_type(self._task_type.data_type().model_validate(data), self._taskset.config.task)
        trace = _trace(task, trajectory)
        try:
            await task.score(trace)
        except RolloutError as error:
            raise SandboxError(f"'{PREFIX}{name}': the reward failed: {error}") from error
        return float(trace.reward)


def problem_rows(name: str, most: int | None = None) -> Iterator[dict[str, Any]]:
    """The tasks of a task set as lines of a problem file; what the reward needs to know is in the check.

    Args:
        name: of the task set.
        most: maximum number of problems.

    Raises:
        ConfigError: see `TasksetEnvironment`; or the task set is endless and `most` is None.
        DataError: the tasks cannot be loaded, or one is no single question, or has another system message than the
            first one.
    """
    system = TasksetEnvironment(name).system
    taskset = load_taskset(name)
    if most is None and not taskset.bounded:
        raise ConfigError(f"'{PREFIX}{name}' has endless tasks: limit their number with --n")
    for number, task in enumerate(_tasks(name, taskset, most)):
        where = f"'{PREFIX}{name}': task {number}"
        try:
            own, question = _opening(task.data)
        except ValueError as error:
            raise DataError(f"{where}: {error}") from error
        if own != system:
            raise DataError(f"{where}: its system message is not that of the first task")
        yield {
            "id": f"{name}-{number}",
            "question": question,
            "answer": str(getattr(task.data, "answer", None) or f"(verified by {name})"),
            "source": name,
            "check": {
                "kind": "verifiers",
                "name": name,
                "task": task.data.model_dump(mode="json", exclude_defaults=True),
            },
        }


def load_taskset(name: str) -> Any:
    """A task set with its default settings. Raises `ConfigError` if it, or the library, is missing."""
    where = f"environment '{PREFIX}{name}'"
    try:
        import verifiers.v1 as vf
    except ImportError as error:
        raise ConfigError(f"{where}: {error}; install rstar[verifiers]") from error
    try:
        return vf.load_taskset(vf.taskset_config_type(name)(id=name))
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        raise ConfigError(f"{where}: {error}") from error


def _tasks(name: str, taskset: Any, most: int | None) -> Iterator[Any]:
    """The first tasks, at least one. Raises `DataError` if they cannot be loaded."""
    count = 0
    try:
        for task in islice(taskset, most):
            yield task
            count += 1
    except Exception as error:  # code of a package, which may raise anything
        raise DataError(f"'{PREFIX}{name}': task {count} cannot be loaded: {error!r}") from error
    if not count:
        raise DataError(f"'{PREFIX}{name}' has no tasks")


def _task_obstacles(name: str, task: Any) -> Iterator[str]:
    """Why the tasks of a task set do not fit."""
    import verifiers.v1 as vf
    from verifiers.v1.state import State, state_cls
    from verifiers.v1.utils.decorators import discover_decorated

    kind = type(task)
    if vf.environment_class(name) is not vf.SingleAgentEnv:
        yield "it has an environment class of its own"
    if vf.default_harness_id(name) == name:
        yield "it has a harness of its own"
    if kind.NEEDS_CONTAINER or task.data.image is not None or task.data.skills:
        yield "its tasks need a container"
    for hook in ("setup", "finalize", "stage_verifier", "runtime_env"):
        if getattr(kind, hook) is not getattr(vf.Task, hook):
            yield f"its tasks need a runtime ({hook})"
    if state_cls(kind) is not State:
        yield "its tasks keep state"
    if task.hooks("stop") or discover_decorated(task, "intercept"):
        yield "its tasks change the conversation"
    if task.plugged_judges():
        yield "its reward asks a judge"
    rewards = task.hooks("reward")
    if not rewards:
        yield "its tasks have no reward function"
    for function in rewards:
        parameter = inspect.signature(function).parameters.get("runtime")
        if parameter is not None and parameter.default is inspect.Parameter.empty:
            yield f"its reward needs a runtime ({function.__name__})"
    try:
        _opening(task.data)
    except ValueError as error:
        yield str(error)


def _tool_obstacles(toolset: Any) -> Iterator[str]:
    """Why a set of tools does not fit."""
    from verifiers.v1.mcp.server import ServerBase
    from verifiers.v1.state import State, state_cls

    kind = type(toolset)
    if state_cls(kind) is not State:
        yield f"the tools of {kind.__name__} keep state"
    if kind.setup_task is not ServerBase.setup_task:
        yield f"the tools of {kind.__name__} read the task, which holds the gold answer"
    if toolset.config.url is not None:
        yield f"the tools of {kind.__name__} run elsewhere, at {toolset.config.url}"


def _opening(data: Any) -> tuple[str, str]:
    """The system message (empty if there is none) and the question of a task. Raises `ValueError` for anything else."""
    system, prompt = data.system_prompt or "", data.prompt
    if isinstance(prompt, str):
        return system, prompt
    messages = [(message.role, message.content) for message in prompt or ()]
    if messages and messages[0][0] == "system" and not system:
        system = messages.pop(0)[1]
    if [role for role, _ in messages] != ["user"] or not all(
        isinstance(text, str) for text in (system, messages[0][1])
    ):
        raise ValueError("the prompt is not one question in text")
    return system, messages[0][1]


class _Tools:
    """The tools of a task set, served in this process; set up at the first call."""

    def __init__(self, toolsets: Sequence[Any]) -> None:
        self._waiting, self._lock = list(toolsets), asyncio.Lock()  # those not set up
        self._servers: dict[str, tuple[Any, str]] = {}
        self.tools: list[Tool] = []
        for toolset in toolsets:
            self._register(toolset)

    def _register(self, toolset: Any) -> None:
        from mcp.server.mcpserver import MCPServer

        server = MCPServer(toolset.server_name or type(toolset).__name__)
        toolset.register(server)
        with ThreadPoolExecutor(1) as thread:  # the caller may run in an event loop
            listed = thread.submit(asyncio.run, server.list_tools()).result()
        for tool in listed:
            name = f"{toolset.server_name}_{tool.name}".removeprefix("_")  # as the library's harnesses show it
            schema = tool.input_schema
            about = {key: value.get("description", "") for key, value in schema.get("properties", {}).items()}
            self._servers[name] = server, tool.name
            self.tools.append(ServedTool(name, tool.description or "", about, schema))

    async def call(self, call: Call) -> ToolResult:
        """Call a tool. Raises `SandboxError` if the tools cannot be set up."""
        from mcp.server.mcpserver.exceptions import ToolError

        if call.name not in self._servers:
            return refused(f"there is no tool {call.name!r}; the tools are {', '.join(self._servers) or 'none'}")
        await self._set_up()
        server, name = self._servers[call.name]
        try:
            result = await server.call_tool(name, dict(call.arguments))
        except ToolError as error:
            return ToolResult(f"Error: {error}", "error", str(error))
        text = "\n".join(block.text if block.type == "text" else str(block) for block in result.content)
        return ToolResult(text, "error", text) if result.is_error else ToolResult(text)

    async def _set_up(self) -> None:
        if not self._waiting:
            return
        async with self._lock:
            while self._waiting:
                toolset = self._waiting[0]
                try:
                    await toolset.setup()
                except Exception as error:  # code of a package, which may raise anything
                    raise SandboxError(f"the tools of {type(toolset).__name__} cannot be set up: {error!r}") from error
                del self._waiting[0]


class _Session:
    """The tools at any moment of a rollout: they keep no state."""

    def __init__(self, tools: _Tools) -> None:
        self._tools = tools

    async def call(self, call: Call) -> tuple[Session, ToolResult]:
        """See `Session.call`."""
        return self, await self._tools.call(call)

    def release(self) -> None:
        """See `Session.release`; nothing is held."""


def _trace(task: Any, trajectory: Trajectory) -> Any:
    """The library's record of a finished rollout: its messages, and why it ended."""
    import verifiers.v1 as vf

    system, question = _opening(task.data)
    messages: list[Any] = [vf.SystemMessage(content=system)] if system else []
    messages.append(vf.UserMessage(content=question))
    for number, step in enumerate(trajectory.steps):
        messages += _turn(step, number)
    if trajectory.answer is not None:
        messages[-1] = vf.AssistantMessage(content=trajectory.answer)
    nodes = [
        vf.MessageNode(parent=place - 1 if place else None, message=message, sampled=message.role == "assistant")
        for place, message in enumerate(messages)
    ]
    kind = vf.TraceTask(type=type(task).__name__, data=task.data, key=task.key, hash=task.hash)
    trace = vf.Trace(task=kind, agent=vf.AgentInfo(config=vf.AgentConfig()), nodes=nodes, ok=True)
    trace.stop(_STOPS.get(trajectory.finish_reason or "", "agent_completed"))
    return trace


def _turn(step: Step, number: int) -> Iterator[Any]:
    """The messages of a turn: what the model wrote before its calls, the calls, and their responses."""
    import verifiers.v1 as vf

    text = step.written.text.rpartition("</think>")[2]
    for mark in (OPEN, markers.CODE) if step.calls else ():
        text = text.partition(mark)[0]
    names = [f"call-{number}-{place}" for place, _ in enumerate(step.calls)]
    calls = [
        vf.ToolCall(id=name, name=call.name, arguments=json.dumps(call.arguments))
        for name, call in zip(names, step.calls, strict=True)
    ]
    yield vf.AssistantMessage(content=text.strip(), tool_calls=calls or None)
    for name, call in zip(names, step.calls, strict=True):
        yield vf.ToolMessage(tool_call_id=name, name=call.name or None, content=call.response)
