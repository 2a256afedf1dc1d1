"""The notebook for trial and error: what a cell changes, what is taken back, and what is listed as tried."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

from hypothesis import given
from hypothesis import strategies as st

from rstar.agent.calls import Call
from rstar.agent.tools import STANDARD_IO, Session, ToolResult
from rstar.agent.trial import UNDO, TrialNotebook
from rstar.sandbox.api import CodeError, Limits, Result, Sandbox
from tests.agent.test_tools import cell
from tests.agent.test_tools import make as make_any

undo = Call(UNDO.name, {})


def make(*calls: Call, **limits: Any) -> list[ToolResult]:
    return make_any(*calls, kind=TrialNotebook, **limits)


def test_a_cell_that_fails_changes_nothing_and_shows_the_values_that_hold() -> None:
    cells = [
        cell("x, path = [1], 'a'"),
        cell("x.append(2)\npath += 'b'\nassert not x"),
        cell("path += 'c'"),
        cell("path = 5\nwhile True: pass"),
        cell("x"),
        Call(STANDARD_IO.name, {"code": "", "input": ""}),
    ]
    first, failed, second, ended, printed, refused = make(*cells, seconds=2)
    assert first == ToolResult("x = [1]\npath = 'a'")
    assert failed == ToolResult("AssertionError (line 3)\nx = [1]\npath = 'a'", "error", "AssertionError (line 3)")
    assert second == ToolResult("path = 'ac'")
    assert ended.status == "timeout"
    assert ended.text.endswith("\npath = 'ac'"), "neither 5 nor the list, which has not changed since"
    assert printed == ToolResult("[1]")
    assert refused.status == "bad_call"


def test_cells_are_taken_back_one_by_one() -> None:
    cells = [undo, cell("path = 'a'"), cell("path += 'b'"), cell("path += 'c'\nassert 0"), undo, undo]
    early, first, second, failed, back, refused, other = make(*cells, cell("path += 'd'"))
    assert (early.status, early.error) == ("bad_call", "there is no cell yet")
    assert (first.text, second.text, failed.status) == ("path = 'a'", "path = 'ab'", "error")
    assert back == ToolResult("path = 'a'\ntried: path += 'b'")
    assert (refused.status, refused.error) == ("bad_call", "only the first cell is left, which stays")
    assert other == ToolResult("path = 'ad'")


def test_what_a_cell_changed_is_shown_also_in_place() -> None:
    set_up = (
        "goal, size, items, room, taken = 9, 2, [5, 4], [9], []\ndef take(n):\n    items.remove(n)\n    room[0] -= n\n"
    )
    cells = [cell(f"{set_up}    taken.append(n)"), cell("take(5)"), cell("take(4)\nassert room[0]")]
    first, taken, failed = make(*cells)
    assert first.text == "size = 2\nitems = [5, 4]\nroom = [9]\ntaken = []"
    assert taken.text == "items = [4]\nroom = [4]\ntaken = [5]"
    assert failed.text == "AssertionError (line 2)\nitems = [4]\nroom = [4]\ntaken = [5]"


def test_states_are_kept_as_long_as_somebody_can_go_back_to_them() -> None:
    states: list[CountedState] = []

    async def run() -> None:
        session: Session = TrialNotebook(cast(Sandbox, SimpleNamespace(start=lambda: CountedState(states))), Limits())
        sessions = [session]
        for call in (cell("1"), cell("2"), Call(UNDO.name, {}), cell("3")):
            sessions.append((await sessions[-1].call(call))[0])
        for one in sessions[:-1]:
            one.release()
        assert [state.released for state in states] == [False, False, True, False], "only the one taken back is gone"
        sessions[-1].release()
        assert all(state.released for state in states)

    asyncio.run(run())


class CountedState:
    """An interpreter state of a sandbox that runs nothing."""

    def __init__(self, states: list[CountedState]) -> None:
        self.released, self._states = False, states
        states.append(self)

    async def run(self, code: str, limits: Limits) -> tuple[CountedState, Result]:
        assert not self.released
        if code.startswith("!"):
            return CountedState(self._states), Result("error", error=CodeError("AssertionError", "", 1))
        return CountedState(self._states), Result("ok")

    def release(self) -> None:
        assert not self.released
        self.released = True


def test_what_led_nowhere_is_listed_on_going_back() -> None:
    set_up, good = cell("row = ''\ndef put(now):\n    global row\n    assert now != 'b'\n    row = now"), "put('a')"
    failed = [cell("put('b')"), cell("# once more\nput('b')"), cell("put('b')\nput('c')\nassert 0\nprint(row)")]
    *_, below, malformed, lower, back = make(set_up, *failed, cell(good), cell("put("), undo, undo)
    assert below == ToolResult("row = 'a'")
    assert "SyntaxError" in malformed.text
    assert lower == ToolResult("row = ''\ntried: put('b'), put('b'); put('c'), put('a')")
    assert back.error == "only the first cell is left, which stays"


def test_a_long_move_is_not_listed_and_only_the_last_ones_are() -> None:
    tries = [cell(f"assert 0, {'9' * 40}\nx = {'9' * 40}"), *(cell(f"n = {n}\nassert not n") for n in range(1, 12))]
    *_, long, again, _, back = make(cell("n = 0"), tries[0], tries[0], cell("n = 1"), undo)
    assert (long.repeats, again.repeats) == (False, True)
    assert back.text == "n = 0\ntried: n = 1"
    last = make(cell("n = 0"), *tries, cell("n = 12"), undo)
    assert last[-1].text == "n = 0\ntried: " + ", ".join(f"n = {n}" for n in range(5, 13))


MOVES = st.lists(st.sampled_from(["a", "b", "c", "!a", "!b", "<"]), max_size=12)


@given(MOVES)
def test_what_is_listed_is_what_was_tried_from_here(moves: list[str]) -> None:
    """Against a plain record: ``x`` succeeds, ``!x`` fails, ``<`` takes back. No session changes one before it."""

    async def run() -> None:
        session: Session = TrialNotebook(cast(Sandbox, SimpleNamespace(start=lambda: CountedState([]))), Limits())
        session, _ = await session.call(cell("set_up"))
        path, tried, failed = [""], {"": list[str]()}, {"": set[str]()}
        for move in moves:
            here = "/".join(path)
            earlier = session, tried[here].copy()
            if move == "<":
                session, _ = await session.call(undo)
                if len(path) > 1:
                    last = path.pop()
                    here = "/".join(path)
                    tried[here] += [last] * (last not in tried[here])
            else:
                session, result = await session.call(cell(move))
                if move.startswith("!"):
                    tried[here] += [move] * (move not in tried[here])
                    assert "tried" not in result.text
                    assert result.repeats == (move in failed[here]), "the same move failed here before"
                    failed[here].add(move)
                else:
                    assert not result.repeats
                    path.append(move)
                    tried["/".join(path)], failed["/".join(path)] = [], set()
            assert isinstance(session, TrialNotebook)
            assert list(session._tried[-1].moves) == tried["/".join(path)]
            assert isinstance(earlier[0], TrialNotebook)
            assert list(earlier[0]._tried[-1].moves) == earlier[1]

    asyncio.run(run())
