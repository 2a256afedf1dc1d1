"""Rollouts: every one ends once, on exactly the ids that the model saw and wrote."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rstar.agent.calls import Call
from rstar.agent.environment import Mathematics
from rstar.agent.rollout import Group
from rstar.agent.tools import NOTEBOOK, Session, Tool, ToolResult
from rstar.agent.turns import CodeTurns
from rstar.config import AgentConfig
from rstar.errors import EngineError, SandboxError
from rstar.models.engine import Completion, Engine, Request
from rstar.models.fake import FakeEngine
from rstar.models.replicas import Replicas
from rstar.problems import Problem
from rstar.sandbox.api import Limits
from rstar.trajectories import ToolCall
from rstar.trees import Tree
from tests.search.plain import PlainSandbox

CODE, ANSWER = "<end_of_code>", "<end_of_answer>"


class Tools:
    """A session that counts: its own live copies, and what it was called with."""

    def __init__(self, made: list[tuple[str, ...]], live: list[int], before: tuple[str, ...] = ()) -> None:
        self.made, self.live, self.before = made, live, before
        live[0] += 1

    async def call(self, call: Call) -> tuple[Session, ToolResult]:
        code = call.arguments["code"]
        self.made.append((*self.before, code))
        await asyncio.sleep(0)
        if code == "break":
            raise SandboxError("the tool is gone")
        if code == "refuse":
            raise ConnectionResetError("by peer")
        if code.startswith("wait"):
            await asyncio.sleep(float(code.partition(" ")[2] or 60))
        if code == "bad":
            again = bool(self.made) and (*self.before, code) in self.made[:-1]
            return self, ToolResult("it is bad", "error", "ValueError: it is bad", repeats=again)
        return Tools(self.made, self.live, (*self.before, code)), ToolResult(f"ran {code}")

    def release(self) -> None:
        self.live[0] -= 1


class World(Mathematics):
    def __init__(self) -> None:
        self.made: list[tuple[str, ...]] = []
        self.live = [0]

    def start(self, problem: Problem, sandbox: Any, limits: Limits) -> Session:
        return Tools(self.made, self.live)


class Elsewhere(World):
    """The same tools, not run in the sandbox."""

    tools = (replace(NOTEBOOK, in_sandbox=False),)


def group(script: Callable[[Request, int], str], world: World, **settings: Any) -> Group:
    config = AgentConfig(**settings)
    parts = FakeEngine(script=script), world, CodeTurns(world.tools), PlainSandbox()
    return Group(Problem("p", "How much?"), *parts, config, Limits(), 7)


def run(script: Callable[[Request, int], str], count: int, world: World | None = None, **settings: Any) -> Tree:
    world = world or World()
    tree = asyncio.run(group(script, world, **settings).run(count))
    assert world.live == [0], "a session was not released, or more than once"
    return tree


def cells(text: str) -> int:
    return text.count("<output>")


def by_turn(*texts: str) -> Callable[[Request, int], str]:
    """Writes text k in turn k, whatever the sample."""
    return lambda request, _: texts[cells(request.context.text)]


def endings(tree: Tree) -> list[tuple[str | None, str | None, int]]:
    return [(node.finish_reason, node.answer, node.votes) for node, _ in tree.ends(unanswered=True)]


def test_turns_alternate_until_the_answer() -> None:
    tree = run(by_turn(f"<code>\nx{CODE}", f"<answer>\\boxed{{4}}{ANSWER}"), 1)
    ((_, trajectory),) = tree.ends()
    assert trajectory.text == f"<code>\nx{CODE}\n<output>ran x<end_of_output>\n<answer>\\boxed{{4}}{ANSWER}"
    assert [segment.author for segment in trajectory.segments] == ["policy", "tool", "policy"]
    assert (trajectory.finish_reason, trajectory.answer) == ("answer", "4")
    assert [step.calls for step in trajectory.steps] == [(ToolCall("jupyter_code", {"code": "x"}, "ok", "ran x"),), ()]


def test_rollouts_do_not_depend_on_the_number_of_replicas() -> None:
    def script(request: Request, sample: int) -> str:
        if cells(request.context.text) < 2:
            return f"<code>\n{'abc'[sample % 3]}{CODE}"
        return f"<answer>\\boxed{{{sample}}}{ANSWER}"

    class Spy(FakeEngine):
        asked = 0

        async def complete(self, request: Request) -> Sequence[Completion]:
            self.asked += 1
            await asyncio.sleep(0)
            return await super().complete(request)

    async def made(engine: Engine) -> Tree:
        parts = World(), CodeTurns(), PlainSandbox()
        async with engine:
            return await Group(Problem("p", "How much?"), engine, *parts, AgentConfig(), Limits(), 7).run(24)

    spies = [Spy(script=script) for _ in range(3)]
    replicas = Replicas(spies)
    tree = asyncio.run(made(replicas))
    assert tree.to_json(tokens=True) == asyncio.run(made(FakeEngine(script=script))).to_json(tokens=True)
    assert all(spy.asked for spy in spies), "the branches spread over the replicas"


def test_equal_turns_are_decoded_and_called_once_and_the_votes_add_up() -> None:
    world = World()

    def script(request: Request, sample: int) -> str:
        if cells(request.context.text) == 0:
            return f"<code>\n{'ab'[sample % 2]}{CODE}"
        return f"<answer>\\boxed{{{sample}}}{ANSWER}"

    made = group(script, world)
    tree = asyncio.run(made.run(6))
    assert sorted(world.made) == [("a",), ("b",)]
    assert [(node.votes, len(node.children)) for node in tree.nodes[0].children] == [(3, 3), (3, 3)]
    assert made.usage.turns == 12
    assert made.usage.calls == 2
    assert made.usage.decoded < made.usage.tokens_out
    assert world.live == [0]


@given(st.integers(1, 12), st.integers(0, 2**32), st.integers(1, 6))
def test_every_rollout_ends_once_and_ids_are_what_the_model_saw(count: int, seed: int, max_turns: int) -> None:
    seen: set[tuple[int, ...]] = set()

    def script(request: Request, sample: int) -> str:
        seen.add(request.context.ids)
        draw = hash((seed, request.seed, sample)) % 7
        code = f"<code>\n{'abc'[draw % 3]}{CODE}"
        return [code, code, code, f"<code>\nbad{CODE}", f"x{CODE}", f"<answer>\\boxed{{1}}{ANSWER}", "no end"][draw]

    tree = run(script, count, max_turns=max_turns)
    assert sum(votes for *_, votes in endings(tree)) == count
    for node in tree.nodes:
        if node.children:
            assert node.finish_reason is None
            assert sum(child.votes for child in node.children) == node.votes
    for _, trajectory in tree.ends(unanswered=True):
        ids = trajectory.prompt.ids
        for step in trajectory.steps:
            assert ids in seen
            ids += tuple(token for segment in step.segments for token in segment.ids)
        assert all(
            segment.author != "policy" or len(segment.logprobs or ()) == len(segment.ids)
            for segment in trajectory.segments
        )


@pytest.mark.parametrize("slow", ["0", "1", "2", ""])
def test_the_tree_does_not_depend_on_which_tool_responds_first(slow: str) -> None:
    """A training selects rollouts by their place, so another order would be another training."""

    class Slow(Tools):
        async def call(self, call: Call) -> tuple[Session, ToolResult]:
            await asyncio.sleep(0.03 if call.arguments["code"] == slow else 0)
            return self, ToolResult("done")

    class SlowWorld(World):
        def start(self, problem: Problem, sandbox: Any, limits: Limits) -> Session:
            return Slow(self.made, self.live)

    def script(request: Request, sample: int) -> str:
        made = cells(request.context.text)
        return f"<code>\n{sample}{CODE}" if made < 2 else f"<answer>\\boxed{{{sample}}}{ANSWER}"

    tree = run(script, 3, SlowWorld())
    assert [one.steps[0].text.split()[1][0] for _, one in tree.ends()] == ["0", "1", "2"]
    places = {id(node): place for place, node in enumerate(tree.nodes)}
    assert all(places[id(node.parent)] < places[id(node)] for node in tree.nodes[1:])


def test_a_call_that_cannot_be_read_is_answered_and_the_rollout_goes_on() -> None:
    ((_, trajectory),) = run(by_turn(f"what{CODE}", f"<answer>\\boxed{{4}}{ANSWER}"), 1).ends()
    assert [(call.name, call.status) for call in trajectory.steps[0].calls] == [("", "bad_call")]
    assert "Error: a cell begins with <code>" in trajectory.text


def test_an_end_of_text_that_was_sampled_belongs_to_the_turn() -> None:
    ((_, trajectory),) = run(by_turn("I give up"), 1).ends(unanswered=True)
    assert trajectory.finish_reason == "no_answer"
    written = trajectory.steps[0].written
    assert written.ids == (*b"I give up", 257)
    assert len(written.logprobs or ()) == len(written.ids)


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"max_turns": 3}, "too_deep"),
        ({"max_turn_tokens": 5}, "length"),
        ({"max_response_tokens": 60}, "length"),
    ],
)
def test_limits_end_a_rollout(settings: dict[str, Any], reason: str) -> None:
    tree = run(lambda *_: f"<code>\nx{CODE}", 4, **settings)
    assert endings(tree) == [(reason, None, 4)]


@pytest.mark.parametrize(("most", "turns"), [(0, 4), (1, 5), (None, 6)])
def test_repeated_failures_end_a_rollout(most: int | None, turns: int) -> None:
    """The first failure is none, and neither is a failure after another cell."""
    texts = [f"<code>\n{code}{CODE}" for code in ("bad", "x", "bad", "bad", "bad", "bad")]
    tree = run(by_turn(*texts), 2, max_repeats=most, max_turns=6)
    ((_, trajectory),) = tree.ends(unanswered=True)
    assert endings(tree) == [("too_deep" if most is None else "repeated", None, 2)]
    assert len(trajectory.steps) == turns
    made = [call.response for call in trajectory.steps[-1].calls]
    assert made == ([] if most is None else ["it is bad"]), "what ended the rollout is recorded"
    assert trajectory.steps[-1].status == (None if most is None else "error")


def test_a_full_context_ends_a_rollout() -> None:
    world = World()
    made = group(lambda *_: f"<code>\nx{CODE}", world, max_turns=50)
    made._engine.max_context = 200
    assert endings(asyncio.run(made.run(2))) == [("length", None, 2)]
    assert world.live == [0]


def test_a_slow_tool_ends_its_call_and_a_rollout_at_its_deadline_ends_as_such() -> None:
    texts = by_turn(f"<code>\njupyter_code('wait'){CODE}", f"<answer>\\boxed{{4}}{ANSWER}")
    ((_, trajectory),) = run(texts, 1, Elsewhere(), tool_seconds=0.05).ends()
    assert [call.status for call in trajectory.steps[0].calls] == ["timeout"]
    assert endings(run(texts, 3, Elsewhere(), rollout_seconds=0.05)) == [("deadline", None, 3)]


def test_what_a_call_waits_for_a_busy_sandbox_is_not_held_against_the_rollout() -> None:
    texts = by_turn(*[f"<code>\nwait 0.2{CODE}"] * 3, f"<answer>\\boxed{{4}}{ANSWER}")
    tree = run(texts, 3, tool_seconds=0.05, rollout_seconds=0.1)
    assert endings(tree) == [("answer", "4", 3)]
    ((_, trajectory),) = tree.ends()
    assert [call.status for step in trajectory.steps for call in step.calls] == ["ok"] * 3


def test_the_calls_before_a_deadline_are_recorded() -> None:
    """Nor is a session released twice: `run` checks it."""
    cell = f"<code>\nfirst('x')\nlast('y'){CODE}"

    class Two(Tools):
        async def call(self, call: Call) -> tuple[Session, ToolResult]:
            await asyncio.sleep(60 if call.name == "last" else 0)
            return Two(self.made, self.live), ToolResult("done")

    class TwoWorld(World):
        tools = (Tool("first", "", {"x": ""}), Tool("last", "", {"x": ""}))

        def start(self, problem: Problem, sandbox: Any, limits: Limits) -> Session:
            return Two(self.made, self.live)

    world = TwoWorld()
    tree = run(lambda *_: cell, 2, world, rollout_seconds=0.1)
    assert endings(tree) == [("deadline", None, 2)]
    ((_, trajectory),) = tree.ends(unanswered=True)
    assert [call.name for call in trajectory.steps[0].calls] == ["first"]


def test_a_question_that_fills_the_context_ends_the_rollouts_before_their_first_turn() -> None:
    world = World()
    made = group(lambda *_: "", world)
    made._engine.max_context = 20
    tree = asyncio.run(made.run(3))
    assert endings(tree) == [("length", None, 3)]
    assert Tree.from_json(tree.to_json(tokens=True)).to_json(tokens=True) == tree.to_json(tokens=True)
    assert world.live == [0]


@pytest.mark.parametrize("answer", ["unknown", "Unknown.", "\\text{unknown}"])
def test_giving_up_is_no_answer(answer: str) -> None:
    assert endings(run(by_turn(f"<answer>\\boxed{{{answer}}}{ANSWER}"), 2)) == [("gave_up", None, 2)]


def test_calls_beyond_the_limit_of_a_turn_are_refused() -> None:
    class Many(World):
        tools = (Tool("f", "", {"code": ""}),)

    turns = "<code>\n" + "\n".join(f"f('{name}')" for name in "abcd") + CODE, f"<answer>\\boxed{{4}}{ANSWER}"
    tree = run(lambda request, _: turns["<output>" in request.context.text], 1, Many(), max_calls=2)
    ((_, trajectory),) = tree.ends()
    assert [call.status for call in trajectory.steps[0].calls] == ["ok", "ok", "bad_call", "bad_call"]
    assert "at most 2 calls in a turn" in trajectory.steps[0].shown


def test_sampling_settings_reach_the_engine() -> None:
    seen = set()

    def script(request: Request, sample: int) -> str:
        seen.add((request.temperature, request.top_p, request.max_tokens))
        return f"<answer>\\boxed{{4}}{ANSWER}"

    run(script, 1, temperature=0.7, top_p=0.9, max_turn_tokens=40)
    assert seen == {(0.7, 0.9, 40)}


@given(st.integers(1, 30), st.integers(40, 200))
def test_what_a_rollout_may_still_write_falls_by_all_that_stands_behind_the_prompt(size: int, most: int) -> None:
    prompts: list[int] = []

    def script(request: Request, sample: int) -> str:
        prompts.append(len(request.context.ids))
        assert request.max_tokens == most - (prompts[-1] - prompts[0])
        return f"<code>\n{'x' * size}{CODE}"

    run(script, 1, max_response_tokens=most, max_turns=9)


@pytest.mark.parametrize(
    ("texts", "ending"),
    [
        ((f"<answer>\\boxed{{4}}{ANSWER}",), ("answer", "4", 3)),
        ((f"<code>\nx{CODE}", f"<answer>\\boxed{{4}}{ANSWER}"), ("deadline", None, 3)),
    ],
)
def test_the_time_of_a_rollout_begins_with_its_first_turn(
    texts: tuple[str, ...], ending: tuple[str, str | None, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = group(by_turn(*texts), World(), rollout_seconds=0.05)
    complete = made._engine.complete

    async def late(request: Request) -> Sequence[Completion]:
        await asyncio.sleep(0.3)
        return await complete(request)

    monkeypatch.setattr(made._engine, "complete", late)
    assert endings(asyncio.run(made.run(3))) == [ending]


def test_a_failure_of_the_tool_or_the_engine_is_no_end() -> None:
    world = World()
    for call, message in (("break", "the tool is gone"), ("refuse", "jupyter_code failed: ConnectionResetError: by")):
        with pytest.raises(SandboxError, match=message):
            asyncio.run(group(by_turn(f"<code>\n{call}{CODE}"), world).run(4))
        assert world.live == [0]

    def fails(request: Request, sample: int) -> str:
        if cells(request.context.text):
            raise EngineError("the model is gone")
        return f"<code>\n{sample}{CODE}"

    with pytest.raises(EngineError, match="the model is gone"):
        asyncio.run(group(fails, world).run(4))
    assert world.live == [0]


def test_long_responses_are_cut_in_the_middle() -> None:
    ((_, trajectory),) = run(
        by_turn(f"<code>\n{'y' * 400}{CODE}", f"<answer>\\boxed{{4}}{ANSWER}"), 1, tool_characters=20
    ).ends()
    assert "ran yyyyyy … 384 characters … yyyyyyyyyy" in trajectory.steps[0].shown
