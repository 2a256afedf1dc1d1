"""Interpreter states that several nodes of a tree use: each is released with its last node."""

from __future__ import annotations

from typing import Self

from rstar.sandbox.api import State


class SharedState:
    """A state, and the number of nodes that use it.

    Nodes share a state where equal code ran once, and where a step has no code. One of them may end while others go on.

    Attributes:
        state: of the sandbox.
    """

    def __init__(self, state: State) -> None:
        self.state, self._users = state, 0

    def keep(self) -> Self:
        """Count a further node, and return the state."""
        self._users += 1
        return self

    def leave(self) -> None:
        """End the use by one node."""
        self._users -= 1
        if not self._users:
            self.state.release()
