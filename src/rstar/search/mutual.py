"""Mutual reasoning: a generator searches over actions, and a peer model checks what it finds (arXiv 2408.06195).

The two models work at the same time: a solution is checked as soon as it exists, while the generator goes on. Results
do not depend on timing all the same: before each rollout the checks of all but the latest rollout are awaited, so the
token budget, which covers both models, is compared with the same count in every run.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import replace

from rstar.config import Config, MutualConfig
from rstar.errors import ConfigError
from rstar.grading import is_equivalent
from rstar.models.engine import Engine
from rstar.models.spec import check_model, open_engine
from rstar.problems import Problem
from rstar.prompts.domains import Domain, open_domain
from rstar.sandbox.api import Sandbox
from rstar.search.actions import check_openings
from rstar.search.choose import Equivalence
from rstar.search.discriminate import Candidate, Discriminator, choose_candidate, survivors
from rstar.search.generate import Generator
from rstar.search.notices import notices
from rstar.search.solver import Solution, Solver, failures_of
from rstar.search.tree import Node, snapshot
from rstar.seeds import derive
from rstar.specs import Bundled, Model


class MutualSolver(Solver):
    """A `Solver` whose method is ``mutual``.

    Args:
        config: its `search` is a `MutualConfig`.
        policy, sandbox, equivalent: see `Solver`.
        peer: checks solutions, instead of `config.search.peer`.

    Raises:
        ConfigError: a model or the domain is missing, or a bundled model cannot write steps of the domain.
    """

    def __init__(
        self,
        config: Config,
        *,
        policy: Engine | None = None,
        peer: Engine | None = None,
        sandbox: Sandbox | None = None,
        equivalent: Equivalence = is_equivalent,
    ) -> None:
        super().__init__(config, policy=policy, sandbox=sandbox, equivalent=equivalent)
        if not isinstance(config.search, MutualConfig):
            raise ConfigError(f"search.method {config.search.method!r}: MutualSolver needs 'mutual'")
        self.settings = config.search
        self.domain = domain_of(config)
        self._given_peer = peer
        self._peer: Engine | None = None
        own = config.policy if policy is None else None
        other = self.settings.peer if peer is None else None
        _refuse_text(self.domain, {"policy": own, "search.peer": other})
        if self.settings.peer is not None and peer is None:
            check_model(self.settings.peer)

    async def _open(self) -> None:
        await super()._open()
        peer = self._given_peer
        try:
            if peer is None and self.settings.discriminate and self.settings.peer not in (None, self.config.policy):
                assert self.settings.peer is not None
                peer = await asyncio.to_thread(open_engine, self.settings.peer, self.config.engine)
            if peer is None:
                self._peer = self._parts[0]
                return
            async with AsyncExitStack() as stack:
                self._peer = await stack.enter_async_context(peer)
                self._opened.push_async_exit(stack.pop_all())
        except BaseException:
            await self._close()
            raise

    async def _close(self) -> None:
        self._peer = None
        await super()._close()

    async def solve_one(self, problem: Problem) -> Solution:
        """Search one problem and let the peer check the solutions. The solver must be open (``async with solver:``)."""
        started, config, (policy, sandbox) = time.perf_counter(), self.settings, self._parts
        assert self._peer is not None
        seed = derive(self.config.seed, problem.id, config.method)
        shots = _shots(self.config.policy, config)
        parts = sandbox, config, self._limits()
        generator = Generator(problem, self.domain, policy, *parts, seed, shots, self.equivalent)
        shots = shots if config.peer is None else _shots(config.peer, config)
        peer_seed = derive(seed, "peer")
        discriminator = Discriminator(problem, self.domain, self._peer, *parts, peer_seed, shots, self.equivalent)
        try:
            candidates = await self._run(generator, discriminator)
            return await self._chosen(problem, generator, discriminator, candidates, started)
        finally:
            generator.release()
            discriminator.release()

    async def _run(self, generator: Generator, discriminator: Discriminator) -> list[Candidate]:
        """All rollouts, and the check of each solution."""
        config, checks, before = self.settings, list[asyncio.Task[Candidate]](), 0
        try:
            while generator.rollouts < config.rollouts and not generator.root.closed:
                checked = await asyncio.gather(*checks[:before])
                spent = generator.usage.tokens_out + sum(candidate.tokens for candidate in checked)
                if config.max_tokens is not None and spent >= config.max_tokens:
                    break
                before = len(checks)
                node = await generator.rollout()
                if node is not None:
                    checks.append(asyncio.create_task(self._check(discriminator, node)))
            return list(await asyncio.gather(*checks))
        except BaseException:
            for check in checks:
                check.cancel()
            await asyncio.gather(*checks, return_exceptions=True)
            raise

    async def _check(self, discriminator: Discriminator, node: Node) -> Candidate:
        return await discriminator.check(node) if self.settings.discriminate else Candidate(node)

    async def _chosen(
        self,
        problem: Problem,
        generator: Generator,
        discriminator: Discriminator,
        candidates: list[Candidate],
        started: float,
    ) -> Solution:
        config, root = self.settings, generator.root
        chosen = await choose_candidate(candidates, config.final, self.equivalent)
        kept = {id(candidate) for candidate in survivors(candidates)}
        trajectories = tuple(
            replace(one.node.trajectory(), value=one.score if id(one) in kept else one.score - 1) for one in candidates
        )
        used = generator.usage, discriminator.usage
        return Solution(
            problem=problem,
            answer=chosen.node.answer if chosen else None,
            value=chosen.score if chosen else None,
            method=config.method,
            rollouts=generator.rollouts,
            expansions=sum(usage.expansions for usage in used),
            steps=sum(usage.runs for usage in used),
            tokens_in=sum(usage.tokens_in for usage in used),
            tokens_out=sum(usage.tokens_out for usage in used),
            seconds=time.perf_counter() - started,
            trajectories=trajectories,
            failures=failures_of(root),
            notices=notices(self.config, self._own_parts, root, problem.question, None),
            tree=snapshot(root) if config.keep_trees else None,
            peer_tokens=discriminator.usage.tokens_out,
        )


def domain_of(config: Config) -> Domain:
    """The domain of a configuration whose method is ``mutual``. Raises `ConfigError`."""
    assert isinstance(config.search, MutualConfig)
    name = config.search.domain
    if name == "auto":
        name = "programs" if isinstance(config.policy, Bundled) else "word-problems"
    domain = open_domain(name, config.search.actions)
    check_openings(domain)
    return domain


def _refuse_text(domain: Domain, models: Mapping[str, Model | None]) -> None:
    """Raise `ConfigError` if a bundled model is to write steps of text."""
    for role, model in models.items():
        if isinstance(model, Bundled) and not domain.code:
            raise ConfigError(
                f"search.domain {domain.name!r}: its steps are text, but {role} {str(model)!r} was trained on steps of "
                "code only; use a domain of code, such as 'programs', or another model"
            )


def _shots(model: Model, config: MutualConfig) -> int:
    """Worked examples for a model; the bundled ones are trained on the actions."""
    return 0 if isinstance(model, Bundled) else config.shots
