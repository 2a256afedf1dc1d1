"""Conversations: one context and one notebook, which a failure does not change."""

import asyncio
from typing import Any

import pytest

from rstar.agent.chat import Conversation
from rstar.agent.solver import AgentSolver
from rstar.config import Config
from rstar.errors import EngineError
from rstar.models.engine import Request
from rstar.models.fake import FakeEngine
from rstar.trajectories import Step, Trajectory
from tests.search.plain import PlainSandbox


def talk(script: Any, *messages: str, box: PlainSandbox | None = None, on_turn: Any = None) -> list[Trajectory]:
    """The agent's answers to messages in one conversation."""
    config = Config(search={"method": "agent", "turns": "code"})

    async def run() -> list[Trajectory]:
        async with Conversation(
            AgentSolver(config, policy=FakeEngine(script=script), sandbox=box or PlainSandbox())
        ) as c:
            return [await c.say(message, on_turn or (lambda step: None)) for message in messages]

    return asyncio.run(run())


def counting(request: Request, sample: int) -> str:
    """Adds 5 to the notebook's x, and answers with what is shown."""
    last = request.context.text.rpartition("<|user|>:")[2]
    if "<output>" in last:
        return f"<answer>\\boxed{{{last.rpartition('<output>')[2].partition('<')[0]}}}<end_of_answer>"
    return "<code>\nx = globals().get('x', 0) + 5\nprint(x)<end_of_code>"


def test_the_notebook_and_the_conversation_stay() -> None:
    box = PlainSandbox()
    first, second = talk(counting, "begin", "go on", box=box)
    assert (first.answer, second.answer) == ("5", "10")
    assert second.prompt.text.startswith(first.prompt.text + first.text)
    assert second.prompt.text.endswith("<|user|>:\ngo on\n<|assistant|>: Let's try it in a notebook.\n")
    assert second.prompt.ids[: len(first.ids)] == first.ids
    assert box.live == 0


def test_every_turn_is_shown_as_it_ends() -> None:
    seen: list[Step] = []
    (answer,) = talk(counting, "begin", on_turn=seen.append)
    assert tuple(seen) == answer.steps


def test_a_failure_leaves_the_conversation_as_it_was() -> None:
    broken = iter([False, False, True, False, False])
    box = PlainSandbox()

    def script(request: Request, sample: int) -> str:
        if next(broken):
            raise EngineError("gone")
        return counting(request, sample)

    config = Config(search={"method": "agent", "turns": "code"})

    async def run() -> Trajectory:
        async with Conversation(AgentSolver(config, policy=FakeEngine(script=script), sandbox=box)) as conversation:
            await conversation.say("begin")
            with pytest.raises(EngineError, match="gone"):
                await conversation.say("fails")
            return await conversation.say("again")

    answer = asyncio.run(run())
    assert "fails" not in answer.prompt.text
    assert answer.answer == "10"
    assert box.live == 0
