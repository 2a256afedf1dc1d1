"""How an agent's conversation is written: the prompt, the model's turns, and the tool responses between them.

Two styles: `CodeTurns` in the markers of the bundled model, and `ChatTurns` for chat models, by their own template and
with Hermes-style calls. Both only append (`rstar.agent.chat_template` says why).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from rstar.agent.calls import BadCall, Call, parse_calls, parse_python_calls
from rstar.agent.chat_template import CLOSE_THOUGHT, OPEN_THOUGHT, ChatTemplate
from rstar.agent.tools import NOTEBOOK, PYTHON_TOOLS, Tool
from rstar.models.engine import Completion
from rstar.prompts import code_steps as markers


class Turn(NamedTuple):
    """A turn of the model: its calls, or else the text that holds its answer; neither if it broke off."""

    calls: tuple[Call | BadCall, ...] = ()
    final: str | None = None


class Turns(Protocol):
    """A style of conversation."""

    stops: tuple[str, ...]
    """Stop strings of a turn, beside the end of the text."""

    turn_end: str
    """Text of the end-of-sequence token behind a turn; empty if turns end with a stop string."""

    def prompt(self, question: str, system: str, tools: Sequence[Tool]) -> str:
        """The model's input before its first turn."""
        ...

    def read(self, completion: Completion) -> Turn:
        """Parse a finished turn."""
        ...

    def responses(self, texts: Sequence[str]) -> str:
        """The text between a turn with calls and the next turn; begins with `turn_end`."""
        ...

    def message(self, text: str) -> str:
        """The text between an answer and the next turn, with a further message of the user; begins with `turn_end`."""
        ...


class CodeTurns:
    """The bundled agent's style: a cell ends with ``<end_of_code>``, an answer with ``<end_of_answer>``.

    A cell is run by the notebook. Other tools are called by cells with nothing else, ``NAME("…")``, one call a line.
    The prompt differs from that of code steps, so one model can know both.
    """

    def __init__(self, tools: Sequence[Tool] = PYTHON_TOOLS) -> None:
        self._python = any(tool in PYTHON_TOOLS for tool in tools)
        self._others = {tool.name: [*tool.parameters] for tool in tools if tool not in PYTHON_TOOLS}

    stops: tuple[str, ...] = (markers.END_CODE, markers.END_ANSWER)
    turn_end = ""

    def prompt(self, question: str, system: str, tools: Sequence[Tool]) -> str:
        """See `Turns.prompt`; the model knows the notebook, and needs no system message."""
        means = "in a notebook"
        if not self._python:
            means = "with " + ", ".join(f"{name}({', '.join(given)})" for name, given in self._others.items())
        return f"{markers.USER}\n{question}\n{markers.ASSISTANT} Let's try it {means}.\n"

    def read(self, completion: Completion) -> Turn:
        """See `Turns.read`."""
        if completion.stop == markers.END_CODE:
            opening, found, code = completion.text.partition(markers.CODE)
            if not found or opening.strip():
                return Turn((BadCall(f"a cell begins with {markers.CODE}"),))
            code = markers.code_of(code).strip("\n")
            if not self._python or code.partition("(")[0] in self._others:
                return Turn(tuple(parse_python_calls(code, self._others)))
            return Turn((Call(NOTEBOOK.name, {"code": code}),))
        return Turn(final=completion.text if completion.stop == markers.END_ANSWER else None)

    def responses(self, texts: Sequence[str]) -> str:
        """See `Turns.responses`."""
        return "".join(f"\n{markers.OUTPUT}{text}{markers.END_OUTPUT}" for text in texts) + "\n"

    def message(self, text: str) -> str:
        """See `Turns.message`."""
        return "\n" + self.prompt(text, "", ())


class ChatTurns:
    """The style of a chat model: its own template, and calls in the Hermes style."""

    stops: tuple[str, ...] = ()

    def __init__(self, template: ChatTemplate) -> None:
        self._template = template
        self.turn_end = template.turn_end

    def prompt(self, question: str, system: str, tools: Sequence[Tool]) -> str:
        """See `Turns.prompt`."""
        return self._template.prompt(question, system, [tool.schema() for tool in tools])

    def read(self, completion: Completion) -> Turn:
        """See `Turns.read`. What a model writes while it thinks is neither a call nor an answer."""
        text = completion.text
        if self._template.opens_thought or text.lstrip().startswith(OPEN_THOUGHT):
            _, closed, text = text.partition(CLOSE_THOUGHT)
            if not closed:
                return Turn()
        calls = tuple(parse_calls(text))
        return Turn(calls, None if calls else text)

    def responses(self, texts: Sequence[str]) -> str:
        """See `Turns.responses`."""
        return self._template.responses(texts)

    def message(self, text: str) -> str:
        """See `Turns.message`."""
        return self._template.message(text)
