"""A notebook for trial and error: it remembers what was tried, and takes cells back."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from rstar.agent.calls import Call
from rstar.agent.tools import NOTEBOOK, Session, Tool, ToolResult, bad_call, refused, shown_result
from rstar.sandbox.api import Limits, Result, Sandbox, State

UNDO = Tool(
    "undo",
    "Takes back the last cell that succeeded: all variables are again as they were before it. The first cell, which "
    "sets the problem up, stays.",
    {},
    in_sandbox=True,
)
_VALUES = 4
"""Maximum number of values that are shown after a cell: of the last variables that it changed."""
_TRIED = 8
"""Maximum number of moves that are listed as tried: the last ones."""
_LONGEST = 40
"""Maximum length of a listed move, in characters. Longer ones are not listed."""
_NO_MOVES = ("#", "assert ", "print(")
"""How the lines of a cell begin that do not belong to its move."""


class Tried(NamedTuple):
    """Moves that led nowhere from one point, in order, and those of them that failed at once."""

    moves: tuple[str, ...] = ()
    failed: frozenset[str] = frozenset()


class TrialNotebook:
    """A notebook for trial and error: a cell that fails changes nothing, and a cell that succeeded can be taken back.

    A cell without output shows the values of the variables that it changed. A cell that fails shows its error, and the
    values that still hold: the next attempt starts from them. The first cell that succeeds sets the problem up, and
    cannot be taken back. Going back shows the values that hold again, and what was tried from there, so the next move
    can be another one.

    Going back runs no code: interpreter states are kept as long as a session may go back to them.

    Args:
        sandbox: runs the code.
        limits: of one call.
        point: where the notebook is; None for a fresh one.
        tried: the moves that led nowhere from this point and from each before it, the earliest point first.
    """

    tools = (NOTEBOOK, UNDO)

    def __init__(
        self, sandbox: Sandbox, limits: Limits, point: _Point | None = None, tried: tuple[Tried, ...] = (Tried(),)
    ) -> None:
        self._sandbox, self._limits = sandbox, replace(limits, values=_VALUES, in_place=True)
        self._point, self._tried = point or _Point(sandbox.start(), None), tried

    async def call(self, call: Call) -> tuple[Session, ToolResult]:
        """See `Session.call`."""
        if (reason := bad_call(self.tools, call)) is not None:
            return self, refused(reason)
        return self._undo() if call.name == UNDO.name else await self._run(call.arguments["code"])

    async def _run(self, code: str) -> tuple[Session, ToolResult]:
        point = self._point
        state, result = await point.state.run(code, self._limits)
        shown = shown_result(result)
        if shown.status != "ok" or state is None:
            if state is not None:
                state.release()
            move = "" if _is_malformed(result) else move_of(code)
            after = self._at(point.keep(), self._tried, move, failed=True)
            text = "\n".join(filter(None, (shown.text, point.values)))
            return after, shown._replace(text=text, repeats=move in self._tried[-1].failed)
        values = "\n".join(f"{name} = {value}" for name, value in result.values) or point.values
        after = self._at(_Point(state, point.keep(), values, move_of(code)), (*self._tried, Tried()))
        return after, shown._replace(text=shown.text or values)

    def _undo(self) -> tuple[Session, ToolResult]:
        before = self._point.before
        if before is None or before.before is None:
            return self, refused("only the first cell is left, which stays" if before else "there is no cell yet")
        after = self._at(before.keep(), self._tried[:-1], self._point.move)
        tried = ", ".join([move for move in after._tried[-1].moves if len(move) <= _LONGEST][-_TRIED:])
        return after, ToolResult("\n".join(filter(None, (before.values, tried and f"tried: {tried}"))))

    def _at(self, point: _Point, tried: tuple[Tried, ...], more: str = "", *, failed: bool = False) -> TrialNotebook:
        """The notebook at `point`, from which `more` has been tried, too."""
        if more:
            *earlier, (moves, failures) = tried
            moves = moves if more in moves else (*moves, more)
            tried = (*earlier, Tried(moves, failures | {more} if failed else failures))
        return TrialNotebook(self._sandbox, self._limits, point, tried)

    def release(self) -> None:
        """See `Session.release`."""
        self._point.leave()


class _Point:
    """What a `TrialNotebook` has after a cell.

    Attributes:
        state: of the interpreter; released once neither a session nor a later point uses this one.
        before: the point before the cell; None at the beginning.
        values: lines with the values that hold.
        move: of the cell; "" if it has none.
    """

    def __init__(self, state: State, before: _Point | None, values: str = "", move: str = "") -> None:
        self.state, self.before, self.values, self.move, self._users = state, before, values, move, 1

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


def _is_malformed(result: Result) -> bool:
    return result.error is not None and result.error.kind in ("SyntaxError", "IndentationError", "TabError")


def move_of(code: str) -> str:
    """The statements of a cell that are neither checks nor output, in one line.

    >>> move_of("# row 1: column 2\\nput('2')\\nassert len(queens) == size")
    "put('2')"
    """
    lines = [line.strip() for line in code.splitlines()]
    return "; ".join(line for line in lines if line and not line.startswith(_NO_MOVES))
