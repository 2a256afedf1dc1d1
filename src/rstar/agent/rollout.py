"""Rollouts of one problem: the model and its tools take turns, on token ids, until the model answers.

The rollouts of a group grow as one tree. Those whose turns were the same so far share them: the turn is decoded once,
its calls are made once, and the record stores it once, with the number of rollouts as votes. They stay independent
samples, because a turn of k rollouts is k samples from one context.

Rules (arXiv 2508.20722, section 2):

* A turn without a call ends the rollout, with its answer if it has one.
* A call that cannot be read or made returns its error as the tool's response, and the rollout goes on.
* Text is only appended, never rendered again, so the ids of a trajectory are exactly what the model saw and wrote.
* Every rollout ends exactly once: with an answer, without one, at a limit, or at its deadline. The answer "unknown"
  counts as none, so that rollouts that give up do not outvote one that does not. A failure of the engine or the sandbox
  is no end but an exception: the whole group counts as never made.
* The time of a group begins with its first turn. Waiting for the engine before that is not the model's fault: an engine
  begins only as many rollouts at a time as it has room for. Nor is a busy sandbox: calls in it have its own limits, and
  their time does not count.
"""

from __future__ import annotations

import asyncio
import math
import re
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from rstar.agent.calls import BadCall, Call
from rstar.agent.environment import GIVEN_UP, Environment
from rstar.agent.tools import Session, ToolResult, cut_middle, refused
from rstar.agent.turns import Turns
from rstar.config import AgentConfig
from rstar.errors import ContextFullError, RstarError, SandboxError
from rstar.lifecycle import gather_or_cancel
from rstar.models.engine import Completion, Context, Engine, Request
from rstar.problems import Problem
from rstar.sandbox.api import Limits, Sandbox
from rstar.search.checks import completions
from rstar.seeds import derive
from rstar.trajectories import Segment, Step, ToolCall
from rstar.trees import Tree, TreeNode

_CHARACTERS = 4
"""Characters per token of a response, where the engine knows no ids."""


@dataclass(slots=True)
class Usage:
    """Cost of a group so far.

    Attributes:
        tokens_in: tokens of all contexts, as far as the engine knows them.
        tokens_out: sampled tokens, each rollout's counted.
        decoded: sampled tokens, shared ones counted once.
        turns: turns of all rollouts.
        calls: tool calls made.
    """

    tokens_in: int = 0
    tokens_out: int = 0
    decoded: int = 0
    turns: int = 0
    calls: int = 0


class _Lease:
    """A session and the number of branches that will still call it; released when none is left."""

    def __init__(self, session: Session) -> None:
        self.session, self.users = session, 1

    def leave(self) -> None:
        """One branch has made its calls."""
        self.users -= 1
        if not self.users:
            self.session.release()


@dataclass(frozen=True, slots=True)
class _Branch:
    """Rollouts with the same turns so far.

    Attributes:
        node: the last turn.
        context: model input for the next one.
        count: number of rollouts.
        used: tokens behind the prompt.
        place: child indices on the path from the root; names the random stream of the next turn.
        sandbox_seconds: of its calls in the sandbox, which do not count as time of the rollout.
        repeats: calls that failed as they had failed before.
    """

    node: TreeNode
    context: Context
    count: int
    used: int = 0
    place: tuple[int, ...] = ()
    sandbox_seconds: float = 0.0
    repeats: int = 0


