"""Tool calls in the text of a turn, in the Hermes style that Qwen models are trained on.

A call is ``<tool_call>{"name": NAME, "arguments": {…}}</tool_call>``. Text that cannot be read as one becomes a
`BadCall` with the reason: the model is shown it and goes on (arXiv 2508.20722, section 2).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

OPEN, CLOSE = "<tool_call>", "</tool_call>"

_MAX_REASON = 200
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
        at += len(OPEN)
        end = _end(text, at)
        if end < 0:
            yield BadCall(f"the call is not closed by {CLOSE}")
            at = text.find(OPEN, at)
        else:
            yield _parse(text[at:end])
            at = text.find(OPEN, end)


def _end(text: str, at: int) -> int:
    """Where the call that begins at `at` is closed; -1 if it is not."""
    at += len(text[at:]) - len(text[at:].lstrip())
    with suppress(ValueError, RecursionError):
        _, behind = _DECODER.raw_decode(text, at)
        if text[behind:].lstrip().startswith(CLOSE):
            return text.index(CLOSE, behind)
    following = text.find(OPEN, at)
    return text.find(CLOSE, at, following if following >= 0 else None)


def _parse(body: str) -> Call | BadCall:
    try:
        call = _DECODER.decode(body)
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
    return Call(name, arguments)
