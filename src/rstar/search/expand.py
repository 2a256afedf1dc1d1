"""Expansion: sample steps from the policy, run their code, find answers.

Only this module of search calls the model and the sandbox; greedy, sampling, beam and MCTS differ only in which node
they expand next. A `rstar.search.format.Format` defines the form of the steps. Rules (arXiv 2501.04519, section 3.2,
and its published code):

* A step's code runs from the interpreter state of its parent. More failed steps in a row than `errors_threshold` end
  the branch.
* The policy is shown the output of a complete program and writes the answer. The answer copies the output, so it is
  sampled once, greedily, and belongs to the same node as the code before it.
* A sample whose stop string came too early is continued, each by its own random stream.
* Samples of one expansion with the same text are merged into one node with several votes; so are samples that finish
  with the same answer text. Where they are not merged, equal code from one interpreter state still runs once.

Model errors (no step, failing code, no answer) are data: a closed node with its reason. Engine and sandbox failures are
exceptions and propagate.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass, replace
from typing import Any

from rstar.config import AnySearch, MutualConfig
from rstar.errors import ContextFullError
from rstar.lifecycle import gather_or_cancel
from rstar.models.engine import Completion, Engine, Request
from rstar.sandbox.api import Limits, Result, Sandbox, State
from rstar.search.checks import checked_await, completions, invalid_return
from rstar.search.format import Format, Reading
from rstar.search.samples import chance_of, distinct, merged, more_samples
from rstar.search.stated import printed_answer
from rstar.search.states import SharedState
from rstar.search.tree import Node, close, fail
from rstar.seeds import derive
from rstar.trajectories import FinishReason, Segment, Step

_PARTS = 32
"""Maximum number of requests for one step whose stop string comes too early."""


@dataclass(slots=True)
class Usage:
    """Cost of one problem so far: policy tokens and sandbox runs.

    `selections` counts the children that a tree search has selected, and `choices` those that had open siblings.
    """

    tokens_in: int = 0
    tokens_out: int = 0
    samples: int = 0
    expansions: int = 0
    runs: int = 0
    selections: int = 0
    choices: int = 0


@dataclass(slots=True)
class Expansion:
    """Result of an expansion: the new children, and whether earlier children exist, whose mass has changed."""

    children: list[Node]
    widened: bool


class Expander:
    """Grows the tree of one problem.

    Args:
        prompt: the policy's input before the first step.
        format: of the steps.
        policy: samples the steps.
        sandbox: runs them.
        config: search settings.
        limits: of one step's run.
        seed: the problem's seed. Expansion k of a node has its own random stream, derived from (seed, place of the
            node, k), so nodes can be expanded concurrently.
    """

    def __init__(
        self,
        prompt: str,
        format: Format,
        policy: Engine,
        sandbox: Sandbox,
        config: AnySearch | MutualConfig,
        limits: Limits,
        seed: int,
    ) -> None:
        self._format, self._policy, self._config = format, policy, config
        self._temperature, self._top_p = (0.0, 1.0) if config.method == "greedy" else (config.temperature, config.top_p)
        self._limits = limits
        self._seed = seed
        self.usage = Usage()
        start_state = sandbox.start()
        self.root = Node(None, None, policy.context(prompt), SharedState(start_state).keep())
        self._states = [start_state]
        self._runs: dict[tuple[int, str, bool], asyncio.Future[Any]] = {}

    def release(self) -> None:
        """End the contexts, and release all interpreter states, those of children of a cancelled expansion included."""
        self.root.context.end()
        for state in self._states:
            state.release()

    @property
    def spent(self) -> bool:
        """Whether the problem's token budget is used up."""
        budget = self._config.max_tokens
        return budget is not None and self.usage.tokens_out >= budget

    @property
    def affordable(self) -> int | None:
        """Number of samples, at the mean length so far, within the remaining token budget; None without a budget."""
        budget = self._config.max_tokens
        if budget is None:
            return None
        length = max(1.0, self.usage.tokens_out / self.usage.samples) if self.usage.samples else 1.0
        return max(0, int((budget - self.usage.tokens_out) / length))

    async def expand(self, node: Node, n: int, *, merge: bool = True, whole: bool = False) -> Expansion:
        """Sample `n` continuations of `node` and attach them as children.

        Args:
            node: an open node; it is marked as expanded, and closed if no child is open.
            n: number of samples; with `merge`, the maximum: see `rstar.search.samples.more_samples`.
            merge: merge samples of equal text into one child; otherwise there are n children.
            whole: sample the whole program at once instead of one step.

        Returns:
            All new children, including failed ones (closed, with their `finish_reason`). A node that is expanded again
            keeps its earlier children; samples that repeat one are votes for it. A node whose context is full gets no
            children and fails.
        """
        try:
            samples = merged(await self._sampled(node, n, merge=merge, whole=whole), merge)
        except ContextFullError:
            failed(node, "length")
            close(node)
            return Expansion([], False)
        repeated = [(node.texts[sample.text], votes) for sample, votes in samples if sample.text in node.texts]
        new = [(sample, votes) for sample, votes in samples if sample.text not in node.texts]
        if merge:
            node.known += [sample for sample, _ in new]
        read = self._format.read
        children = await gather_or_cancel(self.grow(node, sample, read(sample), votes, merge) for sample, votes in new)
        if merge:
            children = _one_per_answer(node, children, repeated)
        for child, votes in repeated:
            child.votes += votes
        for index, child in enumerate(children, len(node.children)):
            child.place = (*node.place, index)
        node.expanded = True
        node.children += tuple(children)
        if all(child.closed for child in node.children):
            close(node)
        return Expansion(children, len(node.children) > len(children) or bool(repeated))

    async def _sampled(self, node: Node, n: int, *, merge: bool, whole: bool) -> list[Completion]:
        """At most `n` samples, as many as `_ask` asks for, each to the end of its step."""
        limit = self._config.max_step_tokens * (self._config.max_depth if whole else 1)
        number = node.expansions
        found = await self._ask(node, n, limit, merge=merge, whole=whole)
        if not any(self._format.read(completion).more for completion in found):
            return found
        streams = [derive(self._seed, *node.place, "extension", number, index) for index in range(len(found))]
        parts = zip(found, streams, strict=True)
        return await gather_or_cancel(self._extended(node, one, limit, stream) for one, stream in parts)

    async def _ask(self, node: Node, n: int, limit: int, *, merge: bool, whole: bool) -> list[Completion]:
        """At most `n` samples of at most `limit` tokens: all, or with `merge` as many as are likely to differ.

        Once the token budget is spent, no more are asked for.
        """
        request = Request(
            node.context,
            max_tokens=limit,
            temperature=self._temperature,
            top_p=self._top_p,
            n=n,
            stop=self._format.stops(whole=whole),
            seed=derive(self._seed, *node.place, "expansion", node.expansions),
        )
        node.expansions += 1
        self.usage.expansions += 1
        if not merge or n == 1:
            return await self._complete(request)
        found: list[Completion] = []
        while (more := more_samples(node, found, n)) and not (found and self.spent):
            known = tuple(distinct([*node.known, *found]))
            found += await self._complete(replace(request, n=more, first=len(found), known=known))
        return found

    async def _complete(self, request: Request) -> list[Completion]:
        found = await completions(self._policy, request)
        self.usage.tokens_in += len(request.context.ids) or found[0].prompt_tokens
        self.usage.tokens_out += sum(completion.n_tokens for completion in found)
        self.usage.samples += len(found)
        return found

    async def grow(
        self, parent: Node, completion: Completion, reading: Reading, votes: int = 1, merge: bool = True
    ) -> Node:
        """The child of `parent` for a parsed completion; it is not attached.

        Its code runs and, after a complete program, the answer is sampled.
        """
        chance = chance_of(completion)
        child = Node(
            parent,
            Step((_written(completion),)),
            parent.context.extend(completion),
            state=None,
            stdout=parent.stdout,
            depth=parent.depth + 1,
            votes=votes,
            logprob=None if parent.logprob is None or chance is None else parent.logprob + sum(completion.logprobs),
            chance=chance,
            length=len(completion.ids) or len(completion.text),
        )
        if reading.more:  # it goes on and on
            return failed(child, "length")
        if reading.failure == "no_answer" and (printed := printed_answer(parent.stdout, completion.text)) is not None:
            return _finished(child, printed)
        if reading.failure is not None:
            return failed(child, reading.failure)
        if reading.answer is not None:
            return _finished(child, reading.answer)
        if reading.code is None:
            child.state = None if parent.state is None else parent.state.keep()
            return failed(child, "too_deep") if child.depth >= self._config.max_depth else child
        run = (
            self._first_run(parent, reading.code)
            if merge
            else self._shared_run(parent, reading.code, ends=reading.complete)
        )
        result = await self._adopt(parent, child, run)
        if not result.ok:
            child.errors = parent.errors + 1
            if child.errors > self._config.errors_threshold or child.state is None:
                return failed(child, "code_error")
        if reading.complete:
            return await self._answer(child, child.stdout or (_output(result) if reading.shows else ""))
        if reading.shows:
            self._show(child, _output(result))
        return failed(child, "too_deep") if child.depth >= self._config.max_depth else child

    async def _extended(self, parent: Node, completion: Completion, limit: int, stream: int) -> Completion:
        """A completion with what the policy writes after stop strings that came too early, up to `limit` tokens.

        `stream` seeds it.
        """
        for part in range(_PARTS):
            if not self._format.read(completion).more:
                break
            left = limit - completion.n_tokens
            too_long = replace(completion, stop_reason="length", stop=None)
            if left <= 0 or self.spent:
                return too_long
            request = Request(
                parent.context.extend(completion),
                max_tokens=left,
                temperature=self._temperature,
                top_p=self._top_p,
                stop=self._format.stops(whole=False),
                seed=derive(stream, part),
            )
            try:
                (rest,) = await self._complete(request)
            except ContextFullError:
                return too_long
            completion = completion.followed_by(rest)
        return completion

    def _shared_run(self, parent: Node, code: str, *, ends: bool) -> asyncio.Future[tuple[SharedState | None, Result]]:
        """The run of `code` from the parent's state; nodes with the same state share it.

        They have the same program so far. Those whose program `ends` do not share it with the others, so either all or
        none of them continue from the new state.
        """
        place = id(parent.state), code, ends
        if place not in self._runs:
            self._runs[place] = asyncio.ensure_future(self._first_run(parent, code))
        return self._runs[place]

    async def _first_run(self, parent: Node, code: str) -> tuple[SharedState | None, Result]:
        assert parent.state is not None, "an open node has a state to run from"
        before = parent.state.state
        outcome = await checked_await("sandbox state", before, before.run(code, self._limits))
        if not (isinstance(outcome, tuple) and len(outcome) == 2 and isinstance(outcome[1], Result)):
            raise invalid_return("sandbox state", before, outcome, "a pair of the new state, or None, and a Result")
        state: State | None = outcome[0]
        if state is not None:
            self._states.append(state)
        self.usage.runs += 1
        return None if state is None else SharedState(state), outcome[1]

    async def _adopt(self, parent: Node, child: Node, run: Awaitable[tuple[SharedState | None, Result]]) -> Result:
        """Take over the state, the output and the status of a run."""
        state, result = await run
        child.state = None if state is None else state.keep()
        child.stdout = parent.stdout + result.stdout
        assert child.step is not None
        child.step = Step(child.step.segments, result.status, result.failure, result.values)
        return result

    def _show(self, child: Node, output: str) -> None:
        """Show the output of the step's code."""
        assert child.step is not None
        new_line = "" if child.context.text.endswith("\n") else "\n"
        context = self._policy.append(child.context, new_line + self._format.shown(output))
        text, ids = context.text[len(child.context.text) :], context.ids[len(child.context.ids) :]
        child.step = child.step._replace(segments=(*child.step.segments, Segment(text, "tool", ids)))
        child.context = context

    async def _answer(self, child: Node, output: str) -> Node:
        """Show the output and sample the answer; both become segments of the child's step."""
        step, before = child.step, child.context
        assert step is not None
        context = self._policy.append(before, self._format.shown(output))
        shown = Segment(context.text[len(before.text) :], "tool", context.ids[len(before.ids) :])
        request = Request(
            context, max_tokens=self._format.answer_tokens, temperature=0.0, stop=(self._format.answer_stop,)
        )
        try:
            (completion,) = await self._complete(request)
        except ContextFullError:  # the output was too long for the model
            child.step = step._replace(segments=(*step.segments, shown))
            return failed(child, "length")
        child.step = Step((*step.segments, shown, _written(completion)), step.status, step.error, step.values)
        return _finished(child, self._format.answer(completion.text))


