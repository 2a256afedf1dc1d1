"""Conversations: one context and one notebook, which a failure does not change."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from rstar.agent.chat import Conversation
from rstar.agent.chat_template import ChatTemplate
from rstar.agent.environment import Mathematics
from rstar.agent.rollout import Group
from rstar.agent.solver import AgentSolver
from rstar.agent.turns import ChatTurns
from rstar.config import AgentConfig, Config
from rstar.errors import EngineError
from rstar.models.engine import Request
from rstar.models.fake import FakeEngine
from rstar.problems import Problem
from rstar.sandbox.api import Limits
from rstar.trajectories import Step, Trajectory
from tests.search.plain import PlainSandbox


def talk(
    script: Any, *messages: str, box: PlainSandbox | None = None, on_turn: Any = None, max_context: int = 4096
) -> list[Trajectory]:
    """The agent's answers to messages in one conversation."""
    settings = {"method": "agent", "turns": "code", "environment": "mathematics"}
    config, engine = Config(search=settings), FakeEngine(script=script)
    engine.max_context = max_context

    async def run() -> list[Trajectory]:
        async with Conversation(AgentSolver(config, policy=engine, sandbox=box or PlainSandbox())) as c:
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


def test_states_of_earlier_messages_are_not_kept() -> None:
    box, live = PlainSandbox(), []
    talk(counting, *"abcd", box=box, on_turn=lambda step: live.append(box.live))
    assert max(live) <= 3
    assert box.live == 0


def test_a_message_that_does_not_fit_is_answered_so_and_forgotten() -> None:
    long, after = talk(counting, "x" * 500, "begin", max_context=400)
    assert (long.finish_reason, long.steps, long.answer) == ("length", (), None)
    assert "xxx" not in after.prompt.text
    assert after.answer == "5"


def test_a_turn_that_broke_off_is_closed_before_the_next_message() -> None:
    template = ChatTemplate((Path(__file__).parent / "templates/qwen.jinja").read_text(), {})

    async def run(before: str) -> str:
        context = FakeEngine().context(f"<|im_start|>assistant\n{before}")
        parts = FakeEngine(), Mathematics(), ChatTurns(template), PlainSandbox()
        group = Group(Problem("2", "again"), *parts, AgentConfig(), Limits(), 7, after=context)
        return group.tree.prompt.text

    for before in ("I am going t", "I am going to.<|im_end|>"):
        text = asyncio.run(run(before))
        assert text.count("<|im_end|>\n<|im_start|>user\nagain<|im_end|>") == 1
        assert text.startswith(f"<|im_start|>assistant\n{before}")
        assert "<|im_end|><|im_end|>" not in text


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
