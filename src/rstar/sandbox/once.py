"""A sandbox in which equal code runs once from equal states."""

from __future__ import annotations

from contextlib import ExitStack
from types import TracebackType
from typing import Self

from rstar.sandbox.api import Limits, Result, Sandbox, State


class OnceSandbox:
    """Runs code in another sandbox; code that was already run from an equal state returns the stored state and result.

    Use as ``async with``: all states are kept until it ends, also released ones. For code whose results depend neither
    on time nor on chance. Concurrent runs of equal code are not shared.

    Args:
        sandbox: runs the code; open.
    """

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox, self._states = sandbox, ExitStack()
        self._fresh = _OnceState(sandbox.start(), self._states)

    def start(self) -> State:
        """See `Sandbox.start`."""
        return self._fresh

    async def run(self, code: str, stdin: str | None = None, limits: Limits | None = None) -> Result:
        """See `Sandbox.run`; never stored."""
        return await self._sandbox.run(code, stdin, limits)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._states.close()


class _OnceState:
    """A state, and what code has given from it."""

    def __init__(self, state: State, states: ExitStack) -> None:
        states.callback(state.release)
        self._state, self._states = state, states
        self._known: dict[tuple[str, Limits | None], tuple[State | None, Result]] = {}

    async def run(self, code: str, limits: Limits | None = None) -> tuple[State | None, Result]:
        """See `State.run`."""
        key = code, limits
        if key not in self._known:
            state, result = await self._state.run(code, limits)
            self._known[key] = (None if state is None else _OnceState(state, self._states)), result
        return self._known[key]

    def release(self) -> None:
        """See `State.release`; the sandbox releases all states at its end."""
