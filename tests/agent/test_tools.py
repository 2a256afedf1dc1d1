"""Tools: what a call returns, whatever the model asks for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rstar.agent.calls import Call
from rstar.agent.tools import NOTEBOOK, STANDARD_IO, PythonSession, Session, ToolResult, cut_middle
from rstar.sandbox import LocalSandbox
from rstar.sandbox.api import Limits


def make(*calls: Call, kind: Callable[..., Session] = PythonSession, **limits: Any) -> list[ToolResult]:
    """The results of calls, each in the session that the one before left."""

    async def run() -> list[ToolResult]:
        async with LocalSandbox() as sandbox:
            session: Session = kind(sandbox, Limits(**{"seconds": 20, **limits}))
            results = []
            for call in calls:
                session, result = await session.call(call)
                results.append(result)
            return results

    return asyncio.run(run())


def cell(code: str) -> Call:
    return Call(NOTEBOOK.name, {"code": code})


def test_a_notebook_keeps_its_variables_and_shows_its_last_line() -> None:
    assert make(cell("x = 20"), cell("print('so')\nx + 1")) == [ToolResult(""), ToolResult("so\n21")]


def test_an_error_has_type_line_and_message_and_the_cells_before_it_stay() -> None:
    _, failed, after = make(cell("x = 1"), cell("y = 2\nassert x == y, 'no'"), cell("x + y"))
    assert failed == ToolResult("AssertionError: no (line 2)", "error", "AssertionError: no (line 2)")
    assert after == ToolResult("3")


def test_a_cell_that_does_not_survive_restarts_the_notebook() -> None:
    _, ended, after = make(cell("x = 1"), cell("while True: pass"), cell("x"), seconds=2)
    assert ended.status == "timeout"
    assert "restarted" in ended.text
    assert after.error is not None
    assert "NameError" in after.error


def test_programs_have_standard_input_and_keep_nothing() -> None:
    program = Call(STANDARD_IO.name, {"code": "x = int(input())\nprint(x * 2)", "input": "21\n"})
    assert make(program, cell("'x' in globals()")) == [ToolResult("42"), ToolResult("False")]


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (Call("browser", {}), "there is no tool 'browser'"),
        (Call(NOTEBOOK.name, {}), "'code' is missing"),
        (Call(NOTEBOOK.name, {"code": 5}), "'code' is not a string"),
        (Call(NOTEBOOK.name, {"code": "1", "speed": "high"}), "unknown argument 'speed'"),
    ],
)
def test_a_call_that_cannot_be_made_says_why(call: Call, reason: str) -> None:
    (result,) = make(call)
    assert result.status == "bad_call"
    assert reason in result.text


def test_a_session_can_be_called_again_and_each_call_goes_its_own_way() -> None:
    async def run() -> list[str]:
        async with LocalSandbox() as sandbox:
            start, _ = await PythonSession(sandbox, Limits(seconds=20)).call(cell("x = 1"))
            left, right = await asyncio.gather(start.call(cell("x += 1; x")), start.call(cell("x += 10; x")))
            _, later = await left[0].call(cell("x"))
            return [left[1].text, right[1].text, later.text]

    assert asyncio.run(run()) == ["2", "11", "2"]


@given(st.text(max_size=300), st.integers(min_value=1, max_value=200))
def test_a_cut_keeps_both_ends_and_says_how_much_is_missing(text: str, most: int) -> None:
    short = cut_middle(text, most)
    if len(text) <= most:
        assert short == text
        return
    note = f" … {len(text) - most} characters … "
    head, tail = text[: (most + 1) // 2], text[len(text) - most // 2 :]
    assert short == head + note + tail


def test_half_of_a_surrogate_pair_is_refused() -> None:
    (result,) = make(Call(STANDARD_IO.name, {"code": "print(input())", "input": "\ud83d"}))
    assert (result.status, result.error) == (
        "bad_call",
        "python_code_with_standard_io: the argument 'input' has half of a surrogate pair, which is no character",
    )
