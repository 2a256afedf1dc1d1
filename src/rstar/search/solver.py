"""Solves many problems concurrently: one coroutine per problem on one engine and one sandbox.

Solutions are yielded as they finish; none waits for the slowest. The solver receives `Problem`s, which hold no gold
answer; the caller grades afterwards. A failure of the engine or the sandbox ends the whole call with its exception and
is never turned into a wrong answer.
"""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass, field, replace
from typing import Any

from rstar.config import AgentConfig, AnySearch, Config, MutualConfig
from rstar.errors import ConfigError, DataError, EngineError, SandboxError
from rstar.grading import is_equivalent
from rstar.judge.client import JudgeClient, JudgeSandbox
from rstar.judge.settings import read_token
from rstar.lifecycle import SharedContext, run_bounded
from rstar.models.engine import Engine
from rstar.models.spec import check_model, is_local, open_engine, uses_chat
from rstar.problems import Problem
from rstar.sandbox import LocalSandbox
from rstar.sandbox.api import Limits, Sandbox
from rstar.search.checks import check_parts, checked_await, checked_equivalence, scores
from rstar.search.choose import Equivalence, Votes, choose_as_set
from rstar.search.code_steps import CODE_STEPS
from rstar.search.expand import Expander
from rstar.search.fenced import FENCED
from rstar.search.format import Format
from rstar.search.methods import METHODS, Search
from rstar.search.notices import Notice, notices
from rstar.search.tree import Node, snapshot
from rstar.search.value import Value, open_value, value_name
from rstar.seeds import derive
from rstar.trajectories import Trajectory
from rstar.trees import Tree

_MANY, _FEW = 64, 16

_VALUES = 4
"""Number of newly bound variables that each run reports."""


@dataclass(frozen=True, slots=True)
class Solution:
    """Result of the search for one problem.

    Attributes:
        problem: the problem.
        answer: chosen answer; None if no trajectory reached one.
        value: of the chosen trajectory.
        method: search method.
        rollouts: trajectories sampled, or descents of MCTS.
        expansions: nodes expanded.
        steps: steps whose code ran.
        tokens_in: prompt tokens over all requests, as far as the engine knows them.
        tokens_out: generated tokens over all samples.
        seconds: wall time from the start of this problem.
        trajectories: every distinct trajectory that reached an answer, scored.
        failures: number of branches that ended without an answer, by reason.
        notices: warnings about the answer (see `rstar.search.notices`).
        tree: search tree; None if it is not kept.
        peer_tokens: those of the generated tokens that a peer model generated.
        selections: children that MCTS has selected, on the way down in all its rollouts.
        choices: selections among several open children.
        agent: how an agent's rollouts went (`rstar.agent.solver.rollout_counts`); empty for other methods.
    """

    problem: Problem
    answer: str | None
    value: float | None
    method: str
    rollouts: int
    expansions: int
    steps: int
    tokens_in: int
    tokens_out: int
    seconds: float
    trajectories: tuple[Trajectory, ...]
    failures: dict[str, int]
    notices: tuple[Notice, ...]
    tree: Tree | None
    peer_tokens: int = 0
    selections: int = 0
    choices: int = 0
    agent: dict[str, int] = field(default_factory=dict)


