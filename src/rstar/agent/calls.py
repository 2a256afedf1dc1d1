"""Tool calls in the text of a turn.

Two notations: the Hermes style that Qwen models are trained on, ``<tool_call>{"name": NAME, "arguments": {…}}
</tool_call>``, and calls as Python writes them, ``NAME("…")``. Text that cannot be read as a call becomes a `BadCall`
with the reason: the model is shown it and goes on (arXiv 2508.20722, section 2).
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

OPEN, CLOSE = "<tool_call>", "</tool_call>"

_MAX_REASON = 200
_MAX_DEPTH = 50
"""Of arguments: they are stored, and a writer of JSON goes less deep than a reader."""
_SPACE = re.compile(r"\s*")
_DECODER = json.JSONDecoder(strict=False)  # models write line breaks into strings


class Call(NamedTuple):
    """A call of the tool `name`."""

    name: str
    arguments: Mapping[str, Any]


class BadCall(NamedTuple):
    """A call that cannot be read, and why."""

    reason: str


def parse_calls(text: str) -> Iterator[Call | BadCall]:
    """Yield the calls in `text`, in order. A call that is not closed reaches to the next one, or to the end.

    The tags may also stand in the strings of a call: in code that prints them, say.
    """
    at = text.find(OPEN)
    while at >= 0:
        call, end = _read(text, at + len(OPEN))
        yield call
        at = text.find(OPEN, end)


def _read(text: str, start: int) -> tuple[Call | BadCall, int]:
    """The call whose content begins at `start`, and where to look for the next one."""
    begin = _behind_space(text, start)
    try:
        call, length = _DECODER.raw_decode(text[begin:])  # cut off, so that errors count lines from here
        end = begin + length
        if text.startswith(CLOSE, _behind_space(text, end)):
            return _call(call), end
        reason = "text follows the JSON"
    except (ValueError, RecursionError) as error:
        reason = str(error)
    following = text.find(OPEN, start)
    end = text.find(CLOSE, start, following if following >= 0 else None)
    if end < 0:
        return BadCall(f"the call is not closed by {CLOSE}"), start
    return BadCall(f"the call is not valid JSON: {reason}"[:_MAX_REASON]), end


def parse_python_calls(code: str, parameters: Mapping[str, Sequence[str]]) -> Iterator[Call | BadCall]:
    """Yield the calls of a cell, one a line; the code is parsed and never run.

    Args:
        code: such as ``ask("travel")``; arguments are literals, by place or by name.
        parameters: name of each tool → its parameters in order; calls of other tools are yielded by name alone.
    """
    try:
        statements = ast.parse(code).body
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        yield BadCall(f"the cell cannot be read: {error}"[:_MAX_REASON])
        return
    if not statements:
        yield BadCall("the cell is empty")
    for statement in statements:
        match statement:
            case ast.Expr(ast.Call(ast.Name(name), places, keywords)):
                yield _python_call(name, places, keywords, parameters[name]) if name in parameters else Call(name, {})
            case _:
                yield BadCall('expected calls such as NAME("text"), one a line')


def _python_call(
    name: str, places: Sequence[ast.expr], keywords: Sequence[ast.keyword], parameters: Sequence[str]
) -> Call | BadCall:
    if len(places) > len(parameters):
        return BadCall(f"{name}: {len(places)} arguments, expected {len(parameters)}")
    given = [*zip(parameters, places, strict=False), *((keyword.arg or "", keyword.value) for keyword in keywords)]
    arguments: dict[str, Any] = {}
    for parameter, value in given:
        if not isinstance(value, ast.Constant) or not isinstance(value.value, str | int | float | None):
            return BadCall(f"{name}: the argument {parameter!r} is not a text or number")
        if parameter in arguments:
            return BadCall(f"{name}: the argument {parameter!r} is given twice")
        arguments[parameter] = value.value
    return _storable(name, arguments)


def _behind_space(text: str, at: int) -> int:
    space = _SPACE.match(text, at)
    assert space is not None  # it matches nothing, too
    return space.end()


def _call(call: Any) -> Call | BadCall:
    try:
        if isinstance(call, dict) and isinstance(call.get("arguments"), str):  # some models encode them twice
            call["arguments"] = _DECODER.decode(call["arguments"])
    except (ValueError, RecursionError) as error:
        return BadCall(f"the call is not valid JSON: {error}"[:_MAX_REASON])
    if not isinstance(call, dict):
        return BadCall('expected a JSON object with "name" and "arguments"')
    name, arguments = call.get("name"), call.get("arguments", {})
    if not isinstance(name, str) or not name:
        return BadCall('the call has no "name"')
    if not isinstance(arguments, dict):
        return BadCall('"arguments" is not a JSON object')
    if _deeper(arguments, _MAX_DEPTH):
        return BadCall(f'"arguments" has more than {_MAX_DEPTH} levels')
    return _storable(name, arguments)


def _storable(name: str, arguments: dict[str, Any]) -> Call | BadCall:
    """The call, if it can be written as JSON."""
    try:
        json.dumps(arguments)
    except ValueError as error:  # an integer of thousands of digits
        return BadCall(f"{name}: {error}"[:_MAX_REASON])
    return Call(name, arguments)


def _deeper(value: Any, levels: int) -> bool:
    """Whether JSON data has more than `levels` levels of objects and lists."""
    if not isinstance(value, dict | list):
        return False
    inner = value.values() if isinstance(value, dict) else value
    return levels == 0 or any(_deeper(one, levels - 1) for one in inner)
