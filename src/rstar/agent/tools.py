"""The tools of an agent, and what a call returns.

A session is an agent's view of its tools at one moment. It is immutable, like the interpreter states below it: a call
returns a new session, so rollouts that share a beginning share its calls, and each goes on from there alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, Protocol

from rstar.agent.calls import Call
from rstar.sandbox.api import Limits, Result, Sandbox, State

ToolStatus = Literal["ok", "error", "timeout", "memory", "killed", "output_limit", "bad_call"]
"""How a call ended: ``bad_call`` if it could not be read or made, else the status of the sandbox. Penalties are
computed from this status, never from the words of the response."""


class ToolResult(NamedTuple):
    """What a call returns.

    Attributes:
        text: shown to the model.
        status: how the call ended.
        error: ``Type: message (line n)``, if it failed.
    """

    text: str
    status: ToolStatus = "ok"
    error: str | None = None


class Session(Protocol):
    """The tools of a rollout at one moment."""

    async def call(self, call: Call) -> tuple[Session, ToolResult]:
        """Call a tool; this session stays as it is and can be called again, also concurrently.

        A failure of the model's code is a result. Raises `SandboxError` if the tool itself fails: the rollout then
        counts as never made.
        """
        ...

    def release(self) -> None:
        """Free what the session holds. Sessions that came from it stay usable."""
        ...


@dataclass(frozen=True, slots=True)
class Tool:
    """What the model is told about a tool.

    Attributes:
        name: unique among the tools of an environment.
        about: what it does.
        parameters: name and description of each argument; all are strings and required.
    """

    name: str
    about: str
    parameters: Mapping[str, str]

    def schema(self) -> dict[str, Any]:
        """The JSON schema that chat templates render."""
        properties = {name: {"type": "string", "description": about} for name, about in self.parameters.items()}
        return {
            "type": "function",
            "function": {
                "name": self.name,
                "description": self.about,
                "parameters": {"type": "object", "properties": properties, "required": list(properties)},
            },
        }


NOTEBOOK = Tool(
    "jupyter_code",
    "Runs a cell of Python code in a notebook and returns what it prints and the value of its last line. Later cells "
    "can use the variables of earlier ones.",
    {"code": "The code of the cell."},
)
STANDARD_IO = Tool(
    "python_code_with_standard_io",
    "Runs a whole Python program and returns its standard output. Nothing is kept for later calls.",
    {"code": "The program.", "input": "Its standard input."},
)
UNDO = Tool(
    "undo",
    "Takes back the last cell that succeeded: all variables are again as they were before it. The first cell, which "
    "sets the problem up, stays.",
    {},
)
PYTHON_TOOLS = (NOTEBOOK, STANDARD_IO)
"""The two tools of arXiv 2508.20722, section 2."""
TRIAL_VALUES = 3
"""Maximum number of values that a `TrialNotebook` shows after a cell: of the last variables that it changed."""


class PythonSession:
    """A notebook, and programs with standard input, in the sandbox.

    A cell that does not survive (timeout, memory, killed) takes the notebook's variables with it; the response says so.

    Args:
        sandbox: runs the code.
        limits: of one call.
        state: of the notebook; None for a fresh one.
    """

    def __init__(self, sandbox: Sandbox, limits: Limits, state: State | None = None) -> None:
        self._sandbox, self._limits, self._state = sandbox, limits, state or sandbox.start()

    async def call(self, call: Call) -> tuple[Session, ToolResult]:
        """See `Session.call`."""
        tool = next((tool for tool in PYTHON_TOOLS if tool.name == call.name), None)
        if tool is None:
            known = ", ".join(tool.name for tool in PYTHON_TOOLS)
            return self, refused(f"there is no tool {call.name!r}; the tools are {known}")
        if (reason := bad_arguments(tool, call)) is not None:
            return self, refused(reason)
        if tool is STANDARD_IO:
            code, stdin = call.arguments["code"], call.arguments["input"]
            return self, _shown(await self._sandbox.run(code, stdin, self._limits))
        state, result = await self._state.run(call.arguments["code"], self._limits)
        shown = _shown(result)
        if state is None:
            shown = shown._replace(text=f"{shown.text}\nThe notebook was restarted: its variables are lost.")
        return PythonSession(self._sandbox, self._limits, state), shown

    def release(self) -> None:
        """See `Session.release`."""
        self._state.release()


class TrialNotebook:
    """A notebook for trial and error: a cell that fails changes nothing, and a cell that succeeded can be taken back.

    A cell without output shows the values of the variables that it changed. A cell that fails shows its error, and the
    values that still hold: those after the last cell that succeeded. The first cell that succeeds sets the problem up,
    and cannot be taken back. Going back runs no code: interpreter states are kept as long as a session may go back to
    them.

    Args:
        sandbox: runs the code.
        limits: of one call.
        point: where the notebook is; None for a fresh one.
    """

    tools = (NOTEBOOK, UNDO)

    def __init__(self, sandbox: Sandbox, limits: Limits, point: _Point | None = None) -> None:
        self._sandbox, self._limits = sandbox, replace(limits, values=TRIAL_VALUES, in_place=True)
        self._point = point or _Point(sandbox.start(), None)

    async def call(self, call: Call) -> tuple[Session, ToolResult]:
        """See `Session.call`."""
        tool = next((tool for tool in self.tools if tool.name == call.name), None)
        if tool is None:
            known = ", ".join(tool.name for tool in self.tools)
            return self, refused(f"there is no tool {call.name!r}; the tools are {known}")
        if (reason := bad_arguments(tool, call)) is not None:
            return self, refused(reason)
        return self._undo() if tool is UNDO else await self._run(call.arguments["code"])

    async def _run(self, code: str) -> tuple[Session, ToolResult]:
        point = self._point
        state, result = await point.state.run(code, self._limits)
        shown = _shown(result)
        if shown.status != "ok" or state is None:
            if state is not None:
                state.release()
            return self, shown._replace(text="\n".join(filter(None, (shown.text, point.values))))
        values = "\n".join(f"{name} = {value}" for name, value in result.values) or point.values
        after = TrialNotebook(self._sandbox, self._limits, _Point(state, point.keep(), values))
        return after, shown._replace(text=shown.text or values)

    def _undo(self) -> tuple[Session, ToolResult]:
        before = self._point.before
        if before is None or before.before is None:
            return self, refused("only the first cell is left, which stays" if before else "there is no cell yet")
        return TrialNotebook(self._sandbox, self._limits, before.keep()), ToolResult(before.values)

    def release(self) -> None:
        """See `Session.release`."""
        self._point.leave()


class _Point:
    """What a `TrialNotebook` has after a cell.

    Attributes:
        state: of the interpreter; released once neither a session nor a later point uses this one.
        before: the point before the cell; None at the beginning.
        values: lines with the values that hold.
    """

    def __init__(self, state: State, before: _Point | None, values: str = "") -> None:
        self.state, self.before, self.values, self._users = state, before, values, 1

    def keep(self) -> _Point:
        """Count a further user, and return the point."""
        self._users += 1
        return self

    def leave(self) -> None:
        """End one use, and those of the points before it that nobody else uses."""
        point: _Point | None = self
        while point is not None:
            point._users -= 1
            if point._users:
                return
            point.state.release()
            point = point.before


def bad_arguments(tool: Tool, call: Call) -> str | None:
    """Why `call` does not fit `tool`; None if it does."""
    for name in tool.parameters:
        if name not in call.arguments:
            return f"{tool.name}: the argument {name!r} is missing"
        if not isinstance(call.arguments[name], str):
            return f"{tool.name}: the argument {name!r} is not a string"
    if unknown := sorted(set(call.arguments) - set(tool.parameters)):
        return f"{tool.name}: unknown argument {unknown[0]!r}"
    return None


def refused(reason: str) -> ToolResult:
    """The result of a call that was not made."""
    return ToolResult(f"Error: {reason}", "bad_call", reason)


def _shown(result: Result) -> ToolResult:
    """What the program printed, then its error, if any."""
    error = result.failure
    text = result.stdout.strip("\n")
    if error is not None:
        text = f"{text}\n{error}" if text else error
    return ToolResult(text, result.status, error)


def cut_middle(text: str, most: int) -> str:
    """Cut `text` to `most` characters, plus a note of how many are missing, keeping its beginning and end.

    >>> cut_middle("abcdefghij", 4)
    'ab … 6 characters … ij'
    """
    if len(text) <= most:
        return text
    head = (most + 1) // 2
    tail = text[len(text) - (most - head) :]
    return f"{text[:head]} … {len(text) - most} characters … {tail}"