class Solver(SharedContext):
    """Solves problems with one model.

    Every part can be replaced by an object with the same few methods; the configuration provides the rest. Policy and
    sandbox, including supplied ones, are opened with the solver and closed when its last user leaves.

    Args:
        config: the configuration; default: MCTS with the bundled model.
        policy: samples steps, instead of `config.policy`.
        value: scores solutions, instead of `config.value`.
        sandbox: runs steps, instead of one from `config.sandbox`.
        search: grows the tree of a problem, instead of `config.search.method`: see `rstar.search.methods`.
        equivalent: whether two answers are the same; used to group answers, never against a gold answer.

    Raises:
        ConfigError: a model is missing, or a part lacks a method; during a search, a part returns something invalid
            (see `rstar.search.checks`).

    Example:
        >>> for solution in Solver().solve([Problem("1", "Solve for x: 7x + 5 = 61.")]):  # doctest: +SKIP
        ...     print(solution.answer)
    """

    def __init__(
        self,
        config: Config | None = None,
        *,
        policy: Engine | None = None,
        value: Value | None = None,
        sandbox: Sandbox | None = None,
        search: Callable[[Search[Any]], Awaitable[None]] | None = None,
        equivalent: Equivalence = is_equivalent,
    ) -> None:
        super().__init__()
        self.config = config or Config()
        check_parts(policy=policy, value=value, sandbox=sandbox, search=search, equivalent=equivalent)
        if policy is None:
            check_model(self.config.policy)
        name = value_name(self.config, own_policy=policy is not None)
        self.value = value or open_value(name, self.config.engine.device)
        self.equivalent = checked_equivalence(equivalent)
        self._own_parts = policy is not None or value is not None
        self._search = search or METHODS.get(self.config.search.method)
        self._given = policy, sandbox
        self._policy: Engine | None = None
        self._sandbox: Sandbox | None = None
        self._opened = AsyncExitStack()

    async def _open(self) -> None:
        """Open policy and sandbox. Raises `ConfigError`, `EngineError` or `IsolationError`."""
        policy, sandbox = self._given
        if policy is None:
            policy = await asyncio.to_thread(open_engine, self.config.policy, self.config.engine)
        async with AsyncExitStack() as stack:
            self._policy = await stack.enter_async_context(policy)
            self._sandbox = await stack.enter_async_context(sandbox or self._open_sandbox())
            self._opened = stack.pop_all()

    async def _close(self) -> None:
        self._policy = self._sandbox = None
        await self._opened.aclose()

    def _open_sandbox(self) -> Sandbox:
        config = self.config.sandbox
        if config.place != "local":
            token = None if config.token_file is None else read_token(config.token_file)
            return JudgeSandbox(JudgeClient(config.place, token), self._limits())
        return LocalSandbox(
            level=config.level,
            workers=config.workers,
            limits=self._limits(),
            memory_budget_mb=config.budget_mb,
            total_mb=config.total_mb,
        )

    def _limits(self) -> Limits:
        config = self.config.sandbox
        return Limits(config.seconds, memory_mb=config.memory_mb, output_bytes=config.output_bytes, values=_VALUES)

    @property
    def _parts(self) -> tuple[Engine, Sandbox]:
        """Policy and sandbox. Raises `RuntimeError` if they are not open."""
        if self._policy is None or self._sandbox is None:
            raise RuntimeError("the solver is not open: use `async with solver:`")
        return self._policy, self._sandbox

    @property
    def _concurrency(self) -> int:
        """Problems searched at once. A few keep a sampling local model busy; with fewer, results are stored earlier."""
        config = self.config
        if config.search.concurrency is not None:
            return config.search.concurrency
        local = self._given[0] is None and is_local(config.policy)
        return _FEW if local and config.search.method != "greedy" else _MANY

    async def solve_one(self, problem: Problem) -> Solution:
        """Search one problem. The solver must be open (``async with solver:``)."""
        policy, sandbox = self._parts
        config = self.config.search
        if isinstance(config, AgentConfig | MutualConfig) or self._search is None:
            raise ConfigError(f"search.method {config.method!r}: use rstar.agent.solver.open_solver")
        started = time.perf_counter()
        seed = derive(self.config.seed, problem.id, config.method)
        form = await self._format(config, policy)
        prompt = form.prompt(problem.question, config.shots)
        expander = Expander(prompt, form, policy, sandbox, config, self._limits(), seed)
        search = Search(problem, config, expander, self.value, Votes(self.equivalent))
        try:
            await checked_await("search", self._search, self._search(search))
            return await self._solution(search, started)
        finally:
            expander.release()

    async def _format(self, config: AnySearch, policy: Engine) -> Format:
        """The format of the steps: as configured or, for a server, by its API."""
        chat = config.format == "auto" and await uses_chat(policy)
        return FENCED if chat or config.format == "fenced" else CODE_STEPS

    async def _solution(self, search: Search[Any], started: float) -> Solution:
        """Choose the answer, after scoring all answers again with the complete votes."""
        config, usage = search.config, search.expander.usage
        root = search.expander.root
        nodes = [node for node in root.walk() if node.answer is not None]
        values = await scores(self.value, search.problem, [node.trajectory() for node in nodes], search.votes)
        for node, value in zip(nodes, values, strict=True):
            node.value = value
        weighed = zip(nodes, search.masses(nodes), strict=True)
        trajectories = tuple(replace(node.trajectory(), mass=mass) for node, mass in weighed)
        chosen = await choose_as_set(trajectories, config, self.value.name, self.equivalent)
        value = chosen.value if chosen else None
        if config.record_tokens and any(node.step is not None and node.step.lacks_logprobs for node in root.walk()):
            raise EngineError("search.record_tokens: this model does not report log-probabilities")
        return Solution(
            problem=search.problem,
            answer=chosen.answer if chosen else None,
            value=value,
            method=config.method,
            rollouts=search.rollouts,
            expansions=usage.expansions,
            steps=usage.runs,
            tokens_in=usage.tokens_in,
            tokens_out=usage.tokens_out,
            seconds=time.perf_counter() - started,
            trajectories=trajectories,
            failures=failures_of(root),
            notices=notices(self.config, self._own_parts, root, search.problem.question, value),
            tree=snapshot(root) if config.keep_trees else None,
            selections=usage.selections,
            choices=usage.choices,
        )

    async def asolve(self, problems: Iterable[Problem]) -> AsyncIterator[Solution]:
        """Yield solutions as they finish, in no particular order; at most `search.concurrency` problems at a time.

        Raises:
            DataError: an item is not a problem, or an id repeats.
            EngineError: the model or its server failed; names the problem.
            SandboxError: the sandbox failed; names the problem.
        """
        async with self:
            jobs = ((problem, self.solve_one(problem)) for problem in _checked(problems))
            async with aclosing(run_bounded(jobs, self._concurrency)) as finished:
                async for problem, task in finished:
                    yield _result(task, problem)

    def solve(self, problems: Iterable[Problem]) -> Iterator[Solution]:
        """Synchronous `asolve`: runs in a thread, so it also works inside an event loop, such as a notebook's."""
        results: queue.Queue[Solution | BaseException | None] = queue.Queue()
        loop = asyncio.new_event_loop()

        async def pump() -> None:
            async for solution in self.asolve(problems):
                results.put(solution)

        def run() -> None:
            try:
                loop.run_until_complete(task)
                results.put(None)
            except BaseException as error:
                results.put(error)

        task = loop.create_task(pump())
        thread = threading.Thread(target=run, name="rstar-solver", daemon=True)
        thread.start()
        try:
            while (item := results.get()) is not None:
                if isinstance(item, BaseException):
                    raise item
                yield item
        finally:
            loop.call_soon_threadsafe(task.cancel)  # no effect on a finished task
            thread.join()
            if not loop.is_running():  # at interpreter exit the thread stops midway
                loop.close()


def _checked(problems: Iterable[Problem]) -> Iterator[Problem]:
    """Yield the problems, each validated before it is solved."""
    if isinstance(problems, str | Problem):
        raise DataError(f"expected a list of problems, not {problems!r}")
    seen: set[str] = set()
    for problem in problems:
        if not isinstance(problem, Problem) or not problem.question.strip():
            raise DataError(f"not a problem with a question: {problem!r}")
        if problem.id in seen:
            raise DataError(f"two problems have the id {problem.id!r}")
        seen.add(problem.id)
        yield problem


def _result(task: asyncio.Task[Solution], problem: Problem) -> Solution:
    where = f"problem {problem.id!r}: " if problem.id else ""
    try:
        return task.result()
    except EngineError as error:
        raise EngineError(f"{where}{error}") from error
    except SandboxError as error:
        raise SandboxError(f"{where}{error}") from error


def failures_of(root: Node) -> dict[str, int]:
    """Number of branches that ended without an answer, by reason."""
    reasons = Counter(str(node.finish_reason) for node in root.walk() if node.finish_reason and node.answer is None)
    return dict(sorted(reasons.items()))