class Group:
    """The rollouts of one problem.

    Args:
        problem: without its gold answer.
        engine, environment, turns, sandbox: open parts.
        config: limits and sampling.
        limits: of a tool call.
        seed: of all samples.
        after: a conversation that the problem continues as a further message; None: it begins one.
        on_turn: called with each turn once its tools have responded.

    Attributes:
        tree: the rollouts so far; `Tree.ends` has those that answered.
        usage: their cost.
    """

    def __init__(
        self,
        problem: Problem,
        engine: Engine,
        environment: Environment,
        turns: Turns,
        sandbox: Sandbox,
        config: AgentConfig,
        limits: Limits,
        seed: int,
        after: Context | None = None,
        on_turn: Callable[[Step], None] = lambda step: None,
    ) -> None:
        self._engine, self._turns, self._config, self._seed = engine, turns, config, seed
        self._environment, self._problem, self._sandbox, self._limits = environment, problem, sandbox, limits
        self._sandbox_tools = {tool.name for tool in environment.tools if tool.in_sandbox}
        self._max_turns = config.max_turns or environment.max_turns
        self._on_turn = on_turn
        self._begins = after is None
        if after is None:
            prompt = turns.prompt(problem.question, environment.system, environment.tools)
            self._start = engine.context(prompt)
        else:
            added = turns.message(problem.question)
            if after.text.endswith(turns.turn_end):  # not so if the turn broke off
                added = added.removeprefix(turns.turn_end)
            self._start = engine.append(after, added)
        root = TreeNode(None, None, 0, 0.0, None, 0, None, None)
        self.tree = Tree(Segment(self._start.text, "template", self._start.ids), [root])
        self.usage = Usage()
        self._deadline = math.inf  # until the first turn is there
        self._leases: list[_Lease] = []

    def start(self) -> Session:
        """The tools at the beginning."""
        return self._environment.start(self._problem, self._sandbox, self._limits)

    async def run(self, count: int, session: Session | None = None) -> Tree:
        """Make `count` rollouts, from `session` or the beginning.

        Raises:
            EngineError, SandboxError: infrastructure failed; no rollout of the group counts.
        """
        root = self.tree.nodes[0]
        root.votes = count
        lease = _Lease(session or self.start())
        self._leases = [lease]
        try:
            await self._go_on(_Branch(root, self._start, count), lease)
        finally:
            for lease in self._leases:  # a failure leaves some behind
                if lease.users:
                    lease.session.release()
            if self._begins:
                self._start.end()
        self.tree.nodes[:] = _in_order(root)
        return self.tree

    async def _go_on(self, branch: _Branch, lease: _Lease) -> None:
        """Sample the next turn of a branch, and go on with each part into which it splits."""
        try:
            parts = _parts(await self._sample(branch))
            lease.users += len(parts)
        except ContextFullError:
            branch.node.finish_reason = "length"
            return
        except TimeoutError:
            branch.node.finish_reason = "deadline"
            return
        finally:
            lease.leave()
        # Each part goes on by itself, on another replica if that is better.
        forks = [branch.context.fork() for _ in parts] if len(parts) > 1 else [branch.context]
        try:
            turns = zip(forks, parts, strict=True)
            await gather_or_cancel(
                self._take_turn(replace(branch, context=context), number, part, lease)
                for number, (context, part) in enumerate(turns)
            )
        finally:
            if len(forks) > 1:
                for context in forks:
                    context.end()

    async def _sample(self, branch: _Branch) -> Sequence[Completion]:
        config = self._config
        left = config.max_response_tokens - branch.used
        if left < 1:
            raise ContextFullError("the response is as long as it may be")
        request = Request(
            branch.context,
            max_tokens=min(config.max_turn_tokens, left),
            temperature=config.temperature,
            top_p=config.top_p,
            n=branch.count,
            stop=self._turns.stops,
            seed=derive(self._seed, *branch.place),
        )
        async with asyncio.timeout(max(0.0, self._deadline + branch.sandbox_seconds - time.monotonic())):
            found = await completions(self._engine, request)
        if self._deadline == math.inf:
            self._deadline = time.monotonic() + config.rollout_seconds
        usage = self.usage
        usage.tokens_in += len(branch.context.ids) or found[0].prompt_tokens
        usage.tokens_out += sum(map(_length, found))
        usage.turns += len(found)
        return found

    async def _take_turn(self, branch: _Branch, number: int, part: tuple[Completion, int], lease: _Lease) -> None:
        """Record a turn of part of a branch and make its calls; then go on, if it does not end the rollouts."""
        completion, count = part
        self.usage.decoded += _length(completion)
        ended = _ended(completion, self._turns.turn_end)
        step = Step((Segment(ended.text, "policy", ended.ids, ended.logprobs or None),), version=completion.version)
        node = TreeNode(branch.node, step, 0, 0.0, None, count, None, None)
        branch.node.children.append(node)
        self.tree.nodes.append(node)
        turn = self._turns.read(completion)
        if completion.stop_reason == "length":
            node.finish_reason = "length"
        elif not turn.calls:
            answer = None if turn.final is None else self._environment.answer(turn.final)
            gives_up = answer is not None and _plain(answer) == GIVEN_UP
            node.answer = None if gives_up else answer
            node.finish_reason = "gave_up" if gives_up else "no_answer" if answer is None else "answer"
        elif len(branch.place) + 1 >= self._max_turns:
            node.finish_reason = "too_deep"
        else:
            results, lease, sandbox_seconds = await self._make(turn.calls, lease, branch.sandbox_seconds)
            failed = next((result for result in results if result.status != "ok"), None)
            step = node.step = step._replace(
                calls=tuple(map(_record, turn.calls, results)),
                status=failed.status if failed else "ok",
                error=failed.error if failed else None,
            )
            repeats = branch.repeats + sum(result.repeats for result in results)
            if len(results) < len(turn.calls):
                node.finish_reason = "deadline"
            elif self._config.max_repeats is not None and repeats > self._config.max_repeats:
                node.finish_reason = "repeated"
        if node.finish_reason is not None:
            lease.leave()
            self._on_turn(step)
            return
        context = branch.context.extend(ended)
        added = self._turns.responses([result.text for result in results])
        longer = self._engine.append(context, added.removeprefix(self._turns.turn_end) if ended.end else added)
        shown = Segment(longer.text[len(context.text) :], "tool", longer.ids[len(context.ids) :])
        node.step = step._replace(segments=(*step.segments, shown))
        self._on_turn(node.step)
        used = branch.used + _length(completion) + (len(shown.ids) or len(shown.text) // _CHARACTERS)
        await self._go_on(_Branch(node, longer, count, used, (*branch.place, number), sandbox_seconds, repeats), lease)

    async def _make(
        self, calls: Sequence[Call | BadCall], lease: _Lease, sandbox_seconds: float
    ) -> tuple[list[ToolResult], _Lease, float]:
        """Make the calls of a turn in order, because each may need what an earlier one did.

        The branch gives up its use of `lease` for that of the returned one. If the rollout's own time is up during a
        call, the results are those of the calls before it.

        Returns:
            The results, the session after the calls, and `sandbox_seconds` with those of these calls.
        """
        results: list[ToolResult] = []
        for number, call in enumerate(calls):
            session = lease.session
            if isinstance(call, BadCall):
                result = refused(call.reason)
            elif number >= self._config.max_calls:
                result = refused(f"at most {self._config.max_calls} calls in a turn")
            else:
                started = time.monotonic()
                try:
                    session, result = await self._call(session, call, sandbox_seconds)
                except TimeoutError:
                    break
                if call.name in self._sandbox_tools:
                    sandbox_seconds += time.monotonic() - started
            results.append(result._replace(text=cut_middle(result.text, self._config.tool_characters)))
            if session is not lease.session:
                self._leases.append(below := _Lease(session))
                lease.leave()
                lease = below
        return results, lease, sandbox_seconds

    async def _call(self, session: Session, call: Call, sandbox_seconds: float) -> tuple[Session, ToolResult]:
        """Make one call within its time limit. Raises `TimeoutError` if the rollout's own time is up."""
        self.usage.calls += 1
        if call.name in self._sandbox_tools:
            return await _answered(session, call)
        seconds, deadline = self._config.tool_seconds, self._deadline + sandbox_seconds
        try:
            async with asyncio.timeout(max(0.0, min(seconds, deadline - time.monotonic()))):
                return await _answered(session, call)
        except TimeoutError:
            if time.monotonic() >= deadline:
                raise
            return session, ToolResult(f"Error: no response within {seconds:g} s", "timeout", "timeout")


async def _answered(session: Session, call: Call) -> tuple[Session, ToolResult]:
    """Make a call. A tool that fails in any way of its own is infrastructure that failed: `SandboxError`."""
    try:
        return await session.call(call)
    except RstarError:
        raise
    except Exception as error:
        raise SandboxError(f"the tool {call.name} failed: {type(error).__name__}: {error}") from error


def _plain(answer: str) -> str:
    """An answer without LaTeX around its words, capitals and the final stop."""
    return re.sub(r"\\text\{([^{}]*)\}", r"\1", answer).strip(" .").lower()


def _record(call: Call | BadCall, result: ToolResult) -> ToolCall:
    name, arguments = ("", {}) if isinstance(call, BadCall) else call
    return ToolCall(name, arguments, result.status, result.text)


def _in_order(root: TreeNode) -> list[TreeNode]:
    """All nodes, depth first: an order that does not depend on which tool responded first."""
    found, left = [], [root]
    while left:
        found.append(node := left.pop())
        left += reversed(node.children)
    return found


def _parts(completions: Sequence[Completion]) -> list[tuple[Completion, int]]:
    """Equal completions as one, with their number, in order of the first."""
    first: dict[tuple[object, ...], Completion] = {}
    counts: Counter[tuple[object, ...]] = Counter()
    for completion in completions:
        same = completion.text, completion.ids, completion.stop_reason, completion.end, completion.version
        first.setdefault(same, completion)
        counts[same] += 1
    return [(first[same], count) for same, count in counts.items()]


def _ended(completion: Completion, turn_end: str) -> Completion:
    """The completion with the end-of-sequence token that the model sampled, so that it is trained on, too.

    Log-probabilities are rounded as in stored trees: a training that reads its rollouts back goes on exactly.
    """
    ids, logprobs, text = completion.ids, completion.logprobs, completion.text
    if completion.end is not None:
        token, logprob = completion.end
        ids, logprobs, text = (*ids, token), (*logprobs, logprob), text + turn_end
    return replace(completion, text=text, ids=ids, logprobs=tuple(round(one, 5) for one in logprobs))


def _length(completion: Completion) -> int:
    return completion.n_tokens + (completion.end is not None)
