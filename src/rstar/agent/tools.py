"""The tools of an agent, and what a call returns.

A session is an agent's view of its tools at one moment. It is immutable, like the interpreter states below it: a call
returns a new session, so rollouts that share a beginning share its calls, and each goes on from there alone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
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
        repeats: whether the same call failed in the same state before, in a session that remembers.
    """

    text: str
    status: ToolStatus = "ok"
    error: str | None = None
    repeats: bool = False


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
        in_sandbox: its calls end at the limits of the sandbox. So no other limit of time applies to them, and what a
            call waits for a busy sandbox is not held against the rollout.
    """

    name: str
    about: str
    parameters: Mapping[str, str]
    in_sandbox: bool = field(default=False, kw_only=True)

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
    in_sandbox=True,
)
STANDARD_IO = Tool(
    "python_code_with_standard_io",
    "Runs a whole Python program and returns its standard output. Nothing is kept for later calls.",
    {"code": "The program.", "input": "Its standard input."},
    in_sandbox=True,
)
PYTHON_TOOLS = (NOTEBOOK, STANDARD_IO)
"""The two tools of arXiv 2508.20722, section 2."""

_SURROGATE = re.compile("[\ud800-\udfff]")
"""JSON can have them alone, UTF-8 cannot."""


class PythonSession:
    """A notebook, and programs with standard input, in the sandbox.

    A cell that does not survive (timeout, memory, killed) takes the notebook's variables with it; the response says so.

    Args:
        sandbox: runs the code.
        limits: of one call.
        tools: which of `PYTHON_TOOLS` there are; calls of others are refused.
        state: of the notebook; None for a fresh one.
    """

    def __init__(
        self, sandbox: Sandbox, limits: Limits, tools: Sequence[Tool] = PYTHON_TOOLS, state: State | None = None
    ) -> None:
        self._sandbox, self._limits, self._tools, self._state = sandbox, limits, tools, state or sandbox.start()

    async def call(self, call: Call) -> tuple[Session, ToolResult]:
        """See `Session.call`."""
        if (reason := bad_call(self._tools, call)) is not None:
            return self, refused(reason)
        if call.name == STANDARD_IO.name:
            code, stdin = call.arguments["code"], call.arguments["input"]
            return self, shown_result(await self._sandbox.run(code, stdin, self._limits))
        state, result = await self._state.run(call.arguments["code"], self._limits)
        shown = shown_result(result)
        if state is None:
            shown = shown._replace(text=f"{shown.text}\nThe notebook was restarted: its variables are lost.")
        return PythonSession(self._sandbox, self._limits, self._tools, state), shown

    def release(self) -> None:
        """See `Session.release`."""
        self._state.release()


def bad_call(tools: Sequence[Tool], call: Call) -> str | None:
    """Why `call` fits none of `tools`; None if it does."""
    tool = next((tool for tool in tools if tool.name == call.name), None)
    if tool is None:
        return f"there is no tool {call.name!r}; the tools are {', '.join(tool.name for tool in tools)}"
    for name in tool.parameters:
        if name not in call.arguments:
            return f"{tool.name}: the argument {name!r} is missing"
        if not isinstance(call.arguments[name], str):
            return f"{tool.name}: the argument {name!r} is not a string"
        if not call.arguments[name].isascii() and _SURROGATE.search(call.arguments[name]):
            return f"{tool.name}: the argument {name!r} has half of a surrogate pair, which is no character"
    if unknown := sorted(set(call.arguments) - set(tool.parameters)):
        return f"{tool.name}: unknown argument {unknown[0]!r}"
    return None


def refused(reason: str) -> ToolResult:
    """The result of a call that was not made."""
    return ToolResult(f"Error: {reason}", "bad_call", reason)


def shown_result(result: Result) -> ToolResult:
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