def _one_per_answer(node: Node, children: list[Node], repeated: list[tuple[Node, int]]) -> list[Node]:
    """The new `children` that stay; the others become votes for the child with the same answer."""
    old = {child.answer: child for child in node.children if child.answer is not None}
    kept: dict[str, Node] = {}
    for child in children:
        assert child.step is not None
        representative = child
        if child.answer in old:
            representative = old[child.answer]
            repeated.append((representative, child.votes))
            _add_chance(representative, child)
        elif child.answer is not None and (representative := kept.setdefault(child.answer, child)) is not child:
            representative.votes += child.votes
            _add_chance(representative, child)
        node.texts[child.step.written.text] = representative
    return [child for child in children if child.step is not None and node.texts[child.step.written.text] is child]


def _add_chance(node: Node, other: Node) -> None:
    if node.chance is not None and other.chance is not None:
        node.chance += other.chance


def _output(result: Result) -> str:
    """What code printed, and its error; without either, the values of its variables."""
    values = "\n".join(f"{name} = {value}" for name, value in result.values)
    return "\n".join(part for part in (result.stdout.strip("\n"), result.failure) if part) or values


def _written(completion: Completion) -> Segment:
    return Segment(completion.text, "policy", completion.ids, completion.logprobs or None)


def failed(child: Node, reason: FinishReason) -> Node:
    """End the solution at `child`, without an answer."""
    child.finish_reason = reason
    fail(child)
    return _without_state(child)


def _finished(child: Node, answer: str | None) -> Node:
    if answer is None:
        return failed(child, "no_answer")
    child.answer, child.finish_reason = answer, "answer"
    child.closed = True
    return _without_state(child)


def _without_state(child: Node) -> Node:
    if child.state is not None:
        child.state.leave()
        child.state = None
    return child
