"""A conversation with an agent: each message of the user is answered by one rollout, and the notebook stays.

It is made of the same rollouts as training and evaluation; only the context and the tools of the one before are kept.
"""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Self

from rstar.agent.calls import Call
from rstar.agent.solver import AgentSolver
from rstar.agent.tools import Session, ToolResult
from rstar.models.engine import Context
from rstar.problems import Problem
from rstar.seeds import derive
from rstar.trajectories import Step, Trajectory


class _Kept:
    """A session that outlives its rollout; `made` collects all sessions of the conversation, the latest last."""

    def __init__(self, session: Session, made: list[Session]) -> None:
        self._session, self._made = session, made

    async def call(self, call: Call) -> tuple[Session, ToolResult]:
        """See `Session.call`."""
        session, result = await self._session.call(call)
        if session is self._session:
            return self, result
        self._made.append(session)
        return _Kept(session, self._made), result

    def release(self) -> None:
        """Nothing: the conversation releases its sessions."""


class Conversation:
    """A conversation; use as ``async with Conversation(solver) as talk:``.

    Args:
        solver: of the agent, whose policy and sandbox are opened with the conversation.
    """

    def __init__(self, solver: AgentSolver) -> None:
        self._solver, self._messages = solver, 0
        self._context: Context | None = None
        self._sessions: list[Session] = []

    async def __aenter__(self) -> Self:
        await self._solver.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._release(0)
        await self._solver.__aexit__(kind, error, trace)

    async def say(self, text: str, on_turn: Callable[[Step], None] = lambda step: None) -> Trajectory:
        """Send a message; returns the agent's turns.

        Args:
            text: the message.
            on_turn: called with each turn of the agent once its tools have responded.

        Raises:
            EngineError, SandboxError: infrastructure failed; the conversation is as before the message.
        """
        number, before = self._messages + 1, len(self._sessions)
        problem = Problem(str(number), text)
        seed = derive(self._solver.config.seed, "chat", number)
        group = self._solver.group(problem, seed, after=self._context, on_turn=on_turn)
        try:
            if not before:
                self._sessions.append(group.start())
            tree = await group.run(1, _Kept(self._sessions[-1], self._sessions))
        except BaseException:
            self._release(before)
            raise
        ((_, trajectory),) = tree.ends(unanswered=True)
        self._messages = number
        for session in self._sessions[:-1]:  # nothing goes back to them
            session.release()
        del self._sessions[:-1]
        if trajectory.steps:  # else the message did not fit into the context, and a shorter one may
            self._context = Context(trajectory.prompt.text + trajectory.text, trajectory.ids)
        return trajectory

    def _release(self, first: int) -> None:
        while len(self._sessions) > first:
            self._sessions.pop().release()
